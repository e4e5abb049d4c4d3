"""A launch as `pl.pallas_call` for Triton. JAX has deprecated that backend: nothing else imports this module.

The parallel axes are the grid; the sequential ones a loop in the kernel, over views of whole operands.
"""

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from jax.experimental import pallas as pl

from typedpallas import gpu, portable, spaces
from typedpallas.launching import calls, jaxapi, loop, views
from typedpallas.launching.calls import Call
from typedpallas.launching.choose import Choice
from typedpallas.launching.errors import Unsupported
from typedpallas.launching.plan import Plan
from typedpallas.launching.tuning import Tuning

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from jax.experimental.pallas import triton as plt

_OPERANDS = (spaces.BLOCK, gpu.GMEM)
_STATES = (spaces.ACC, spaces.STATE, gpu.REGS)


class _TritonOperations(portable.Operations):
    key = "triton"


def prepare(plan: Plan, tuning: Tuning, way: Choice, interpret: Any) -> Call:
    """The arguments of `pl.pallas_call`.

    Raises:
        Unsupported: the kernel asks for what Triton lacks.
    """
    _check(plan)
    options = {"num_warps": tuning.num_warps, "num_stages": tuning.stages}
    defaults = {name: value for name, value in options.items() if value is not None}
    return Call(
        plan=plan,
        backend="triton",
        body=functools.partial(_body, plan),
        grid=tuple((axis, plan.grid[axis]) for axis in plan.parallel),
        windows=tuple(calls.window(plan, planned, None, plan.parallel) for planned in plan.inputs),
        results=tuple(calls.window(plan, planned, None, plan.parallel) for planned in plan.outputs),
        scratch=(),
        compiler_params=tuning.params(plt.CompilerParams, defaults),
        interpret=way.interpret,
    )


def _check(plan: Plan) -> None:
    for items, allowed in ((plan.inputs + plan.outputs, _OPERANDS), (plan.scratch, _STATES)):
        for item in items:
            if item.space not in allowed:
                expected = " or ".join(spaces.name(space) for space in allowed)
                raise Unsupported(
                    f"`{item.name}` of `{plan.name}`: backend `triton` takes {expected} there, found "
                    f"`{spaces.name(item.space)}`"
                )
    for planned in plan.inputs + plan.outputs:
        for piece, extent in zip(planned.pieces, planned.array, strict=True):
            if planned.slot.spec is None and piece.block is not None and extent % piece.block:
                raise Unsupported(
                    f"`{planned.name}` of `{plan.name}`: Triton checks no bounds, so backend `triton` has no partial "
                    f"last block ({extent} is no multiple of {piece.block}); `mosaic_gpu` has"
                )


def _body(plan: Plan, kernel: Callable[..., None], *refs: Any) -> None:
    inputs, outputs, _ = calls.split(plan, refs)
    places = {axis: jaxapi.here(functools.partial(pl.program_id, i)) for i, axis in enumerate(plan.parallel)}
    steps = math.prod(plan.grid[axis] for axis in plan.sequential) if plan.sequential else None

    def one_step(step: Any, *states: Any) -> None:
        at = {**places, **views.unravelled(plan, step)}
        axes = {axis: portable.GridAxis(at[axis], size) for axis, size in plan.grid.items()}

        def seen(operands: Sequence[Any], refs: Sequence[Any]) -> list[Any]:
            pairs = zip(operands, refs, strict=True)
            return [views.view(plan, planned, ref, at, plan.sequential) for planned, ref in pairs]

        with portable.running(_TritonOperations(axes, step, steps or 1)):
            kernel(*plan.by_parameter(seen(plan.inputs, inputs), seen(plan.outputs, outputs), states))

    loop.run(one_step, tuple((scratch.shape, scratch.dtype) for scratch in plan.scratch), steps)
