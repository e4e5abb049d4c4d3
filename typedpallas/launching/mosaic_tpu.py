"""A launch as `pl.pallas_call` for Mosaic TPU: the grid runs in order, sequential axes last."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from typedpallas import gpu, portable, spaces, tpu
from typedpallas.events import Context, Event, GridAxis
from typedpallas.launching import calls, jaxapi
from typedpallas.launching.calls import Call
from typedpallas.launching.choose import Choice
from typedpallas.launching.errors import LaunchError, refuse_by_rule
from typedpallas.launching.plan import Plan, PlannedScratch
from typedpallas.launching.tuning import Tuning
from typedpallas.spaces import MemorySpace

_SPACES: dict[type[MemorySpace], Any] = {
    tpu.VMEM: pltpu.VMEM,
    tpu.SMEM: pltpu.SMEM,
    tpu.HBM: pltpu.HBM,
    tpu.ANY: pl.ANY,
    tpu.CMEM: pltpu.CMEM,
    tpu.VMEM_SHARED: pltpu.VMEM_SHARED,
    tpu.HOST: pl.HOST,
}
_SEMAPHORES: dict[type[MemorySpace], Any] = {
    tpu.DMA: pltpu.SemaphoreType.DMA,
    tpu.REGULAR: pltpu.SemaphoreType.REGULAR,
    tpu.BARRIER: pltpu.SemaphoreType.BARRIER,
}


class _TpuOperations(portable.Operations):
    key = "mosaic_tpu"


def prepare(plan: Plan, tuning: Tuning, way: Choice, interpret: Any) -> Call:
    """The arguments of `pl.pallas_call`.

    A portable kernel that is interpreted for want of an accelerator gets none that speaks of a TPU: nobody said
    that it is for one.

    Raises:
        LaunchError: the kernel asks for what no TPU has.
        PlacementError: state is carried along an axis that is not a trailing one.
    """
    _check_order(plan)
    _check_spaces(plan)
    if tuning.num_warps is not None:
        raise LaunchError("`num_warps` is Triton's; Mosaic TPU has none")
    neutral = not way.asked and not any(issubclass(item.space, tpu.TpuSpace) for item in plan.items)
    windows = [calls.window(plan, planned, space=_block_space(planned.space)) for planned in plan.inputs]
    results = [calls.window(plan, planned, space=_block_space(planned.space)) for planned in plan.outputs]
    if tuning.stages is not None and tuning.stages != 2:
        windows = [window.buffered(tuning.stages) if window.moves else window for window in windows]
    semantics = tuple("parallel" if axis in plan.parallel else "arbitrary" for axis in plan.grid)
    params = None if neutral else tuning.params(pltpu.CompilerParams, {"dimension_semantics": semantics})
    return Call(
        plan=plan,
        backend="mosaic_tpu",
        body=functools.partial(_body, plan),
        grid=tuple(plan.grid.items()),
        windows=tuple(windows),
        results=tuple(results),
        scratch=tuple(_scratch(scratch, neutral) for scratch in plan.scratch),
        compiler_params=params,
        interpret=_interpreter(plan, way, interpret),
        cost=_cost(plan, tuning),
    )


def _cost(plan: Plan, tuning: Tuning) -> pl.CostEstimate | None:
    if tuning.cost is None:
        return None
    cost: pl.CostEstimate = tuning.cost(*(jax.ShapeDtypeStruct(x.array, x.dtype) for x in plan.inputs))
    return cost


def _block_space(space: type[MemorySpace]) -> Any | None:
    """The memory space of a block spec; none leaves it to Pallas, which takes VMEM."""
    return _SPACES.get(space)


def _scratch(scratch: PlannedScratch, neutral: bool) -> Any:
    if scratch.space in _SEMAPHORES:
        kind = _SEMAPHORES[scratch.space]
        return kind(scratch.shape) if scratch.shape else kind
    space = pl.MemorySpace.DEFAULT if neutral else _SPACES.get(scratch.space, pltpu.VMEM)
    if _is_column(scratch):
        return space((*scratch.shape, 1), scratch.dtype)
    return space(scratch.shape, scratch.dtype)


def _is_column(scratch: PlannedScratch) -> bool:
    """Whether it is a `tp.STATE` with one value for each row, kept as a column.

    So its values lie along sublanes, as those of a reduction over axis 1 do; along lanes, mixing the two takes a
    gather, which v4 lacks.
    """
    return scratch.space is spaces.STATE and len(scratch.shape) == 1


def _check_spaces(plan: Plan) -> None:
    for item in plan.items:
        if issubclass(item.space, gpu.GpuSpace):
            raise LaunchError(
                f"`{item.name}` of `{plan.name}` is in `{spaces.name(item.space)}`: expected a space of "
                "`typedpallas.tpu` or a portable one for backend `mosaic_tpu`"
            )


def _check_order(plan: Plan) -> None:
    """State that is carried along a sequential axis belongs to one block of each output until that axis is done.

    So no axis of an output may run inside such an axis. Without such state the trace checker sees more.
    """
    if not any(scratch.space in (spaces.ACC, spaces.STATE) for scratch in plan.scratch):
        return
    axes = list(plan.grid)
    events: list[Event] = []
    for out in plan.outputs:
        for position, axis in enumerate(axes):
            inside = any(later in out.axes and plan.grid[later] > 1 for later in axes[position + 1 :])
            if axis not in out.axes and plan.grid[axis] > 1 and inside and out.slot.spec is None:
                events.append(
                    GridAxis(axis=axis, output=out.name, in_output=False, declared_parallel=False, trailing=False)
                )
    refuse_by_rule(events, Context(backend="mosaic_tpu"), kernel=plan.name)


def _body(plan: Plan, kernel: Callable[..., None], *refs: Any) -> None:
    """What Pallas calls: the kernel, with accumulators cleared and blocks updated in place brought in first."""
    inputs, outputs, scratch = calls.split(plan, refs)
    axes = {
        axis: portable.GridAxis(jaxapi.here(functools.partial(pl.program_id, position)), size)
        for position, (axis, size) in enumerate(plan.grid.items())
    }
    steps = math.prod(plan.grid[axis] for axis in plan.sequential)
    operations = _TpuOperations(axes, _step(plan, axes), steps)
    with portable.running(operations):
        for planned, ref in zip(plan.scratch, scratch, strict=True):
            if planned.space is spaces.ACC:
                operations.at_step(0, functools.partial(_clear, ref))
        for position, target in plan.signature.aliases.items():
            if plan.inputs[position].space.windowed:
                operations.at_step(0, functools.partial(_bring, inputs[position], outputs[target]))
        seen = [
            ref.at[:, 0] if _is_column(planned) else ref for planned, ref in zip(plan.scratch, scratch, strict=True)
        ]
        kernel(*plan.by_parameter(inputs, outputs, seen))


def _step(plan: Plan, axes: dict[str, portable.GridAxis]) -> Any | None:
    """The step of the sequential axes taken together, the last of them running fastest."""
    step = None
    for axis in plan.sequential:
        index = axes[axis].index()
        step = index if step is None else step * axes[axis].size + index
    return step


def _clear(ref: Any) -> None:
    ref[...] = jnp.zeros(ref.shape, ref.dtype)


def _bring(source: Any, target: Any) -> None:
    target[...] = source[...]


def _interpreter(plan: Plan, way: Choice, asked: Any) -> Any:
    """What `pl.pallas_call` takes: kernels that copy by themselves need the interpreter that knows TPU memory."""
    if not way.interpret:
        return False
    if asked is not None and not isinstance(asked, bool):
        return asked
    return pltpu.InterpretParams() if wants_dma(plan) else True


def wants_dma(plan: Plan) -> bool:
    """Whether the kernel copies by itself, which only the TPU interpreter runs."""
    return any(issubclass(item.space, tpu.TpuSpace) and not item.space.windowed for item in plan.items)
