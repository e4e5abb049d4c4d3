"""The gradients of norms of long rows on Hopper, in one stream of rows.

One warpgroup keeps rings of shared-memory slots full of rows to come and of the gradients of their results. The
others take rows in turn and go through each of them twice, in shared memory: what they keep in registers is their
part of the sums that are the gradients of the parameters. Rows are seen as in `rows`.
"""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import typedpallas as tp
from typedpallas import Dim, In, Out, Scratch, f32
from typedpallas.gpu import GMEM, SMEM, Barrier
from typedpallas.kernels.gpu.attention_parts import Ring
from typedpallas.kernels.gpu.device import multiprocessors
from typedpallas.kernels.gpu.rows import lines
from typedpallas.launching.errors import LaunchError
from typedpallas.launching.mesh_kernel import Mesh, MeshKernel, kernel

_REGISTERS = {1: (240, 40), 2: (232, 40)}
"""Registers of a thread that computes and of one that copies, by the number of warpgroups that compute."""
MOST_COLUMNS = 8192
"""Of a row: a warpgroup keeps a sum for each of them in registers."""
_PART_LINES = 4
"""Of a row, as many as a warpgroup has in registers at once."""
_SCRATCH_BYTES = 1024
"""At least what a reduction over a warpgroup takes."""


@dataclass(frozen=True)
class RowBackwardTuning:
    """What changes the speed alone."""

    groups: int = 1
    """Warpgroups that compute, one or two."""
    stages: int = 2
    """Slots of the rings; of two warpgroups each must find its rows in slots of its own."""


def rms_norm_backward_kernel[T: tp.Float, N: Dim, A: Dim, W: Dim, S: Dim, G: Dim, P: Dim](
    d_out: In[GMEM, T, N, A, W],
    x: In[GMEM, T, N, A, W],
    weight: In[GMEM, f32, A, W],
    d_x: Out[GMEM, T, N, A, W],
    d_weight: Out[GMEM, f32, P, G, A, W],
    d_out_slots: Scratch[SMEM, T, S, A, W],
    x_slots: Scratch[SMEM, T, S, A, W],
    weight_slot: Scratch[SMEM, f32, A, W],
    d_x_slots: Scratch[SMEM, T, G, A, W],
    filled: Scratch[Barrier, S],
    freed: Scratch[Barrier, S],
    weight_filled: Scratch[Barrier],
    *,
    epsilon: float,
) -> None:
    """The rows of one block; each of its warpgroups has a part of ``d_weight``."""
    ring = Ring((d_out_slots, x_slots), filled, freed, x_slots.shape[0])
    _Block(d_out, x, weight, d_x, (d_weight,), ring, weight_slot, d_x_slots, weight_filled, epsilon).run()


def layer_norm_backward_kernel[T: tp.Float, N: Dim, A: Dim, W: Dim, S: Dim, G: Dim, P: Dim](
    d_out: In[GMEM, T, N, A, W],
    x: In[GMEM, T, N, A, W],
    weight: In[GMEM, f32, A, W],
    d_x: Out[GMEM, T, N, A, W],
    d_weight: Out[GMEM, f32, P, G, A, W],
    d_bias: Out[GMEM, f32, P, G, A, W],
    d_out_slots: Scratch[SMEM, T, S, A, W],
    x_slots: Scratch[SMEM, T, S, A, W],
    weight_slot: Scratch[SMEM, f32, A, W],
    d_x_slots: Scratch[SMEM, T, G, A, W],
    filled: Scratch[Barrier, S],
    freed: Scratch[Barrier, S],
    weight_filled: Scratch[Barrier],
    *,
    epsilon: float,
) -> None:
    """The rows of one block; each of its warpgroups has parts of ``d_weight`` and ``d_bias``."""
    ring = Ring((d_out_slots, x_slots), filled, freed, x_slots.shape[0])
    _Block(d_out, x, weight, d_x, (d_weight, d_bias), ring, weight_slot, d_x_slots, weight_filled, epsilon).run()


