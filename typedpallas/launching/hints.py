"""Promises of alignment (`pl.multiple_of`) that a launch makes by itself, each where it is proved and wanted.

Mosaic TPU refuses a slice whose start it cannot prove to be a multiple of the tile. It multiplies and adds; it sees
neither through maxima, shifts and masks of bits, nor what a loop carries or a branch returns. Where the trace proves
of such a start what the compiler asks for, the kernel is given the promise that a person would write by hand. Nothing
is added to a kernel that compiles without.
"""

from collections.abc import Sequence
from typing import Any

import jax

from typedpallas.chips import Target
from typedpallas.launching import jaxapi
from typedpallas.tracing.ranges.promises import promises


def given(call: Any, arrays: Sequence[Any], target: Target | None) -> Any:
    """The jitted call, or one that makes promises in its kernels where these are wanted."""
    if not promises(call.trace(*arrays).jaxpr, target):
        return call

    def run(*operands: Any) -> Any:
        jaxpr, consts = jaxapi.trace(call, [jax.typeof(operand) for operand in operands])
        results = jaxapi.evaluate(jaxapi.with_promises(jaxpr, promises(jaxpr, target)), [*consts, *operands])
        return results[0] if len(results) == 1 else tuple(results)

    run.__name__ = call.__name__
    return jax.jit(run, inline=True)
