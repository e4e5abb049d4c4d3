"""Plain `pl.pallas_call` with annotated kernels, and the drop-in of the same name."""
# ruff: noqa: E501

import functools
from typing import Any, Final
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import In, Mul, Multiple, Out, Scratch, bf16, f32, i32
from typedpallas.tpu import HBM, SMEM, VMEM


def matmul_kernel[BM: Multiple[L[16]], BK: Multiple[L[128]], BN: Multiple[L[128]]](
    x: In[VMEM, bf16, BM, BK],
    y: In[VMEM, bf16, BK, BN],
    o: Out[VMEM, f32, BM, BN],
    acc: Scratch[VMEM, f32, BM, BN],
) -> None: ...


def double(x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]]) -> None: ...


def halves[R: tp.Dim](x: In[VMEM, f32, Mul[L[2], R]], o: Out[VMEM, f32, R], *, flag: int) -> None: ...


def copied(x: In[HBM, f32, L[32], L[128]], o: Out[VMEM, f32, L[8], L[128]]) -> None: ...


def table(t: In[SMEM, i32, L[4]], x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]]) -> None: ...


BM: Final = 128
BN = 256
OUT = jax.ShapeDtypeStruct((1024, 1024), jnp.float32)


def right(x: jax.Array, y: jax.Array, m: int, k: int) -> Any:
    bk = BM * 2
    spec_y = pl.BlockSpec((bk, BN), lambda i, j, k: (k, j))
    in_specs = [pl.BlockSpec((BM, bk), lambda i, j, k: (i, k)), spec_y]
    one = pl.pallas_call(
        matmul_kernel,
        grid=(m // BM, 1024 // BN, k // bk),
        in_specs=in_specs,
        out_specs=pl.BlockSpec((BM, BN), lambda i, j, k: (i, j)),
        out_shape=OUT,
        scratch_shapes=[pltpu.VMEM((BM, BN), jnp.float32)],
    )
    two = pl.pallas_call(
        functools.partial(halves, flag=3),
        in_specs=[pl.BlockSpec((256,))],
        out_specs=pl.BlockSpec((128,)),
        out_shape=jax.ShapeDtypeStruct((128,), jnp.float32),
    )
    three = pl.pallas_call(
        table,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, t: (t[i], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, t: (i, 0)),
        ),
        out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32),
    )
    four = pl.pallas_call(
        copied,
        grid=(4,),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32),
    )
    squeezed = pl.pallas_call(
        double,
        grid=(4,),
        in_specs=[pl.BlockSpec((None, 8, 128), lambda i: (i, 0, 0))],
        out_specs=pl.BlockSpec((pl.squeezed, 8, 128), lambda *ids: (ids[0], 0, 0)),
        out_shape=jax.ShapeDtypeStruct((4, 8, 128), jnp.float32),
    )
    return one, two, three, four, squeezed


def sizes(x: jax.Array, y: jax.Array) -> None:
    pl.pallas_call(
        matmul_kernel,
        grid=(8, 2, 4),
        in_specs=[
            pl.BlockSpec((BM, 64), lambda i, j, k: (i, k)),  # E: `BK` = 64 breaks its bound: expected a multiple of 128  [not-a-multiple]
            pl.BlockSpec((256, BN), lambda i, j, k: (k, j)),  # E: `BK` has two sizes: expected 64, axis 1 of the block of `x`, found 256, axis 0 of the block of `y`  [block-conflict]
        ],
        out_specs=pl.BlockSpec((BM, 384), lambda i, j, k: (i, j)),  # E: `BN` has two sizes: expected 256, axis 1 of the block of `y`, found 384, axis 1 of the block of `o`  [block-conflict]
        out_shape=OUT,
        scratch_shapes=[pltpu.VMEM((BM, 512), jnp.float32)],  # E: `BN` has two sizes: expected 256, axis 1 of the block of `y`, found 512, axis 1 of the scratch shape of `acc`  [block-conflict]
    )
    pl.pallas_call(
        functools.partial(halves, flag=3),
        in_specs=[pl.BlockSpec((255,))],  # E: the block of `x` does not fit its annotation on axis 0: expected 2*R = 256, found 255  [wrong-block]
        out_specs=pl.BlockSpec((128,)),
        out_shape=jax.ShapeDtypeStruct((128,), jnp.float32),
    )
    tp.pallas_call(
        double,
        grid=(4,),
        in_specs=[pl.BlockSpec((8,), lambda i: (i,))],  # E: the block of `x` does not fit its annotation: expected rank 2 (8, 128), found rank 1 (8)  [wrong-block]
        out_specs=pl.BlockSpec((8, 64), lambda i: (i, 0)),  # E: the block of `o` does not fit its annotation on axis 1: expected 128, found 64  [wrong-block]
        out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32),
    )


def counts(x: jax.Array) -> None:
    whole = pl.BlockSpec((8, 128), lambda i: (i, 0))
    pl.pallas_call(double, grid=(4,), in_specs=[whole, whole], out_specs=whole, out_shape=OUT)  # E: `double` and this call disagree on the number of inputs: expected 1 (`x`), found 2  [wrong-arity]
    pl.pallas_call(double, grid=(4,), in_specs=[whole], out_specs=[whole, whole], out_shape=[OUT, OUT])  # E: `double` and this call disagree on the number of outputs: expected 1 (`o`), found 2  [wrong-arity]
    pl.pallas_call(  # E: `double` and this call disagree on the number of scratch buffers: expected none, found 1  [wrong-arity]
        double,
        grid=(4,),
        in_specs=[whole],
        out_specs=whole,
        out_shape=OUT,
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
    )