@dataclass(frozen=True)
class _Block:
    """One block. ``parameters`` are the gradients of weights and, if rows lose their mean, of biases."""

    d_out: Any
    x: Any
    weight: Any
    d_x: Any
    parameters: tuple[Any, ...]
    ring: Ring
    weight_slot: Any
    d_x_slots: Any
    weight_filled: Any
    epsilon: float

    @property
    def groups(self) -> int:
        """Warpgroups that compute."""
        return int(self.d_x_slots.shape[0])

    @property
    def centred(self) -> bool:
        """Whether rows lose their mean."""
        return len(self.parameters) > 1

    @property
    def parts(self) -> list[Any]:
        """The lines of a row, as many at once as fit the registers."""
        count = int(self.x.shape[1])
        size = next(n for n in (_PART_LINES, 2, 1) if count % n == 0)
        return [pl.ds(first, size) for first in range(0, count, size)]

    def run(self) -> None:
        """The warpgroups part."""
        group, blocks = lax.axis_index("warpgroup"), lax.axis_size("block")
        turns = lax.div(self.x.shape[0] - 1 - lax.axis_index("block") + blocks, blocks)
        compute, copy = _REGISTERS[self.groups]

        def computing(number: int) -> None:
            plgpu.set_max_registers(compute, action="increase")
            self._compute(number, turns)

        def copying() -> None:
            plgpu.set_max_registers(copy, action="decrease")
            self._copy(turns)

        def others(_: Any) -> None:
            if self.groups > 1:
                pl.when(group == 1)(functools.partial(computing, 1))
            pl.when(group == self.groups)(copying)

        # Reductions of a warpgroup use the memory behind what is in scope, so the first one is out of this scope.
        pl.run_scoped(others, plgpu.SMEM((_SCRATCH_BYTES,), jnp.int8), collective_axes="warpgroup")
        pl.when(group == 0)(functools.partial(computing, 0))

    def _row(self, turn: Any) -> Any:
        return turn * lax.axis_size("block") + lax.axis_index("block")

    def _copy(self, turns: Any) -> None:
        plgpu.copy_gmem_to_smem(self.weight, self.weight_slot, self.weight_filled)

        @pl.loop(0, turns)
        def _(turn: Any) -> None:
            row = self._row(turn)
            self.ring.fill(turn, self.d_out.at[row], self.x.at[row])

        @pl.loop(lax.max(turns - self.ring.stages, 0), turns)
        def _(turn: Any) -> None:  # every phase is waited for
            plgpu.barrier_wait(self.ring.freed.at[lax.rem(turn, self.ring.stages)])

    def _compute(self, group: int, turns: Any) -> None:
        plgpu.barrier_wait(self.weight_filled)
        mine = lax.div(turns - group + (self.groups - 1), self.groups)
        start = tuple(tuple(self._zeros(part) for part in self.parts) for _ in self.parameters)

        def turn(number: Any, sums: Any) -> Any:
            return self._turn(group, number * self.groups + group, sums)

        sums = lax.fori_loop(0, mine, turn, start)
        for parameter, found in zip(self.parameters, sums, strict=True):
            for lines_, part in zip(self.parts, found, strict=True):
                parameter.at[lax.axis_index("block"), group, lines_][...] = part
        plgpu.wait_smem_to_gmem(0)

    def _turn(self, group: int, turn: Any, sums: Any) -> Any:
        """One row."""
        d_out, x = self.ring.take(turn)
        columns = self.x.shape[1] * self.x.shape[2]
        found = self._statistics(d_out, x)
        factor = lax.rsqrt(found.squares / columns + self.epsilon)
        along, mean_scaled = found.products * factor / columns, found.scaled / columns
        plgpu.wait_smem_to_gmem(0, wait_read_only=True)
        changed: list[tuple[jax.Array, ...]] = []
        for number, part in enumerate(self.parts):
            if self.centred and changed:  # one after the other: all of them would not fit beside two sums
                part, changed[-1] = _after(part, changed[-1])
            gradients, normal = self._load(d_out.at[part]), (self._load(x.at[part]) - found.mean) * factor
            scaled = gradients * self._load(self.weight_slot.at[part])
            result = factor * (scaled - mean_scaled - normal * along)
            self.d_x_slots.at[group, part][...] = result.astype(self.d_x.dtype)
            more = (gradients * normal, gradients)[: len(sums)]
            changed.append(tuple(old[number] + new for old, new in zip(sums, more, strict=True)))
        self.ring.give_back(turn)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(self.d_x_slots.at[group], self.d_x.at[self._row(turn)])
        return tuple(zip(*changed, strict=True))

    def _statistics(self, d_out: Any, x: Any) -> "_Statistics":
        """Of a row that is looked at once: each place in a part first has a mean and squares of its own.

        Those are counted from the place's first element, and put together as Chan, Golub and LeVeque do it, so that
        no square of a large mean is taken away from another.
        """
        start = self._load(x.at[self.parts[0]]) if self.centred else 0.0
        sums: Any = (0.0, 0.0, 0.0, 0.0)
        for part in self.parts:
            row = self._load(x.at[part]) - start if self.centred else self._load(x.at[part])
            scaled = self._load(d_out.at[part]) * self._load(self.weight_slot.at[part])
            sums = tuple(old + new for old, new in zip(sums, (row, row * row, scaled, scaled * row), strict=True))
        ahead, squares, scaled, products = sums
        if not self.centred:
            return _Statistics(0.0, jnp.sum(squares), 0.0, jnp.sum(products))
        count = len(self.parts)
        place = start + ahead * (1 / count)
        mean = jnp.sum(place) / place.size
        squares = squares - ahead * ahead * (1 / count) + count * (place - mean) * (place - mean)
        return _Statistics(mean, jnp.sum(squares), jnp.sum(scaled), jnp.sum(products + (start - mean) * scaled))

    def _load(self, ref: Any) -> jax.Array:
        """Part of a row in registers, as float32."""
        return plgpu.load(ref, layout=_layout(ref.shape)).astype(jnp.float32)

    def _zeros(self, part: Any) -> jax.Array:
        shape = (part.size, int(self.x.shape[2]))
        made: jax.Array = plgpu.layout_cast(jnp.zeros(shape, jnp.float32), _layout(shape))
        return made


