"""The matrix product on Hopper: warp-specialised, persistent, its stores hidden behind the next tile's products.

One warpgroup copies blocks of both operands into a ring of shared-memory slots and never waits for a tile to end.
Two warpgroups multiply; each leaves one step in flight while it frees the slot of the step before. A block goes
through its tiles one after the other: the next tile's copies run during the stores of this one, and the stores
complete while the next tile's products run.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import typedpallas as tp
from typedpallas import Dim, In, Multiple, Out, Scratch, f32
from typedpallas.gpu import GMEM, SMEM, Barrier, ClusterBarrier
from typedpallas.kernels.gpu.device import multiprocessors
from typedpallas.kernels.gpu.matmul_tuning import COMPUTE, MatmulTuning, Tiles, default
from typedpallas.launching.mesh_kernel import Mesh, MeshKernel, kernel

type Finish = Callable[[jax.Array], jax.Array]
"""What is done, element by element, with a part of the sums (float32, bias added) before it is stored."""

_ROWS, _COLUMNS = 8, 64
"""What tiles that reach over the ends leave whole: one swizzled part of a copy."""
_COPY_REGISTERS = 40
_COMPUTE_REGISTERS = 232


def matmul_kernel[
    T: tp.Float,
    U: tp.Float,
    M: Dim,
    K: Dim,
    N: Dim,
    S: Dim,
    BM: Multiple[L[64]],
    BK: Multiple[L[16]],
    BN: Multiple[L[8]],
    G: Dim,
    SS: Dim,
    WM: Multiple[L[64]],
    WN: Dim,
    NB: Dim,
](
    a: In[GMEM, T, M, K],
    b: In[GMEM, T, K, N],
    bias: In[GMEM, f32, NB],
    out: Out[GMEM, U, M, N],
    a_slots: Scratch[SMEM, T, S, BM, BK],
    b_slots: Scratch[SMEM, T, S, BK, BN],
    out_slots: Scratch[SMEM, U, G, SS, WM, WN],
    filled: Scratch[Barrier, S],
    freed: Scratch[ClusterBarrier, S],
    ahead: Scratch[Barrier],
    *,
    tiles: Tiles,
    finish: Finish,
) -> None:
    """All tiles of one block; two that share copies free their slots together. One element of ``bias`` is none."""
    Block(a, b, bias, out, a_slots, b_slots, out_slots, filled, freed, ahead, tiles, finish).run()


@dataclass(frozen=True)
class Block:
    """One block of the kernel. Refs as in `matmul_kernel`."""

    a: Any
    b: Any
    bias: Any
    out: Any
    a_slots: Any
    b_slots: Any
    out_slots: Any
    filled: Any
    freed: Any
    ahead: Any
    tiles: Any
    """As `Tiles`."""
    finish: Finish

    @property
    def tuning(self) -> MatmulTuning:
        tuning: MatmulTuning = self.tiles.tuning
        return tuning

    @property
    def steps(self) -> int:
        """Steps along k of one tile."""
        return -(-int(self.a.shape[1]) // self.tuning.tile_k)

    def run(self) -> None:
        """The warpgroups part: two multiply, the last copies."""
        group = lax.axis_index("warpgroup")
        pl.when(group < COMPUTE)(functools.partial(self._multiply, group))
        pl.when(group == COMPUTE)(self._copy)

    def _copy(self) -> None:
        plgpu.set_max_registers(_COPY_REGISTERS, action="decrease")
        stages, steps = self.tuning.stages, self.steps
        total = self.tiles.mine() * steps

        def tile(turn: Any, _: None) -> None:
            row, column = self.tiles.place(turn)
            lax.fori_loop(0, steps, functools.partial(self._fill, row, column, turn * steps), None)

        lax.fori_loop(0, self.tiles.mine(), tile, None)

        @pl.loop(lax.max(total - stages, 0), total)
        def _(step: Any) -> None:  # nobody leaves while a neighbour may still signal here
            plgpu.barrier_wait(self.freed.at[lax.rem(step, stages)])

    def sources(self, row: Any, depth: Any, column: Any) -> tuple[Any, Any]:
        """What a step multiplies: of a tile's row and column, at ``depth`` along k."""
        rows, columns = (
            pl.ds(at * size, size) for at, size in ((row, self.tuning.tile_m), (column, self.tuning.tile_n))
        )
        return self.a.at[rows, depth], self.b.at[depth, columns]

    def target(self, row: Any, within: Any, height: int, columns: Any) -> Any:
        """Where a part of a tile goes: ``height`` rows from ``within`` on, and ``columns`` of the whole."""
        return self.out.at[pl.ds(row * self.tuning.tile_m + within, height), columns]

    def _fill(self, row: Any, column: Any, before: Any, k: Any, _: None) -> None:
        tuning = self.tuning
        step = before + k
        slot = lax.rem(step, tuning.stages)
        pl.when(step >= tuning.stages)(lambda: plgpu.barrier_wait(self.freed.at[slot]))
        a, b = self.sources(row, pl.ds(k * tuning.tile_k, tuning.tile_k), column)
        share_a = "peer" if tuning.cluster == "n" else None
        share_b = "peer" if tuning.cluster == "m" else None
        filled = self.filled.at[slot]
        plgpu.copy_gmem_to_smem(a, self.a_slots.at[slot], filled, collective_axes=share_a)
        plgpu.copy_gmem_to_smem(b, self.b_slots.at[slot], filled, collective_axes=share_b)

    def _multiply(self, group: Any) -> None:
        plgpu.set_max_registers(_COMPUTE_REGISTERS, action="increase")
        rows, columns = self.tuning.warpgroup_tile

        if self.tuning.lag:
            pl.when(group > 0)(lambda: plgpu.barrier_wait(self.ahead))

        def tile(turn: Any, _: None) -> None:
            pl.run_scoped(
                functools.partial(self._tile, group, turn), plgpu.WGMMAAccumulatorRef((rows, columns), jnp.float32)
            )

        lax.fori_loop(0, self.tiles.mine(), tile, None)
        plgpu.wait_smem_to_gmem(0)

    def _tile(self, group: Any, turn: Any, acc: Any) -> None:
        stages, steps = self.tuning.stages, self.steps
        first = turn * steps
        self._step(group, first, acc)

        def following(k: Any, _: None) -> None:
            self._step(group, first + k, acc)
            plgpu.wgmma_wait(1)
            plgpu.barrier_arrive(self.freed.at[lax.rem(first + k - 1, stages)])
            if self.tuning.lag:
                pl.when((first + k == self.tuning.lag) & (group == 0))(lambda: plgpu.barrier_arrive(self.ahead))

        lax.fori_loop(1, steps, following, None)
        sums = acc[...]
        plgpu.barrier_arrive(self.freed.at[lax.rem(first + steps - 1, stages)])
        self._store(group, turn, sums)

    def _step(self, group: Any, step: Any, acc: Any) -> None:
        """Begins the products of one slot."""
        rows, columns = self.tuning.warpgroup_tile
        slot = lax.rem(step, self.tuning.stages)
        plgpu.barrier_wait(self.filled.at[slot])
        a, b = self.a_slots.at[slot], self.b_slots.at[slot]
        if self.tuning.split == "m":
            a = a.at[pl.ds(group * rows, rows)]
        else:
            b = b.at[:, pl.ds(group * columns, columns)]
        plgpu.wgmma(acc, a, b)

    def _store(self, group: Any, turn: Any, sums: jax.Array) -> None:
        tuning = self.tuning
        height, width = tuning.warpgroup_tile
        row, column = self.tiles.place(turn)
        within, column = 0, column * tuning.tile_n
        if tuning.split == "m":
            within = group * height
        else:
            column += group * width
        for i, start in enumerate(range(0, width, tuning.store_n)):
            slot = self.out_slots.at[group, i % tuning.store_slots]
            plgpu.wait_smem_to_gmem(tuning.store_slots - 1, wait_read_only=True)
            part = self._biased(sums[:, start : start + tuning.store_n], column + start)
            slot[...] = self.finish(part).astype(self.out.dtype)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(slot, self.target(row, within, height, pl.ds(column + start, tuning.store_n)))

    def _biased(self, sums: jax.Array, column: Any) -> jax.Array:
        if self.bias.shape[0] == 1:
            return sums
        part = self.bias.at[pl.ds(column, sums.shape[1])]
        bias = plgpu.load(part, layout=plgpu.Layout.WGMMA.reduce(0), optimized=False)
        return sums + lax.broadcast_in_dim(bias, sums.shape, [1])


