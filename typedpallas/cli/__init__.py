"""The command line, ``typedpallas``. Exit codes: 0 clean, 1 refuted, 2 the command cannot be carried out."""

import os
import sys
from collections.abc import Sequence

from typedpallas.cli.names import UsageError

__all__ = ["UsageError", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command and return its exit code."""
    from typedpallas.cli import parser, show, terminal
    from typedpallas.diagnostics import PlacementError

    try:
        options = parser.parse(list(sys.argv[1:] if arguments is None else arguments))
        return int(options.run(options))
    except UsageError as error:
        on = terminal.screen(sys.stderr)
        on.write(f"{on.paint('error:', 'red', 'bold')} {error}")
        return 2
    except PlacementError as error:
        # A launch that is refused while the user's file is imported or lowered.
        on = terminal.screen(sys.stderr)
        for group in show.grouped(error.diagnostics):
            on.write("\n".join(show.group_lines(on, group)))
        return 1
    except BrokenPipeError:
        # The reader (`| head`) has gone; keep Python from complaining about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
