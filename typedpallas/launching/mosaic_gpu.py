"""A launch as `plgpu.kernel` for Mosaic GPU: the parallel axes are the grid, the sequential ones a pipeline.

Inputs that move along a sequential axis go through `plgpu.emit_pipeline`; the others are copied to shared memory
once. Outputs are collected in shared memory and copied out at the end.
"""

import ast
import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.pallas import mosaic_gpu as plgpu

from typedpallas import gpu, spaces, tpu
from typedpallas.events import Backend
from typedpallas.launching import calls, jaxapi
from typedpallas.launching.choose import Choice
from typedpallas.launching.errors import LaunchError, Unsupported
from typedpallas.launching.gpu_matrix import Matrix, matrix_unit, wgmma_registers
from typedpallas.launching.gpu_program import STATES, Program, shared
from typedpallas.launching.plan import Plan, Planned, PlannedScratch
from typedpallas.launching.tuning import Tuning

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
    return GpuCall(
        plan, matrix, stages, tuning.params(plgpu.CompilerParams, {"approx_math": tuning.approximate}), interpreter
    )


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

        def body(refs: Sequence[Any], scratch: dict[str, Any]) -> None:
            Program(self, kernel, refs, scratch).run()

        found: tuple[Any, ...] = plgpu.kernel(
            _stand_in(self.plan, kernel, body),
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
                found[f"in_{self.plan.inputs[i].name}"] = shared(self.plan.inputs[i])
        for out in self.plan.outputs:
            if self.held(out):
                found[f"out_{out.name}"] = shared(out)
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
        if scratch.space in (*STATES, spaces.ACC, gpu.ACC):
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
            if s.space in STATES
        ]
        return "\n".join(lines)


def _stand_in(plan: Plan, kernel: Callable[..., None], run: Callable[..., None]) -> Callable[..., None]:
    """A function that calls ``run`` with its refs, from the kernel's own line, to which errors then point."""
    own: Any = inspect.unwrap(kernel)
    while isinstance(own, functools.partial):
        own = own.func
    code = getattr(own, "__code__", run.__code__)
    tree = ast.parse("def stand_in(*refs, **scratch): run(refs, scratch)")
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            vars(node).update(
                lineno=code.co_firstlineno, end_lineno=code.co_firstlineno, col_offset=0, end_col_offset=0
            )
    names: dict[str, Any] = {"run": run}
    exec(compile(tree, code.co_filename, "exec"), names)
    found: Callable[..., None] = names["stand_in"]
    found.__name__ = plan.name
    return found


def planned_axes(plan: Plan, planned: Planned) -> frozenset[str]:
    """The grid axes on which an operand's block depends, its own index map looked into."""
    spec = planned.slot.spec
    if spec is None:
        return planned.axes
    chosen = spec.index if spec.index is not None else spec.offset
    assert chosen is not None
    return frozenset(axis for axis, used in zip(plan.grid, jaxapi.uses(chosen, len(plan.grid)), strict=True) if used)
