"""``typedpallas demo``: what typedpallas does, on this machine, in three steps."""

import argparse
import logging
import time

from typedpallas.cli import loading, terminal
from typedpallas.cli.names import UsageError


def run(options: argparse.Namespace) -> int:
    """Show the three steps; 0 if each came out as it should (a compiler that is not installed is no failure)."""
    if options.workers < 1:
        raise UsageError("--workers: at least 1")
    loading.without_accelerator()
    from typedpallas.cli.demo import cells, every_chip, numbers, source

    # The third step says itself that it interprets.
    logging.getLogger("typedpallas").setLevel(logging.ERROR)
    on = terminal.screen(folded=True)
    start = time.monotonic()
    on.write(on.fold("typedpallas: placement mistakes in Pallas kernels are errors at the line you wrote."))
    # The compilers start now and work while mypy does.
    compiling = every_chip.Table(cells.cells()).start(options.workers)
    outcomes = [source.show(on, compiling.progress), every_chip.show(on, compiling), numbers.show(on)]
    on.write()
    on.write(f"Took {time.monotonic() - start:.0f} s. Next: docs/tutorial.md, or `typedpallas check --help`.")
    return 0 if all(outcomes) else 1


def heading(on: terminal.Screen, number: int, text: str) -> None:
    """The title of a step."""
    on.write()
    on.write(on.paint(on.fold(f"{number}. {text}", "   ", ""), "bold", "cyan"))
    on.write()
