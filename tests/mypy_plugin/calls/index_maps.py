"""Index maps of plain Pallas calls; the kernels need no annotation."""
# ruff: noqa: E501

from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import In, Out, f32
from typedpallas.tpu import VMEM

OUT = jax.ShapeDtypeStruct((1024, 1024), jnp.float32)


def kernel(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...]


def looked_up(table_ref: Any, x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...]


def rows(i: Any, j: Any) -> tuple[Any, Any]:
    return i, j


def either(i: Any, j: Any, flip: bool = False) -> tuple[Any, ...]:
    if flip:
        return (j, i)
    return (i, j)


def right(m: int) -> None:
    pl.pallas_call(
        kernel,
        grid=(4, 4),
        in_specs=[pl.BlockSpec((8, 128), rows)],
        out_specs=pl.BlockSpec((8, 128), lambda i, j: (i, j)),
        out_shape=OUT,
    )
    pl.pallas_call(kernel, OUT, grid=(4,), in_specs=[pl.BlockSpec((8,), lambda i: i)])
    pl.pallas_call(kernel, OUT, grid=(4, 4), in_specs=[pl.BlockSpec((8, 128), either)])
    pl.pallas_call(kernel, OUT, grid=(4, 4), in_specs=[pl.BlockSpec((8, 128), lambda *ids: ids)])
    pl.pallas_call(kernel, OUT, grid=(4, 4), in_specs=[pl.BlockSpec((8, 128), lambda i, j, m=m: (i, m))])
    pl.pallas_call(kernel, OUT, in_specs=[pl.BlockSpec((8, 128), lambda: (0, 0))])


def wrong() -> None:
    pl.pallas_call(
        kernel,
        grid=(4, 4),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],  # E: the index map of `x_ref` takes 1 argument: expected 2, one for each grid axis  [index-map-arity]
        out_specs=pl.BlockSpec((8, 128), lambda i, j: (i, j, 0)),  # E: the index map of `o_ref` returns 3 block indices: expected 2, one for each dim of the block  [index-map-rank]
        out_shape=OUT,
    )
    pl.pallas_call(
        looked_up,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],  # E: the index map of `x_ref` takes 1 argument: expected 1, one for each grid axis and 1 for the scalar-prefetch operands  [index-map-arity]
            out_specs=pl.BlockSpec((8, 128), lambda i, t: (i, 0)),
        ),
        out_shape=OUT,
    )
    pl.pallas_call(kernel, OUT, grid=(4, 4, 4), in_specs=[pl.BlockSpec((8, 128), rows)])  # E: the index map of `x_ref` takes 2 arguments: expected 3, one for each grid axis  [index-map-arity]


def copy(x: In[tp.BLOCK, f32, L[8], L[128]], o: Out[tp.BLOCK, f32, L[8], L[128]]) -> None: ...


tp.launch(copy, [tp.spec("b 8 128", index=lambda b, i: (b, i, 0)), "-> b (i 8) 128"], grid="b i")
tp.launch(copy, [tp.spec("b 8 128", index=lambda b: (b, 0, 0)), "-> b (i 8) 128"], grid="b i")  # E: the index map of `x` takes 1 argument: expected 2, one for each grid axis  [index-map-arity]
tp.launch(copy, [tp.spec("b 8 128", index=lambda b, i: (b, i)), "-> b (i 8) 128"], grid="b i")  # E: the index map of `x` returns 2 block indices: expected 3, one for each dim of the block  [index-map-rank]


def on_tpu(x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]]) -> None: ...


def offsets() -> None:
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    pl.pallas_call(
        on_tpu,
        grid=(4,),
        in_specs=[block],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i * 8, 0)),  # E: the index map of `o` leaves the array on axis 0: expected blocks that start before element 32, found block 24, which starts at element 192  [block-out-of-range]
        out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32),
    )
    pl.pallas_call(on_tpu, jax.ShapeDtypeStruct((30, 128), jnp.float32), grid=(4,), in_specs=[block], out_specs=block)
    elements = pl.BlockSpec((pl.Element(8), pl.Element(128)), lambda i: (i * 8, 0))
    pl.pallas_call(on_tpu, jax.ShapeDtypeStruct((32, 128), jnp.float32), grid=(4,), in_specs=[block], out_specs=elements)


def helper(x_ref, o_ref):
    pl.pallas_call(kernel, OUT, grid=(4, 4), in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))])  # E: the index map of `x_ref` takes 1 argument: expected 2, one for each grid axis  [index-map-arity]
