"""A launch as `plgpu.kernel` for Mosaic GPU: the parallel axes are the grid, the sequential ones a pipeline.

Inputs that move along a sequential axis go through `plgpu.emit_pipeline`; the others are copied to shared memory
once. Outputs are collected in shared memory and copied out at the end.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from typedpallas import gpu, portable, spaces, tpu
from typedpallas.events import Backend
from typedpallas.launching import calls, jaxapi, loop, views
from typedpallas.launching.choose import Choice
from typedpallas.launching.errors import LaunchError, Unsupported
from typedpallas.launching.gpu_matrix import Matrix, matrix_unit, wgmma_registers
from typedpallas.launching.plan import Plan, Planned, PlannedScratch
from typedpallas.launching.tuning import Tuning

_STATES = (spaces.STATE, gpu.REGS)
_BLOCKS = (spaces.BLOCK, gpu.SMEM)
_DEFAULT_STAGES = 2


def prepare(plan: Plan, tuning: Tuning, way: Choice, interpret: Any) -> "GpuCall":
    """The kernel that `plgpu.kernel` is given.

    Raises:
        LaunchError: the kernel or an option belongs to another machine.
        Unsupported: the kernel asks for what Mosaic GPU lacks.
    """
    if tuning.num_warps is not None:
        raise LaunchError("`num_warps` is Triton's; Mosaic GPU runs one warpgroup, four warps")
    for item in plan.items:
        if issubclass(item.space, tpu.TpuSpace):
            raise LaunchError(
                f"`{item.name}` of `{plan.name}` is in `{spaces.name(item.space)}`: expected a space of "
                "`typedpallas.gpu` or a portable one for backend `mosaic_gpu`"
            )
    for item in plan.inputs + plan.outputs:
        if item.space not in (*_BLOCKS, gpu.GMEM):
            raise Unsupported(
                f"`{item.name}` of `{plan.name}`: an operand is in `tp.BLOCK`, `gpu.SMEM` or `gpu.GMEM`, found "
                f"`{spaces.name(item.space)}`"
            )
    interpreter: Any = None
    if way.interpret:
        interpreter = plgpu.InterpretGPUParams() if interpret is None or interpret is True else interpret
    matrix = matrix_unit(way.capability, way.interpret)
    stages = tuning.stages if tuning.stages is not None else _DEFAULT_STAGES
    return GpuCall(plan, matrix, stages, tuning.params(plgpu.CompilerParams, {}), interpreter)


@dataclass(frozen=True)
class GpuCall:
    """One `plgpu.kernel`. Printing it shows what Pallas is given."""

    plan: Plan
    matrix: Matrix
    stages: int
    compiler_params: Any
    interpret: Any
    backend: Backend = "mosaic_gpu"

    @property
    def grid(self) -> tuple[tuple[str, int], ...]:
        """The parallel axes."""
        return tuple((axis, self.plan.grid[axis]) for axis in self.plan.parallel)

    @property
    def steps(self) -> int | None:
        """Steps of the pipeline; none without sequential axes."""
        return math.prod(self.plan.grid[axis] for axis in self.plan.sequential) if self.plan.sequential else None

    @property
    def out_shape(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        """Shapes and element types of the results."""
        return tuple(jax.ShapeDtypeStruct(out.array, out.dtype) for out in self.plan.outputs)

    def run(self, kernel: Callable[..., None], arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Bind the call; returns the results in a tuple."""
        names, sizes = zip(*self.grid, strict=True) if self.grid else ((), ())

        def body(*refs: Any, **scratch: Any) -> None:
            _Program(self, kernel, refs, scratch).run()

        body.__name__ = self.plan.name
        found: tuple[Any, ...] = plgpu.kernel(
            body,
            out_type=tuple(jaxapi.result_type(out.array, out.dtype, arrays) for out in self.plan.outputs),
            scratch_types=self.scratch_types(),
            grid=sizes,
            grid_names=names,
            compiler_params=self.compiler_params,
            interpret=self.interpret,
        )(*arrays)
        return found

    def piped(self, planned: Planned) -> bool:
        """Whether it is an input or output that moves along a sequential axis, through shared memory."""
        return planned.space in _BLOCKS and bool(planned_axes(self.plan, planned) & set(self.plan.sequential))

    def held(self, planned: Planned) -> bool:
        """Whether it stays in shared memory while the sequential axes run."""
        return planned.space in _BLOCKS and not self.piped(planned)

    @functools.cached_property
    def copied_in(self) -> tuple[int, ...]:
        """The positions of the inputs that are copied once, before anything else."""
        return tuple(i for i, planned in enumerate(self.plan.inputs) if self.held(planned))

    def scratch_types(self) -> dict[str, Any]:
        """What the kernel is given beside its operands, by name."""
        updated = self.plan.signature.aliases
        found: dict[str, Any] = {}
        for i in self.copied_in:
            if i not in updated:
                found[f"in_{self.plan.inputs[i].name}"] = _shared(self.plan.inputs[i])
        for out in self.plan.outputs:
            if self.held(out):
                found[f"out_{out.name}"] = _shared(out)
        for scratch in self.plan.scratch:
            kind = self._scratch_type(scratch)
            if kind is not None:
                found[f"scratch_{scratch.name}"] = kind
        if self.copied_in:
            found["arrived"] = plgpu.Barrier(num_arrivals=len(self.copied_in))
        return found

    def accumulators(self) -> dict[str, Any]:
        """The scratch types that are allocated by themselves: registers mix with no other memory."""
        found: dict[str, Any] = {}
        for scratch in self.plan.scratch:
            if scratch.space is spaces.ACC:
                found[scratch.name] = self.matrix.accumulator(scratch)
            elif scratch.space is gpu.ACC:
                found[scratch.name] = wgmma_registers(scratch.shape, scratch.dtype)
        return found

    def _scratch_type(self, scratch: PlannedScratch) -> Any | None:
        if scratch.space in (*_STATES, spaces.ACC, gpu.ACC):
            return None
        if issubclass(scratch.space, gpu.Barrier):
            return plgpu.Barrier(num_barriers=math.prod(scratch.shape))
        kinds = {gpu.SMEM: plgpu.SMEM, spaces.BLOCK: plgpu.SMEM, gpu.TMEM: plgpu.TMEM}
        if scratch.space not in kinds:
            raise Unsupported(
                f"scratch `{scratch.name}` of `{self.plan.name}`: `{spaces.name(scratch.space)}` is no scratch space"
            )
        return kinds[scratch.space](scratch.shape, scratch.dtype)

    def __str__(self) -> str:
        lines = [f"{self.plan.name} as plgpu.kernel for mosaic_gpu"]
        lines.append(f"  grid = ({', '.join(f'{axis}={size}' for axis, size in self.grid)})")
        if self.steps is not None:
            lines.append(
                f"  emit_pipeline over {', '.join(self.plan.sequential)}: {self.steps} steps, {self.stages} stages"
            )
        for role, operands in (("in", self.plan.inputs), ("out", self.plan.outputs)):
            for planned in operands:
                how = "piped" if self.piped(planned) else "shared memory" if self.held(planned) else "global memory"
                window = calls.window(self.plan, planned, None)
                shape = f", {jnp.dtype(planned.dtype).name}{list(planned.array)}" if role == "out" else ""
                lines.append(f"  {role} {planned.name}: {window} ({how}){shape}")
        lines += [
            f"  scratch {name}: {kind}" for name, kind in {**self.scratch_types(), **self.accumulators()}.items()
        ]
        lines += [
            f"  carried {s.name}: {jnp.dtype(s.dtype).name}{list(s.shape)}"
            for s in self.plan.scratch
            if s.space in _STATES
        ]
        return "\n".join(lines)


