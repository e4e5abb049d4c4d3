"""Grouped matrix products on TPUs: each group of rows has a matrix of its own, and groups have any number of rows.

Which tile and which group a step works on is fetched ahead as scalars. A tile that several groups share is visited
for each of them, and every visit stores its own rows.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import Dim, In, Out, Scratch, f32, i32
from typedpallas.kernels import costs
from typedpallas.kernels.tpu import blocks, grouped_steps
from typedpallas.tpu import SMEM, VMEM

type Block = tuple[int, int, int]
"""Rows, summed elements and columns of one block."""

_PLAIN = (((1,), (0,)), ((), ()))
_BY_ROWS = (((1,), (1,)), ((), ()))
_BY_COLUMNS = (((0,), (0,)), ((), ()))


def grouped_matmul_kernel[T: tp.Float, W: Dim, BM: Dim, BK: Dim, BN: Dim](
    tiles: In[SMEM, i32, W],
    groups: In[SMEM, i32, W],
    starts: In[SMEM, i32, W],
    ends: In[SMEM, i32, W],
    x: In[VMEM, T, BM, BK],
    w: In[VMEM, T, BK, BN],
    out: Out[VMEM, T, BM, BN],
    acc: Scratch[VMEM, f32, BM, BN],
) -> None:
    """One step along the summed axis for one tile and one of its groups."""
    _rows(_PLAIN, tiles, groups, starts, ends, x, w, out, acc)


def transposed_grouped_matmul_kernel[T: tp.Float, W: Dim, BM: Dim, BK: Dim, BN: Dim](
    tiles: In[SMEM, i32, W],
    groups: In[SMEM, i32, W],
    starts: In[SMEM, i32, W],
    ends: In[SMEM, i32, W],
    x: In[VMEM, T, BM, BK],
    w: In[VMEM, T, BN, BK],
    out: Out[VMEM, T, BM, BN],
    acc: Scratch[VMEM, f32, BM, BN],
) -> None:
    """As `grouped_matmul_kernel`, with the transposes of the groups' matrices."""
    _rows(_BY_ROWS, tiles, groups, starts, ends, x, w, out, acc)


def weights_kernel[T: tp.Float, W: Dim, BM: Dim, BK: Dim, BN: Dim](
    tiles: In[SMEM, i32, W],
    groups: In[SMEM, i32, W],
    starts: In[SMEM, i32, W],
    ends: In[SMEM, i32, W],
    x: In[VMEM, T, BM, BK],
    y: In[VMEM, T, BM, BN],
    out: Out[VMEM, T, BK, BN],
    acc: Scratch[VMEM, f32, BK, BN],
) -> None:
    """A group's ``x^T y``, summed over its tiles: the gradient of the group's matrix."""
    step = pl.program_id(2)
    last = pl.num_programs(2) - 1
    group = groups[step]

    @pl.when((step == 0) | (groups[jnp.maximum(step - 1, 0)] != group))
    def _() -> None:
        acc[...] = jnp.zeros(acc.shape, acc.dtype)

    own = [jnp.where(_owned(ref.shape, tiles, starts, ends, step), ref[...], 0) for ref in (x, y)]
    acc[...] += lax.dot_general(own[0], own[1], _BY_COLUMNS, preferred_element_type=jnp.float32)

    @pl.when((step == last) | (groups[jnp.minimum(step + 1, last)] != group))
    def _() -> None:
        out[...] = acc[...].astype(out.dtype)


def _rows(numbers: Any, tiles: Any, groups: Any, starts: Any, ends: Any, x: Any, w: Any, out: Any, acc: Any) -> None:
    step, k = pl.program_id(1), pl.program_id(2)

    @pl.when(k == 0)
    def _() -> None:
        acc[...] = jnp.zeros(acc.shape, acc.dtype)

    acc[...] += lax.dot_general(x[...], w[...], numbers, preferred_element_type=jnp.float32)

    @pl.when(k == pl.num_programs(2) - 1)
    def _() -> None:
        own = _owned(out.shape, tiles, starts, ends, step)
        new = (step == 0) | (tiles[jnp.maximum(step - 1, 0)] != tiles[step])

        @pl.when(new)
        def _() -> None:
            out[...] = jnp.where(own, acc[...], 0).astype(out.dtype)

        @pl.when(~new)
        def _() -> None:
            out[...] = jnp.where(own, acc[...], out[...].astype(jnp.float32)).astype(out.dtype)


def _owned(shape: tuple[int, ...], tiles: Any, starts: Any, ends: Any, step: Any) -> Any:
    """Which rows of the step's tile belong to its group."""
    row = tiles[step] * shape[0] + lax.broadcasted_iota(jnp.int32, shape, 0)
    return (row >= starts[step]) & (row < ends[step])


