"""The code blocks of a page, as the tests run them.

* ``python`` after ``<!-- file: NAME -->`` (and ``toml``): the file of that name.
* ``python`` without it: run, in order, all of a page in one namespace.
* ``console``: lines that start with ``$ `` are commands; the lines below are what they print.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n+)?```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL)
_TIME = re.compile(r"\d+\.\d\d s( \(cached\))?")


@dataclass(frozen=True)
class Block:
    """A code block of a page; ``line`` is its first line (1-based)."""

    language: str
    text: str
    file: str
    line: int

    @property
    def commands(self) -> list[tuple[str, list[str], str]]:
        """A console block's commands: as written, split into words, and what each prints."""
        found: list[tuple[str, list[str], str]] = []
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            while line.endswith("\\"):
                more, _, output = output.partition("\n")
                line = f"{line}\n{more}"
            found.append((line, shlex.split(line.replace("\\\n", " ")), output))
        return found

    @property
    def known(self) -> bool:
        """Whether the tests can run its commands."""
        return all(words[0] in ("mypy", "typedpallas") for _, words, _ in self.commands)


def blocks(page: Path) -> list[Block]:
    """All code blocks, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(m["language"], m["text"], m["file"] or "", text[: m.start("text")].count("\n") + 1)
        for m in _BLOCK.finditer(text)
    ]


def comparable(output: str) -> str:
    """Output without what differs from run to run: times, blanks at the ends of lines."""
    lines = [line.rstrip() for line in _TIME.sub("0.00 s", output).splitlines()]
    return "\n".join(lines).strip()