def _shared(planned: Planned) -> Any:
    return plgpu.SMEM(planned.block, planned.dtype)


def planned_axes(plan: Plan, planned: Planned) -> frozenset[str]:
    """The grid axes on which an operand's block depends, its own index map looked into."""
    spec = planned.slot.spec
    if spec is None:
        return planned.axes
    chosen = spec.index if spec.index is not None else spec.offset
    assert chosen is not None
    return frozenset(axis for axis, used in zip(plan.grid, jaxapi.uses(chosen, len(plan.grid)), strict=True) if used)


class _Program:
    """The body of one `plgpu.kernel` while it is traced."""

    def __init__(
        self, call: GpuCall, kernel: Callable[..., None], refs: Sequence[Any], scratch: Mapping[str, Any]
    ) -> None:
        self.call = call
        self.plan = call.plan
        self.kernel = kernel
        self.inputs, self.outputs, _ = calls.split(call.plan, refs)
        self.scratch = scratch
        at = {axis: lax.axis_index(axis) for axis in call.plan.parallel}
        self.places: views.Places = {axis: functools.partial(at.__getitem__, axis) for axis in at}
        self.accumulators: dict[str, Any] = {}
        self.states = tuple((s.shape, s.dtype) for s in call.plan.scratch if s.space in _STATES)

    def run(self) -> None:
        """Copy in, loop, copy out."""
        self._copy_in()
        kinds = self.call.accumulators()
        if kinds:
            pl.run_scoped(self._with_accumulators, **kinds)
        else:
            self._steps()
        self._copy_out()

    def _with_accumulators(self, **made: Any) -> None:
        for scratch in self.plan.scratch:
            if scratch.space is spaces.ACC:
                self.accumulators[scratch.name] = self.call.matrix.as_accumulator(made[scratch.name])
                self.call.matrix.clear(self.accumulators[scratch.name])
            elif scratch.space is gpu.ACC:
                self.accumulators[scratch.name] = made[scratch.name]
        self._steps()

    def _steps(self) -> None:
        if self.call.steps is None:
            loop.run(lambda step, *states: self._step(step, [], [], states), self.states, None)
        else:
            self._pipeline(self.call.steps)

    def _copy_in(self) -> None:
        updated = self.plan.signature.aliases
        for i in self.call.copied_in:
            planned = self.plan.inputs[i]
            target = self._held_output(updated[i]) if i in updated else self.scratch[f"in_{planned.name}"]
            plgpu.copy_gmem_to_smem(self._global(planned, self.inputs[i], None), target, self.scratch["arrived"])
        if self.call.copied_in:
            plgpu.barrier_wait(self.scratch["arrived"])

    def _copy_out(self) -> None:
        held = [o for o, planned in enumerate(self.plan.outputs) if self.call.held(planned)]
        if not held:
            return
        plgpu.commit_smem()
        for o in held:
            target = self._global(self.plan.outputs[o], self.outputs[o], None)
            plgpu.copy_smem_to_gmem(self._held_output(o), target)
        plgpu.wait_smem_to_gmem(0)

    def _held_output(self, position: int) -> Any:
        return self.scratch[f"out_{self.plan.outputs[position].name}"]

    def _global(self, planned: Planned, ref: Any, step: Any) -> Any:
        """The running block in global memory."""
        places = {**self.places, **views.unravelled(self.plan, step)}
        return views.view(self.plan, planned, ref, places, tuple(self.plan.grid))

    def _pipeline(self, steps: int) -> None:
        piped_in = [i for i, planned in enumerate(self.plan.inputs) if self.call.piped(planned)]
        piped_out = [o for o, planned in enumerate(self.plan.outputs) if self.call.piped(planned)]
        count = len(piped_in)

        def one_step(step: Any, *refs: Any) -> None:
            slots = len(piped_in) + len(piped_out)
            self._step(step, refs[:count], refs[count:slots], refs[slots:])

        blocks = [jaxapi.ref_of(_shared(self.plan.inputs[i])) for i in piped_in]
        blocks += [jaxapi.ref_of(_shared(self.plan.outputs[o])) for o in piped_out]
        outside = loop.trace(one_step, self.states, steps, blocks)

        def in_pipeline(at: Any, *slots: Any) -> Any:
            slots, values = (slots[:-1], slots[-1]) if self.states else (slots, ())
            stepped = loop.trace(
                lambda step, *states: one_step(step, *slots, *states), self.states, steps, moved=outside.moved
            )
            found = stepped.step(at[0], values)
            return found if self.states else None

        values = plgpu.emit_pipeline(
            in_pipeline,
            grid=(steps,),
            in_specs=[self._window(self.plan.inputs[i]) for i in piped_in],
            out_specs=[self._window(self.plan.outputs[o]) for o in piped_out],
            max_concurrent_steps=self.call.stages,
            init_carry=outside.start() if self.states else None,
        )(*(self.inputs[i] for i in piped_in), *(self.outputs[o] for o in piped_out))
        outside.finish(values if self.states else ())

    def _window(self, planned: Planned) -> Any:
        window = calls.window(self.plan, planned, None)

        def index_map(step: Any) -> tuple[Any, ...]:
            places = {**self.places, **views.unravelled(self.plan, step)}
            assert window.index_map is not None
            return window.index_map(*(places[axis]() for axis in self.plan.grid))

        return plgpu.BlockSpec(window.block, index_map)

    def _step(self, step: Any, slots_in: Sequence[Any], slots_out: Sequence[Any], states: Sequence[Any]) -> None:
        places = {**self.places, **views.unravelled(self.plan, step)}
        axes = {axis: portable.GridAxis(places[axis], size) for axis, size in self.plan.grid.items()}
        waiting_in, waiting_out, waiting_states = iter(slots_in), iter(slots_out), iter(states)
        inputs = [self._input(i, planned, waiting_in, step) for i, planned in enumerate(self.plan.inputs)]
        outputs = [self._output(o, planned, waiting_out, step) for o, planned in enumerate(self.plan.outputs)]
        scratch = [
            next(waiting_states)
            if s.space in _STATES
            else self.accumulators.get(s.name, self.scratch.get(f"scratch_{s.name}"))
            for s in self.plan.scratch
        ]
        for i, o in self.plan.signature.aliases.items():
            if self.call.piped(self.plan.inputs[i]):
                outputs[o][...] = inputs[i][...]
        with portable.running(GpuOperations(axes, step, self.call.steps or 1, self.call.matrix)):
            self.kernel(*self.plan.by_parameter(inputs, outputs, scratch))

    def _input(self, position: int, planned: Planned, slots: Any, step: Any) -> Any:
        if self.call.piped(planned):
            return next(slots)
        if self.call.held(planned):
            return self.scratch.get(f"in_{planned.name}")
        return self._global(planned, self.inputs[position], step)

    def _output(self, position: int, planned: Planned, slots: Any, step: Any) -> Any:
        if self.call.piped(planned):
            return next(slots)
        if self.call.held(planned):
            return self._held_output(position)
        return self._global(planned, self.outputs[position], step)


class GpuOperations(portable.Operations):
    """The portable operations on a GPU's matrix unit."""

    key = "mosaic_gpu"

    def __init__(self, axes: Any, step: Any, steps: int, matrix: Matrix) -> None:
        super().__init__(axes, step, steps)
        self.matrix = matrix
        self.key = matrix.key

    def mma(self, acc: Any, x: Any, y: Any, transpose_x: bool, transpose_y: bool) -> None:
        """``acc += x @ y``."""
        self.matrix.mma(acc, x, y, transpose_x, transpose_y)

    def dot(self, x: Any, y: Any, transpose_x: bool, transpose_y: bool) -> Any:
        """``x @ y``."""
        return self.matrix.dot(x, y, transpose_x, transpose_y)

    def load_rows(self, ref: Any) -> Any:
        """The whole block, in the layout of the matrix unit's results."""
        return self.matrix.load_rows(ref)
