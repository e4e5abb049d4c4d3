"""Ragged paged attention whose pages the grid copies, one a step: for TPU v2 and v3.

There a kernel's own copies begin at constants, and what a table says is none; the index of a block may come from one.
"""

import functools
from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import Dim, In, Out, Scratch, f32, i32
from typedpallas.chips import TpuTarget
from typedpallas.kernels.tpu.ragged_part import Part
from typedpallas.launching.choose import choices
from typedpallas.tpu import SMEM, VMEM


def needed() -> bool:
    """Whether the chip at hand takes no other kernel."""
    target = choices(None, None)[0].target
    return isinstance(target, TpuTarget) and target.generation < 4


def paged_by_grid_kernel[T: tp.Float, W: Dim, S: Dim, N: Dim, PAGE: Dim, R: Dim, D: Dim](
    tiles: In[SMEM, i32, W],
    sequences: In[SMEM, i32, W],
    starts: In[SMEM, i32, W],
    ends: In[SMEM, i32, W],
    lengths: In[SMEM, i32, S],
    tables: In[SMEM, i32, S, N],
    q: In[VMEM, T, R, D],
    k: In[VMEM, T, PAGE, D],
    v: In[VMEM, T, PAGE, D],
    out: Out[VMEM, T, R, D],
    highest: Scratch[VMEM, f32, R, L[1]],
    total: Scratch[VMEM, f32, R, L[1]],
    mean: Scratch[VMEM, f32, R, D],
    *,
    group: int,
    scale: float,
    window: int | None,
) -> None:
    """One page of one sequence within one tile, as `ragged_paged_attention_kernel`."""
    step, page = pl.program_id(1), pl.program_id(2)
    part = Part(step, tiles, starts, ends, lengths[sequences[step]], q.shape[0], group, window)
    first, end = part.turns(k.shape[0])
    pl.when(page == 0)(functools.partial(part.clear, highest, total, mean))

    @pl.when((page >= first) & (page < end))
    def _() -> None:
        part.attend(page * k.shape[0], q[...], (k[...], v[...]), (highest, total, mean), scale)

    pl.when(page == pl.num_programs(2) - 1)(functools.partial(part.store, (total, mean), out))


def call(
    q: jax.ShapeDtypeStruct,
    pages: tuple[int, ...],
    steps: int,
    most: int,
    rows: int,
    options: dict[str, Any],
    more: dict[str, Any],
) -> Any:
    """The kernel for these queries, ``rows`` of them in a tile, and up to ``most`` of such pages of a sequence."""
    heads, _, dim = q.shape
    _, count, size, _ = pages
    own = pl.BlockSpec((None, rows, dim), lambda h, s, n, tiles, *_: (h, tiles[s], 0))

    def place(h: Any, s: Any, n: Any, *prefetched: Any) -> Any:
        """Behind a sequence's last page, that one stays."""
        _, sequences, _, _, lengths, tables = prefetched
        sequence = sequences[s]
        last = lax.div(jnp.maximum(lengths[sequence], 1) - 1, size)
        return h, jnp.clip(tables[sequence, jnp.minimum(n, last)], 0, count - 1), 0, 0

    page = pl.BlockSpec((None, None, size, dim), place)
    return tp.pallas_call(
        functools.partial(paged_by_grid_kernel, **options),
        q,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=6,
            grid=(heads, steps, most),
            in_specs=[own, page, page],
            out_specs=own,
            scratch_shapes=[pltpu.VMEM((rows, width), jnp.float32) for width in (1, 1, dim)],
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary", "arbitrary")),
        **more,
    )