def places(x: jax.Array) -> None:
    pl.pallas_call(
        copied,
        grid=(4,),
        in_specs=[pl.BlockSpec(memory_space=pltpu.VMEM)],  # E: `x` of `copied` lies in the wrong memory space: expected `tpu.HBM`, found `tpu.VMEM`  [wrong-space]
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0), memory_space=pltpu.SMEM),  # E: `o` of `copied` lies in the wrong memory space: expected `tpu.VMEM`, found `tpu.SMEM`  [wrong-space]
        out_shape=OUT,
    )
    pl.pallas_call(
        copied,
        grid=(4,),
        in_specs=[pl.BlockSpec((32, 128), lambda i: (0, 0))],  # E: `x` of `copied` lies in the wrong memory space: expected `tpu.HBM`, found `tpu.VMEM`  [wrong-space]
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        out_shape=OUT,
    )
    pl.pallas_call(
        matmul_kernel,
        grid=(8, 4, 4),
        in_specs=[
            pl.BlockSpec((BM, 128), lambda i, j, k: (i, k)),
            pl.BlockSpec((128, BN), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((BM, BN), lambda i, j, k: (i, j)),
        out_shape=OUT,
        scratch_shapes=[pltpu.SMEM((BM, BN), jnp.float32)],  # E: `acc` of `matmul_kernel` lies in the wrong memory space: expected `tpu.VMEM`, found `tpu.SMEM`  [wrong-space]
    )


def elements(x: jax.Array) -> None:
    whole = pl.BlockSpec((8, 128), lambda i: (i, 0))
    pl.pallas_call(
        double,
        grid=(4,),
        in_specs=[whole],
        out_specs=whole,
        out_shape=jax.ShapeDtypeStruct((32, 128), jnp.bfloat16),  # E: `o` of `double` has another element type than its annotation: expected `f32`, found `bf16`  [dtype-mismatch]
    )


def doubled[R: Multiple[L[8]]](x: In[VMEM, f32, R, L[128]], o: Out[VMEM, f32, R, L[128]]) -> None: ...


ARGS = (jax.ShapeDtypeStruct((64, 128), jnp.float32), jax.ShapeDtypeStruct((32, 256), jnp.bfloat16))


def operands(x: tp.Array[f32, L[64], L[128]], y: tp.Array[bf16, L[32], L[256]], w: tp.Array[bf16, L[32], L[128]], z: jax.Array) -> Any:
    """The arrays of a call that is made at once; what is bound again or is not typed is unknown."""
    rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
    right = pl.pallas_call(doubled, grid=(8,), in_specs=[rows], out_specs=rows, out_shape=ARGS[0])(x)
    nine = pl.BlockSpec((8, 128), lambda i: (i, 0))  # E: the index map of `o` leaves the array on axis 0: expected blocks that start before element 64, found block 8, which starts at element 64  [block-out-of-range]
    unknown = pl.pallas_call(doubled, grid=(9,), in_specs=[nine], out_specs=[nine], out_shape=[ARGS[0]])(z)
    below = pl.BlockSpec((8, 128), lambda i: (i - 1, 0))  # E: the index map of `x` leaves the array on axis 0: expected blocks that start at element 0 or later, found block -1, which starts at element -8  [block-out-of-range]
    before = pl.pallas_call(doubled, grid=(8,), in_specs=[below], out_specs=rows, out_shape=ARGS[0])(x)
    types = pl.pallas_call(
        doubled,
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        out_shape=ARGS[0],
    )(w)  # E: `x` of `doubled` has another element type than its annotation: expected `f32`, found `bf16`  [dtype-mismatch]
    y = y * 2
    again = pl.pallas_call(doubled, grid=(4,), in_specs=[rows], out_specs=rows, out_shape=ARGS[0])(y)
    return right, unknown, before, types, again


def decorated(x: jax.Array) -> None:
    @functools.partial(
        pl.pallas_call,
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 64), lambda i: (i, 0))],  # E: the block of `x` does not fit its annotation on axis 1: expected 128, found 64  [wrong-block]
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        out_shape=OUT,
    )
    def run(x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]]) -> None: ...


def unknown(x: jax.Array, many: bool, bm: int, rest: list[Any], options: dict[str, Any]) -> None:
    specs = [pl.BlockSpec((8, 64), lambda i: (i, 0))]
    if many:
        specs.append(specs[0])
    pl.pallas_call(double, grid=(4,), in_specs=specs, out_specs=specs[0], out_shape=OUT)
    pl.pallas_call(double, grid=(4,), in_specs=[*rest], out_shape=OUT)
    pl.pallas_call(double, OUT, **options)
    pl.pallas_call(double, OUT, grid=(4,), in_specs=[pl.BlockSpec((bm, 128), lambda i: (i, 0))])
    size = 8
    size += 8
    pl.pallas_call(double, OUT, grid=(4,), in_specs=[pl.BlockSpec((size, 128), lambda i: (i, 0))])
