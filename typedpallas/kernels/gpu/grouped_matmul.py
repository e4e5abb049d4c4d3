"""Grouped matrix products on Hopper: consecutive rows belong to groups, each with a matrix of its own.

A tile of rows lies in one group. It may reach into those beside it: what it makes of such rows is left out when the
tiles are put together.
"""

import functools
from dataclasses import dataclass
from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import typedpallas as tp
from typedpallas import Dim, In, Multiple, Out, Scratch, f32, i32
from typedpallas.gpu import GMEM, SMEM, Barrier
from typedpallas.kernels.gpu.device import multiprocessors
from typedpallas.kernels.gpu.matmul import Block
from typedpallas.kernels.gpu.matmul_tuning import COMPUTE, MatmulTuning
from typedpallas.launching.errors import LaunchError
from typedpallas.launching.mesh_kernel import Mesh, MeshKernel, kernel

_ALIGNED = 8
"""Copies into swizzled slots begin at rows that are multiples of this."""


def grouped_matmul_kernel[
    T: tp.Float,
    M: Dim,
    K: Dim,
    N: Dim,
    E: Dim,
    NT: Dim,
    S: Dim,
    BM: Multiple[L[64]],
    BK: Multiple[L[16]],
    BN: Multiple[L[8]],
    G: Dim,
    SS: Dim,
    WM: Multiple[L[64]],
    WN: Dim,
](
    a: In[GMEM, T, M, K],
    b: In[GMEM, T, E, K, N],
    tiles: In[GMEM, i32, NT, L[2]],
    count: In[GMEM, i32, L[1]],
    bias: In[GMEM, f32, L[1]],
    out: Out[GMEM, T, NT, BM, N],
    a_slots: Scratch[SMEM, T, S, BM, BK],
    b_slots: Scratch[SMEM, T, S, BK, BN],
    out_slots: Scratch[SMEM, T, G, SS, WM, WN],
    filled: Scratch[Barrier, S],
    freed: Scratch[Barrier, S],
    ahead: Scratch[Barrier],
    *,
    tuning: MatmulTuning,
    blocks: int,
) -> None:
    """All tiles of one block. ``tiles``: the first row and the group of each; ``count`` of them are there."""
    places = _Tiles(tuning, count, out.shape[2] // tuning.tile_n, blocks)
    slots = (a_slots, b_slots, out_slots)
    _Block(a, b, bias, out, *slots, filled, freed, ahead, places, lambda sums: sums, tiles).run()


@dataclass(frozen=True)
class _Tiles:
    """As `matmul_tuning.Tiles`, of tiles of rows that a table lists, in bands of `MatmulTuning.band` of them."""

    tuning: MatmulTuning
    count: Any
    columns: int
    blocks: int

    def mine(self) -> Any:
        """How many fall to this block."""
        return lax.div(self.count[0] * self.columns - 1 - lax.axis_index("clusters") + self.blocks, self.blocks)

    def place(self, turn: Any) -> tuple[Any, Any]:
        """Number of the tile of rows, and column, in a turn of this block: a band's column, then its next."""
        number = turn * self.blocks + lax.axis_index("clusters")
        band, whole = self.tuning.band, self.tuning.band * self.columns
        first = lax.div(number, whole) * band
        within, height = lax.rem(number, whole), lax.min(self.count[0] - first, band)
        return first + lax.rem(within, height), lax.div(within, height)


@dataclass(frozen=True)
class _Block(Block):
    """One block."""

    table: Any

    def sources(self, row: Any, depth: Any, column: Any) -> tuple[Any, Any]:
        """The rows of a tile wherever they begin, and the matrix of its group."""
        first, group = pl.multiple_of(self.table[row, 0], _ALIGNED), self.table[row, 1]
        columns = pl.ds(column * self.tuning.tile_n, self.tuning.tile_n)
        return self.a.at[pl.ds(first, self.tuning.tile_m), depth], self.b.at[group, depth, columns]

    def target(self, row: Any, within: Any, height: int, columns: Any) -> Any:
        """The tile's own place."""
        return self.out.at[row, pl.ds(within, height), columns]


def launch(tiles: int, columns: int, tuning: MatmulTuning) -> MeshKernel:
    """Takes ``a``, ``b``, ``tiles``, ``count`` and an element of no bias."""
    blocks = min(multiprocessors(), tiles * (columns // tuning.tile_n))
    return kernel(
        functools.partial(grouped_matmul_kernel, tuning=tuning, blocks=blocks),
        Mesh(grid={"clusters": blocks}, threads={"warpgroup": COMPUTE + 1}),
        dims=tuning.dims(),
        arrivals={"filled": 2, "freed": COMPUTE},
        compiler_params=plgpu.CompilerParams(approx_math=True, unsafe_no_auto_barriers=True),
    )


def grouped_matmul(a: jax.Array, b: jax.Array, sizes: jax.Array, *, tuning: MatmulTuning | None = None) -> jax.Array:
    """Each row times the matrix of its group, on a Hopper GPU, summed in float32.

    Args:
        a: float16 or bfloat16, shape ``(m, k)``: the rows of the first group, then those of the second, ...
        b: the same type, shape ``(groups, k, n)``; ``k`` a multiple of 64 and ``n`` of 128.
        sizes: int32, shape ``(groups,)``: how many rows each group has. Rows past their sum get zeros.
        tuning: unless given, what fits.

    Raises:
        LaunchError: ``k`` or ``n`` is no such multiple, or the shapes do not fit each other.
    """
    (m, k), (groups, inner, n) = a.shape, b.shape
    lag = max(0, min(3, k // 64 - 1))
    chosen = tuning or MatmulTuning(tile_n=256 if n % 256 == 0 else 128, lag=lag, bare=True)
    if inner != k or k % chosen.tile_k or n % chosen.tile_n or sizes.shape != (groups,):
        raise LaunchError(
            f"grouped_matmul: expected k a multiple of {chosen.tile_k}, n of {chosen.tile_n}, and a size for each "
            f"group, found shapes {a.shape}, {b.shape} and {sizes.shape}"
        )
    a = jnp.pad(a, ((0, -m % 8), (0, 0))) if m % 8 else a
    table, count, where = _tiles(sizes, m, chosen.tile_m)
    run = launch(len(table), n, chosen)
    parts = run(a, b, table, count, jnp.zeros(1, jnp.float32)).reshape(-1, n)
    return jnp.where((where >= 0)[:, None], parts[where], 0)


def _tiles(sizes: jax.Array, m: int, tile: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The tiles' first rows and groups, how many there are, and where each row is among all rows of tiles (or -1)."""
    groups = sizes.shape[0]
    ends = jnp.cumsum(sizes.astype(jnp.int32))
    starts = ends - sizes
    aligned = starts // _ALIGNED * _ALIGNED
    each = jnp.where(sizes > 0, -(-(ends - aligned) // tile), 0)
    tile_ends = jnp.cumsum(each)
    number = jnp.arange(-(-m // tile) + 2 * groups, dtype=jnp.int32)
    group = jnp.minimum(jnp.searchsorted(tile_ends, number, side="right"), groups - 1).astype(jnp.int32)
    before = tile_ends - each
    first = aligned[group] + (number - before[group]) * tile
    row = jnp.arange(m, dtype=jnp.int32)
    mine = jnp.minimum(jnp.searchsorted(ends, row, side="right"), groups - 1)
    where = jnp.where(row < ends[-1], before[mine] * tile + row - aligned[mine], -1)
    return jnp.stack([first, group], axis=1).astype(jnp.int32), tile_ends[-1:].astype(jnp.int32), where
