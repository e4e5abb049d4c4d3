"""``typedpallas lower``: what a function's kernels become on a chip, as text."""

import argparse
from collections.abc import Sequence
from typing import Any

from typedpallas.chips import Target
from typedpallas.cli import avals, loading, targets, terminal
from typedpallas.cli.loading import Picked
from typedpallas.cli.names import UsageError


def run(options: argparse.Namespace) -> int:
    """Print the stage's text."""
    shapes = avals.parse_avals(options.args)
    blocks = avals.parse_blocks(options.blocks) if options.blocks else {}
    target = targets.one(options.target)
    if options.stage == "ptx" and target.machine != "gpu":
        raise UsageError(f"--stage ptx: {target.name} is no GPU; its kernel's own module is `--stage kernel`")
    picked = loading.load(options.what).bound(blocks, options.backend)
    text = stage_text(picked, avals.to_jax(shapes), target, options.stage)
    terminal.screen().write(text.rstrip())
    return 0


def stage_text(picked: Picked, arguments: Sequence[Any], target: Target, stage: str) -> str:
    """The text of ``jaxpr``, ``stablehlo``, ``kernel`` or ``ptx``.

    Raises:
        UsageError: the function cannot be traced or lowered for the target, or has no such text there.
    """
    if stage == "jaxpr":
        return _jaxpr(picked, arguments, target)
    if stage == "ptx":
        return _ptx(picked, arguments, target)
    from typedpallas.compilers.lowering import lower_for
    from typedpallas.compilers.results import CompileError

    def lower() -> Any:
        return lower_for(picked.callable, *arguments, target=target)

    try:
        lowered = loading.guarded(lower, f"tracing `{picked.name}` failed", CompileError)
    except CompileError as error:
        raise refusal(picked, error) from None
    if stage == "stablehlo":
        return str(lowered.text)
    kernels = lowered.kernels
    if not kernels:
        raise UsageError(f"`{picked.name}` launches no kernel on these arguments")
    return "\n\n".join(f"// kernel {k.name} ({k.backend}, {target.name})\n{k.text}" for k in kernels)


def _jaxpr(picked: Picked, arguments: Sequence[Any], target: Target) -> str:
    import jax

    from typedpallas.compilers.ambient import target_context

    with target_context(target):
        trace = jax.make_jaxpr(picked.callable)
        return str(loading.guarded(lambda: trace(*arguments), f"tracing `{picked.name}` failed"))


def _ptx(picked: Picked, arguments: Sequence[Any], target: Target) -> str:
    import typedpallas as tp

    def compiled() -> Any:
        return tp.compile(picked.callable, *arguments, target=target.name)

    try:
        result = loading.guarded(compiled, f"tracing `{picked.name}` failed", tp.CompileError)
    except tp.CompileError as error:
        raise refusal(picked, error) from None
    if not result.kernels:
        raise UsageError(f"the compiler for {target.name} gave no PTX for `{picked.name}`")
    return "\n\n".join(f"// kernel {kernel.name}\n{kernel.ptx}" for kernel in result.kernels)


def refusal(picked: Picked, error: Any) -> UsageError:
    """A compile error as the reason why there is nothing to print."""
    return UsageError(f"`{picked.name}`: {error}")
