"""Write what the commands in the pages print into the pages: ``python tests/docs/rewrite.py``, from the checkout."""

import os
import tempfile
from pathlib import Path

from snippets import blocks, comparable
from test_shown import PAGES, printed


def rewrite(page: Path) -> None:
    """Run the page's commands in order, in a folder with its files, and put their outputs below them."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        for block in blocks(page):
            if block.file:
                Path(block.file).write_text(block.text)
            elif block.language == "console" and block.known:
                new = "".join(f"$ {line}\n{_kept(printed(words), old)}\n" for line, words, old in block.commands)
                text = text.replace(f"```console\n{block.text}```", f"```console\n{new}```", 1)
    page.write_text(text, encoding="utf-8")


def _kept(new: str, old: str) -> str:
    """The new output, unless it differs from the old in times alone."""
    lines = (old if comparable(new) == comparable(old) else new.replace(" (cached)", "")).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip()


if __name__ == "__main__":
    for path in PAGES:
        rewrite(path)