def grouped_matmul(
    x: jax.Array, w: jax.Array, sizes: jax.Array, *, block: Block | None = None, interpret: Any = None
) -> jax.Array:
    """``x[start:end] @ w[group]`` for the rows of each group, one group after the other; differentiable.

    Args:
        x: float32 or bfloat16, shape ``(m, k)``. TPU v2 and v3 multiply float32 alone.
        w: the same type, shape ``(groups, k, n)``.
        sizes: int32, shape ``(groups,)``: rows of each group, none or more, together at most ``m``.
        block: ``(BM, BK, BN)``, elements; ``BK`` divides ``k`` and ``BN`` divides ``n``. Unless given, up to 128,
            512 and 512.
        interpret: as `tp.pallas_call` takes it; unless given, what is needed where no TPU is.

    Returns:
        Shape ``(m, n)`` of the same type, summed in float32; zeros in rows that belong to no group.

    Raises:
        LaunchError: shapes or types do not fit each other.
    """
    _check(x, w, sizes)
    (rows, depth), columns = x.shape, w.shape[2]
    chosen = block or (
        blocks.partial(rows, 128, 16),
        blocks.divisor(depth, 512, 128),
        blocks.divisor(columns, 512, 128),
    )
    for what, length, size in (("k", depth, chosen[1]), ("n", columns, chosen[2])):
        if length % size:
            raise tp.LaunchError(f"grouped_matmul: `{what}`: expected a multiple of {size}, found {length}")
    return _grouped(x, w, sizes, chosen, blocks.interpreter(interpret))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _grouped(x: jax.Array, w: jax.Array, sizes: jax.Array, block: Block, interpret: Any) -> jax.Array:
    return _by_rows(x, w, sizes, block, interpret, transposed=False)


def _forward(x: jax.Array, w: jax.Array, sizes: jax.Array, block: Block, interpret: Any) -> Any:
    return _grouped(x, w, sizes, block, interpret), (x, w, sizes)


def _backward(block: Block, interpret: Any, kept: Any, d_out: jax.Array) -> tuple[Any, ...]:
    x, w, sizes = kept
    m, k, n = block
    d_x = _by_rows(d_out, w, sizes, (m, n, k), interpret, transposed=True)
    return d_x, _by_groups(x, d_out, sizes, block, interpret), np.zeros(sizes.shape, jax.dtypes.float0)


_grouped.defvjp(_forward, _backward)


def _by_rows(
    x: jax.Array, w: jax.Array, sizes: jax.Array, block: Block, interpret: Any, *, transposed: bool
) -> jax.Array:
    """``BK`` and ``BN`` count what is summed and what comes out."""
    m, k, n = block
    (rows, depth), columns = x.shape, w.shape[1] if transposed else w.shape[2]
    steps = grouped_steps.by_rows(sizes, rows, m)
    if transposed:
        matrix = pl.BlockSpec((None, n, k), lambda j, s, i, tiles, groups, starts, ends: (groups[s], j, i))
    else:
        matrix = pl.BlockSpec((None, k, n), lambda j, s, i, tiles, groups, starts, ends: (groups[s], i, j))
    out = jax.ShapeDtypeStruct((rows, columns), x.dtype)
    run = tp.pallas_call(
        transposed_grouped_matmul_kernel if transposed else grouped_matmul_kernel,
        out,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(columns // n, steps.tiles.size, depth // k),
            in_specs=[pl.BlockSpec((m, k), lambda j, s, i, tiles, groups, starts, ends: (tiles[s], i)), matrix],
            out_specs=pl.BlockSpec((m, n), lambda j, s, i, tiles, groups, starts, ends: (tiles[s], j)),
            scratch_shapes=[pltpu.VMEM((m, n), jnp.float32)],
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary", "arbitrary")),
        cost_estimate=costs.products(x.size * columns, (*steps, x, w, out)),
        interpret=interpret,
    )
    result: jax.Array = run(*steps, x, w)
    return result


def _by_groups(x: jax.Array, y: jax.Array, sizes: jax.Array, block: Block, interpret: Any) -> jax.Array:
    m, k, n = block
    (rows, depth), columns = x.shape, y.shape[1]
    steps = grouped_steps.by_groups(sizes, rows, m)
    out = jax.ShapeDtypeStruct((sizes.size, depth, columns), x.dtype)
    run = tp.pallas_call(
        weights_kernel,
        out,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(depth // k, columns // n, steps.tiles.size),
            in_specs=[
                pl.BlockSpec((m, k), lambda i, j, s, tiles, groups, starts, ends: (tiles[s], i)),
                pl.BlockSpec((m, n), lambda i, j, s, tiles, groups, starts, ends: (tiles[s], j)),
            ],
            out_specs=pl.BlockSpec((None, k, n), lambda i, j, s, tiles, groups, starts, ends: (groups[s], i, j)),
            scratch_shapes=[pltpu.VMEM((k, n), jnp.float32)],
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
        cost_estimate=costs.products(x.size * columns, (*steps, x, y, out)),
        interpret=interpret,
    )
    result: jax.Array = run(*steps, x, y)
    return result


def _check(x: jax.Array, w: jax.Array, sizes: jax.Array) -> None:
    name = "grouped_matmul"
    if x.ndim != 2 or w.ndim != 3 or x.shape[1] != w.shape[1] or sizes.shape != w.shape[:1]:
        found = f"{x.shape}, {w.shape} and {sizes.shape}"
        raise tp.LaunchError(f"{name}: expected shapes (m, k), (groups, k, n) and (groups,), found {found}")
    if x.dtype != w.dtype or x.dtype not in (jnp.float32, jnp.bfloat16) or sizes.dtype != jnp.int32:
        raise tp.LaunchError(
            f"{name}: expected float32 or bfloat16 and int32 sizes, found {x.dtype}, {w.dtype} and {sizes.dtype}"
        )