def launch(m: int, k: int, n: int, out_dtype: Any, tuning: MatmulTuning, finish: Finish) -> MeshKernel:
    """Takes ``a``, ``b`` and ``bias``: one element, or as many as the tiles have columns. The tiles divide the sizes.

    Raises:
        LaunchError: they do not.
    """
    tuning.check(m, k, n)
    shared = 1 if tuning.cluster is None else 2
    clusters = multiprocessors() // shared
    tiles = Tiles.of(tuning, m, n, clusters)
    clusters = min(clusters, tiles.count)
    return kernel(
        functools.partial(matmul_kernel, tiles=Tiles.of(tuning, m, n, clusters), finish=finish),
        Mesh(
            grid={"clusters": clusters},
            cluster={} if tuning.cluster is None else {"peer": shared},
            threads={"warpgroup": COMPUTE + 1},
        ),
        dims=tuning.dims(),
        dtypes={"U": out_dtype},
        arrivals={"filled": 2, "freed": COMPUTE},
        compiler_params=plgpu.CompilerParams(approx_math=True, unsafe_no_auto_barriers=tuning.bare),
    )


def matmul(
    a: jax.Array,
    b: jax.Array,
    *,
    bias: jax.Array | None = None,
    finish: Finish = lambda sums: sums,
    out_dtype: Any = None,
    tuning: MatmulTuning | None = None,
) -> jax.Array:
    """``finish(a @ b + bias)`` on a Hopper GPU, summed in float32.

    Args:
        a: float16 or bfloat16, shape ``(m, k)``.
        b: the same type, shape ``(k, n)``.
        bias: any float type, shape ``(n,)``; added in float32.
        finish: an elementwise function of float32 values, of what Mosaic GPU has.
        out_dtype: unless given, that of ``a``.
        tuning: unless given, what is fastest on an H200.

    Sizes that are no multiples of 8 rows and 64 columns are padded in copies, which take their time.

    Raises:
        LaunchError: the tiles do not divide a product that is not ``ragged``.
    """
    rows, columns = a.shape[0], b.shape[1]
    dtype = jnp.dtype(out_dtype or a.dtype)
    chosen = tuning or default(rows, a.shape[1], columns, dtype.itemsize)
    if chosen.ragged:
        a, b = _padded(a, _ROWS, _COLUMNS), _padded(b, _COLUMNS, _COLUMNS)
    (m, k), (_, n) = a.shape, b.shape
    run = launch(m, k, n, dtype, chosen, finish)
    added = jnp.zeros(1, jnp.float32)
    if bias is not None:
        added = jnp.pad(bias.astype(jnp.float32), (0, -columns % (chosen.tile_n * chosen.blocks[1])))
    result: jax.Array = run(a, b, added)
    return result[:rows, :columns] if result.shape != (rows, columns) else result


def _padded(x: jax.Array, rows: int, columns: int) -> jax.Array:
    """With zeros up to multiples."""
    missing = -x.shape[0] % rows, -x.shape[1] % columns
    return jnp.pad(x, [(0, missing[0]), (0, missing[1])]) if any(missing) else x
