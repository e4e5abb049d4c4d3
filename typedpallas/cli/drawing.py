"""``typedpallas draw``: a picture of a function's kernels, written to a file."""

import argparse
from pathlib import Path

from typedpallas.cli import avals, check, loading, targets, terminal
from typedpallas.cli.names import UsageError


def run(options: argparse.Namespace) -> int:
    """Paint, and say where the picture is; 2 where there is nothing to paint, or nothing to paint with."""
    from typedpallas.drawing import picture
    from typedpallas.launching import LaunchError

    path = Path(options.output)
    if path.suffix not in picture.SUFFIXES:
        raise UsageError(f"--output: a picture is one of {', '.join(picture.SUFFIXES)}; found `{path.name}`")
    if not path.parent.is_dir():
        raise UsageError(f"--output: there is no folder `{path.parent}`")
    shapes = avals.parse_avals(options.args)
    blocks = avals.parse_blocks(options.blocks) if options.blocks else {}
    target = targets.one(options.target).name if options.target else None
    picked = loading.load(options.what).bound(blocks, options.backend)
    try:
        report = check.report(picked, avals.to_jax(shapes), target)
    except LaunchError as error:
        raise UsageError(f"`{picked.name}`: {error}") from None
    found = picture.seen(report, target)
    if not found:
        refused = f": {report.diagnostics[0].message}" if report.diagnostics else ""
        raise UsageError(f"`{picked.name}` launches no kernel on these arguments{refused}")
    try:
        picture.paint(found, path)
    except picture.MissingMatplotlib as error:
        raise UsageError(str(error)) from None
    names = ", ".join(dict.fromkeys(f"`{sheet.kernel}`" for sheet in found))
    terminal.screen().write(f"{terminal.shown_path(str(path))}: {names}")
    return 0
