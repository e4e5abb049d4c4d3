"""``python -m benchmarks.functions``: what mypy knows of JAX's functions, and with ``--write`` docs/functions.md."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from benchmarks.functions import probe, report

PAGE = Path(__file__).parent.parent.parent / "docs" / "functions.md"
_NOTE = re.compile(r"^[^:]+:(?P<line>\d+): note: (?P<text>Revealed type is .*)$")


def main() -> int:
    """Ask mypy, print the counts, write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.functions", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.parent.name}/{PAGE.name}")
    options = parser.parse_args()
    found = list(report.lines(_said()))
    for state, count in Counter(line.state for line in found).items():
        print(f"{count:4} {state}")
    for line in found:
        for call, why in line.calls:
            print(f"     {call}: {why}")
    if options.write:
        PAGE.write_text(report.page(found))
    return 0


def _said() -> dict[str, str]:
    """mypy's note for each expression."""
    text, where = probe.module(probe.expressions())
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "probed.py").write_text(text)
        (Path(folder) / "mypy.ini").write_text(
            "[mypy]\nplugins = typedpallas_mypy\ncheck_untyped_defs = True\nallow_redefinition = True\n"
        )
        command = [sys.executable, "-m", "mypy", "probed.py"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"mypy ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    notes = filter(None, map(_NOTE.match, done.stdout.splitlines()))
    return {where[int(note["line"])]: note["text"] for note in notes if int(note["line"]) in where}


if __name__ == "__main__":
    raise SystemExit(main())