@dataclass(frozen=True)
class _Statistics:
    """Of one row: its mean, and sums over its columns."""

    mean: Any
    squares: Any
    """Of the row without its mean."""
    scaled: Any
    """The gradients of what the normal form is multiplied with."""
    products: Any
    """Of both."""


def _after(part: Any, value: Any) -> tuple[Any, Any]:
    """The lines, not to be loaded before the value is there, and the value."""
    first, value = lax.optimization_barrier((jnp.int32(part.start), value))
    return pl.ds(first, part.size), value


def _layout(shape: tuple[int, ...]) -> Any:
    """Of part of a row: four elements of a thread beside each other."""
    return plgpu.Layout.WG_STRIDED(shape, vec_size=4)


def launch(x: jax.Array, sums: int, epsilon: float, tuning: RowBackwardTuning) -> MeshKernel:
    """Takes ``d_out`` and ``x`` of shape ``(N, A, W)`` and ``weight``, ``(A, W)``."""
    body = (rms_norm_backward_kernel, layer_norm_backward_kernel)[sums - 1]
    blocks = min(multiprocessors(), x.shape[0])
    return kernel(
        functools.partial(body, epsilon=epsilon),
        Mesh(grid={"block": blocks}, threads={"warpgroup": tuning.groups + 1}),
        dims={"S": tuning.stages, "G": tuning.groups, "P": blocks},
        arrivals={"filled": 2},
        compiler_params=plgpu.CompilerParams(approx_math=True, unsafe_no_auto_barriers=True),
    )


def norm_backward(
    d_out: jax.Array,
    x: jax.Array,
    weight: jax.Array,
    sums: int,
    *,
    epsilon: float,
    tuning: RowBackwardTuning | None = None,
) -> tuple[jax.Array, ...]:
    """The gradients of the rows (the last axis) of ``x`` and, in float32, of the parameters.

    Args:
        d_out: the gradient of the result, as ``x``.
        x: what was normalised.
        weight: any float type, shape ``x.shape[-1:]``.
        sums: 1 for the root mean square, 2 for the layer norm.
        epsilon: as the norm had it.
        tuning: unless given, what is fastest on an H200.

    Raises:
        LaunchError: the rows are none that `lines` takes, or longer than `MOST_COLUMNS`.
    """
    found = lines(x.shape[-1], x.dtype.itemsize)
    chosen = tuning or default(x.dtype.itemsize, sums)
    if found is None or x.shape[-1] > MOST_COLUMNS:
        raise LaunchError(f"rows of {x.shape[-1]} elements of {x.dtype.name} are none that this kernel takes")
    if chosen.stages % chosen.groups:
        raise LaunchError(f"norm_backward: {chosen.groups} warpgroups do not share out {chosen.stages} slots")
    flat, gradients = x.reshape(-1, *found), d_out.reshape(-1, *found)
    run = launch(flat, sums, epsilon, chosen)
    d_x, *parts = run(gradients, flat, weight.astype(jnp.float32).reshape(found))
    return d_x.reshape(x.shape), *(part.sum(axis=(0, 1)).reshape(-1) for part in parts)


def default(itemsize: int, sums: int) -> RowBackwardTuning:
    """What fits the memory with the longest rows: a second warpgroup gained nothing. ``itemsize`` in bytes."""
    return RowBackwardTuning(stages=4 if itemsize <= 2 and sums > 1 else 2)
