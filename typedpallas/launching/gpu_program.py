"""The body of a Mosaic GPU kernel: copies in, a pipeline over the sequential axes, copies out."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from typedpallas import gpu, portable, spaces
from typedpallas.launching import calls, jaxapi, loop, views
from typedpallas.launching.gpu_matrix import Matrix
from typedpallas.launching.plan import Planned

if TYPE_CHECKING:
    from typedpallas.launching.mosaic_gpu import GpuCall

STATES = (spaces.STATE, gpu.REGS)
"""The spaces that become a loop's carry."""


def shared(planned: Planned) -> Any:
    """The type of shared memory for one block."""
    return plgpu.SMEM(planned.block, planned.dtype)


class Program:
    """The body of one `plgpu.kernel` while it is traced."""

    def __init__(
        self, call: "GpuCall", kernel: Callable[..., None], refs: Sequence[Any], scratch: Mapping[str, Any]
    ) -> None:
        self.call = call
        self.plan = call.plan
        self.kernel = kernel
        self.inputs, self.outputs, _ = calls.split(call.plan, refs)
        self.scratch = scratch
        at = {axis: lax.axis_index(axis) for axis in call.plan.parallel}
        self.places: views.Places = {axis: functools.partial(at.__getitem__, axis) for axis in at}
        self.accumulators: dict[str, Any] = {}
        self.states = tuple((s.shape, s.dtype) for s in call.plan.scratch if s.space in STATES)

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

        blocks = [jaxapi.ref_of(shared(self.plan.inputs[i])) for i in piped_in]
        blocks += [jaxapi.ref_of(shared(self.plan.outputs[o])) for o in piped_out]
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
            if s.space in STATES
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
