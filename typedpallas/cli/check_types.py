"""``typedpallas check --level types``: mypy with the plugin on files, and what types leave open."""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from typedpallas.cli import mypying, show, targets, terminal
from typedpallas.cli.mypying import Error
from typedpallas.cli.names import UsageError
from typedpallas.diagnostics import render

_PLUGIN = "typedpallas_mypy"
_CONFIGS = ("mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg")
"""Where mypy looks for its settings in the working directory."""


def run(options: argparse.Namespace) -> int:
    """Check, print, and return 1 if mypy has an error."""
    wrong = [name for name in ("args", "blocks", "backend", "compile") if getattr(options, name)]
    if wrong:
        raise UsageError(f"--level types looks at all sizes at once; it takes no --{wrong[0]}")
    path = Path(options.what)
    if not path.exists():
        raise UsageError(f"--level types takes a file or a folder; there is no `{options.what}`")
    chosen = targets.named(options.target) if options.target else targets.configured(Path.cwd())
    found = _found(path, chosen, options.show_open)
    _print(found, options.format)
    return int(any(item.diagnostic.verdict == "refuted" for item in found))


def _found(path: Path, chosen: Sequence[str], show_open: bool) -> list[Error]:
    """What mypy says, under the project's own configuration where that names the plugin."""
    settings = {"TYPEDPALLAS_TARGETS": ",".join(chosen)}
    if show_open:
        settings["TYPEDPALLAS_SHOW_OPEN"] = "1"
    with tempfile.TemporaryDirectory(prefix="typedpallas-") as folder:
        own = [] if _configured(Path.cwd()) else ["--config-file", str(_default(Path(folder)))]
        try:
            return mypying.parsed(mypying.asked([str(path)], Path.cwd(), own, settings))
        except mypying.MypyFailed as failure:
            raise UsageError(f"mypy could not check `{path}`:\n{failure}") from failure


def _configured(folder: Path) -> bool:
    """Whether mypy, run here, loads the plugin by itself."""
    for name in _CONFIGS:
        file = folder / name
        text = file.read_text(errors="replace") if file.is_file() else ""
        if "[mypy]" in text or "[tool.mypy]" in text:
            return _PLUGIN in text
    return False


def _default(folder: Path) -> Path:
    file = folder / "mypy.ini"
    file.write_text(mypying.CONFIG)
    return file


def _print(found: Sequence[Error], style: str) -> None:
    on = terminal.screen()
    items = [error.diagnostic for error in found]
    if style != "text":
        on.write(render(items, "json" if style == "json" else "github" if style == "github" else "sarif"))
        return
    for error in found:
        on.write("\n".join([*show.lines(on, error.diagnostic, end_column=error.end_column), ""]))
    on.write(show.tally(items))
