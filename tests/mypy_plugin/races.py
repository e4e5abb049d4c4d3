"""Plain calls whose programs share an output block: on a GPU they race; on a TPU along a parallel axis."""

from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import In, Out, f32
from typedpallas.tpu import VMEM

ONE = jax.ShapeDtypeStruct((8, 128), jnp.float32)
FOUR = jax.ShapeDtypeStruct((32, 128), jnp.float32)


def summed(x: In[tp.BLOCK, f32, L[8], L[128]], o: Out[tp.BLOCK, f32, L[8], L[128]]) -> None:
    o[...] = x[...] * 2.0


def on_tpu(x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]]) -> None:
    o[...] = jnp.exp(x[...])


def same(x: In[tp.BLOCK, f32, L[8], L[128]], o: Out[tp.BLOCK, f32, L[8], L[128]]) -> None:
    o[...] = jnp.zeros_like(x[...])


def by_one(x: In[tp.BLOCK, f32, L[8], L[128]], o: Out[tp.BLOCK, f32, L[8], L[128]]) -> None:
    @pl.when(pl.program_id(0) == 3)
    def _() -> None:
        o[...] = x[...]


def added(x: In[VMEM, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]]) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o[...] = jnp.zeros_like(o)

    o[...] += x[...]


MOVING = pl.BlockSpec((8, 128), lambda i: (i, 0))
STILL = pl.BlockSpec((8, 128), lambda i: (0, 0))
PARALLEL = pltpu.CompilerParams(dimension_semantics=("parallel",))
FOR_TPU = pltpu.CompilerParams(vmem_limit_bytes=1 << 20)
IN_ORDER = pltpu.CompilerParams(dimension_semantics=("arbitrary",))


def race_on_gpu(x: jax.Array) -> Any:
    return pl.pallas_call(summed, ONE, grid=(4,), in_specs=[MOVING], out_specs=STILL)(x)  # E: h100


def race_on_two_cores(x: jax.Array) -> Any:
    return pl.pallas_call(
        on_tpu,
        ONE,
        grid=(4,),
        in_specs=[MOVING],
        out_specs=STILL,  # E: tpu-v5p
        compiler_params=PARALLEL,
    )(x)


def right(x: jax.Array) -> list[Any]:
    """Own blocks, the same input, the same value, one program, an axis that runs in order, one step."""
    return [
        pl.pallas_call(summed, FOUR, grid=(4,), in_specs=[MOVING], out_specs=MOVING)(x),
        pl.pallas_call(summed, ONE, grid=(4,), in_specs=[STILL], out_specs=STILL)(x),
        pl.pallas_call(same, ONE, grid=(4,), in_specs=[MOVING], out_specs=STILL)(x),
        pl.pallas_call(by_one, ONE, grid=(4,), in_specs=[MOVING], out_specs=STILL)(x),
        pl.pallas_call(summed, ONE, grid=(1,), in_specs=[MOVING], out_specs=STILL)(x),
        pl.pallas_call(on_tpu, ONE, grid=(4,), in_specs=[MOVING], out_specs=STILL)(x),
        pl.pallas_call(on_tpu, ONE, grid=(4,), in_specs=[MOVING], out_specs=STILL, compiler_params=IN_ORDER)(x),
        pl.pallas_call(summed, ONE, grid=(4,), in_specs=[MOVING], out_specs=STILL, compiler_params=FOR_TPU)(x),
        pl.pallas_call(added, ONE, grid=(4,), in_specs=[MOVING], out_specs=STILL)(x),
    ]
