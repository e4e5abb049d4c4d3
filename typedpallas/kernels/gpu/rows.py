"""Softmax and norms of long rows on Hopper, at the speed of memory.

One warpgroup keeps a ring of shared-memory slots full of rows to come. The other brings a row to registers at once,
so that its slot is free again, reduces and scales it there, and sends it off through shared memory.
Rows are seen as matrices of ``A`` lines of ``W`` elements, for one copy moves at most 256 elements along an axis.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import typedpallas as tp
from typedpallas import Dim, In, Out, Scratch
from typedpallas.gpu import GMEM, SMEM, Barrier
from typedpallas.kernels.gpu.device import multiprocessors
from typedpallas.launching.errors import LaunchError
from typedpallas.launching.mesh_kernel import Mesh, MeshKernel, kernel

type Work = Callable[..., jax.Array]
"""From a row (float32) and its parameters (float32) to the result."""

_LANES = 128
_LINE = 256
_VECTOR_BYTES = 16


@dataclass(frozen=True)
class RowTuning:
    """What changes the speed alone."""

    blocks: int = 2
    """Blocks of one multiprocessor at once. They share its memory: `stages` and `out_slots` must fit so often."""
    stages: int = 4
    """Slots of the ring of rows to come."""
    out_slots: int = 1
    """Slots for results."""


def rows_kernel[T: tp.Float, N: Dim, A: Dim, W: Dim, S: Dim, O: Dim](
    x: In[GMEM, T, N, A, W],
    out: Out[GMEM, T, N, A, W],
    x_slots: Scratch[SMEM, T, S, A, W],
    out_slots: Scratch[SMEM, T, O, A, W],
    filled: Scratch[Barrier, S],
    freed: Scratch[Barrier, S],
    *,
    work: Work,
) -> None:
    """Rows that need nothing else."""
    _Block(x, out, x_slots, out_slots, filled, freed, work, ()).run()


def scaled_rows_kernel[T: tp.Float, U: tp.Float, N: Dim, A: Dim, W: Dim, S: Dim, O: Dim](
    x: In[GMEM, T, N, A, W],
    weight: In[GMEM, U, A, W],
    out: Out[GMEM, T, N, A, W],
    x_slots: Scratch[SMEM, T, S, A, W],
    out_slots: Scratch[SMEM, T, O, A, W],
    filled: Scratch[Barrier, S],
    freed: Scratch[Barrier, S],
    *,
    work: Work,
) -> None:
    """Rows with one parameter for each column."""
    _Block(x, out, x_slots, out_slots, filled, freed, work, (weight,)).run()


def shifted_rows_kernel[T: tp.Float, U: tp.Float, N: Dim, A: Dim, W: Dim, S: Dim, O: Dim](
    x: In[GMEM, T, N, A, W],
    weight: In[GMEM, U, A, W],
    bias: In[GMEM, U, A, W],
    out: Out[GMEM, T, N, A, W],
    x_slots: Scratch[SMEM, T, S, A, W],
    out_slots: Scratch[SMEM, T, O, A, W],
    filled: Scratch[Barrier, S],
    freed: Scratch[Barrier, S],
    *,
    work: Work,
) -> None:
    """Rows with two parameters for each column."""
    _Block(x, out, x_slots, out_slots, filled, freed, work, (weight, bias)).run()


@dataclass(frozen=True)
class _Block:
    """One block of the kernel: one warpgroup computes, for reductions of several would share scratch memory."""

    x: Any
    out: Any
    x_slots: Any
    out_slots: Any
    filled: Any
    freed: Any
    work: Work
    parameters: tuple[Any, ...]

    def run(self) -> None:
        """The warpgroups part."""
        group, blocks = lax.axis_index("warpgroup"), lax.axis_size("block")
        turns = lax.div(self.x.shape[0] - 1 - lax.axis_index("block") + blocks, blocks)
        pl.when(group == 0)(functools.partial(self._compute, turns))
        pl.when(group == 1)(functools.partial(self._copy, turns))

    def _row(self, turn: Any) -> Any:
        return turn * lax.axis_size("block") + lax.axis_index("block")

    def _copy(self, turns: Any) -> None:
        stages = self.x_slots.shape[0]

        @pl.loop(0, turns)
        def _(turn: Any) -> None:
            slot = lax.rem(turn, stages)
            pl.when(turn >= stages)(lambda: plgpu.barrier_wait(self.freed.at[slot]))
            plgpu.copy_gmem_to_smem(self.x.at[self._row(turn)], self.x_slots.at[slot], self.filled.at[slot])

    def _compute(self, turns: Any) -> None:
        stages, results = self.x_slots.shape[0], self.out_slots.shape[0]
        parameters = [_load(ref) for ref in self.parameters]

        @pl.loop(0, turns)
        def _(turn: Any) -> None:
            slot = lax.rem(turn, stages)
            plgpu.barrier_wait(self.filled.at[slot])
            row = _load(self.x_slots.at[slot])
            plgpu.barrier_arrive(self.freed.at[slot])
            result = self.work(row, *parameters)
            plgpu.wait_smem_to_gmem(results - 1, wait_read_only=True)
            out = self.out_slots.at[lax.rem(turn, results)]
            out[...] = result.astype(out.dtype)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(out, self.out.at[self._row(turn)])

        plgpu.wait_smem_to_gmem(0)


def _load(ref: Any) -> jax.Array:
    """A row in registers, 16 bytes of a thread beside each other, as float32."""
    layout = plgpu.Layout.WG_STRIDED(ref.shape, vec_size=_VECTOR_BYTES // ref.dtype.itemsize)
    loaded: jax.Array = plgpu.load(ref, layout=layout)
    return loaded.astype(jnp.float32)


def lines(columns: int, itemsize: int) -> tuple[int, int] | None:
    """``A`` and ``W`` of a row, or none if the kernels do not take such rows. ``itemsize`` in bytes."""
    vector = _LANES * _VECTOR_BYTES // itemsize
    if columns % vector or columns * itemsize > 32 * 1024:
        return None
    return columns // _LINE, _LINE


def launch(work: Work, x: jax.Array, parameters: int, tuning: RowTuning) -> MeshKernel:
    """Takes ``x`` of shape ``(N, A, W)`` and the parameters, ``(A, W)`` each."""
    body = (rows_kernel, scaled_rows_kernel, shifted_rows_kernel)[parameters]
    return kernel(
        functools.partial(body, work=work),
        Mesh(grid={"block": min(tuning.blocks * multiprocessors(), x.shape[0])}, threads={"warpgroup": 2}),
        dims={"S": tuning.stages, "O": tuning.out_slots},
        compiler_params=plgpu.CompilerParams(approx_math=True, unsafe_no_auto_barriers=True),
    )


def apply(work: Work, x: jax.Array, parameters: Sequence[jax.Array], tuning: RowTuning | None) -> jax.Array:
    """``work`` on every row (the last axis) of ``x``.

    Raises:
        LaunchError: the rows are none that `lines` takes.
    """
    found = lines(x.shape[-1], x.dtype.itemsize)
    if found is None:
        raise LaunchError(f"rows of {x.shape[-1]} elements of {x.dtype.name} are none that this kernel takes")
    flat = x.reshape(-1, *found)
    run = launch(work, flat, len(parameters), tuning or default(x.dtype.itemsize, len(parameters)))
    result: jax.Array = run(flat, *(p.reshape(found) for p in parameters))
    return result.reshape(x.shape)


def default(itemsize: int, parameters: int) -> RowTuning:
    """What fits memory and registers with the longest rows. ``itemsize`` in bytes.

    Parameters stay in registers, so many that a multiprocessor has room for one block.
    """
    narrow = itemsize <= 2
    if parameters:
        return RowTuning(blocks=1, stages=8 if narrow else 4, out_slots=4 if narrow else 2)
    return RowTuning(blocks=2, stages=4 if narrow else 2, out_slots=2 if narrow else 1)


def softmax_row(x: jax.Array) -> jax.Array:
    """``exp(x) / sum(exp(x))``."""
    scale = math.log2(math.e)
    weights = jnp.exp2(x * scale - jnp.max(x) * scale)
    return weights * (1 / jnp.sum(weights))


def rms_norm_row(epsilon: float, x: jax.Array, weight: jax.Array) -> jax.Array:
    """``x / rms(x) * weight``."""
    return x * lax.rsqrt(jnp.sum(x * x) / x.size + epsilon) * weight


def layer_norm_row(epsilon: float, x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    """``(x - mean) / deviation * weight + bias``."""
    centred = x - jnp.sum(x) / x.size
    return centred * lax.rsqrt(jnp.sum(centred * centred) / x.size + epsilon) * weight + bias
