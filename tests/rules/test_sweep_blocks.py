"""Random blocks on every TPU: what the rules refuse the compiler refuses, what it takes they let pass."""

import math
import random

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sweeps_common import TPUS, Kernel, refusal, refuted, samples, verdicts

DTYPES = (
    *("float32", "bfloat16", "int8", "int16", "int32", "uint8", "uint32"),
    *("bool", "int4", "uint4", "float8_e4m3fn", "float8_e5m2"),
)
TILES = {"unaligned-lane", "unaligned-sublane", "rank1-tile"}
ABOUT_TILES = ("divisible by 8 and 128", "rank 1 block shapes", "MisalignedBlockAndTiling")
LAST = (1, 2, 64, 100, 127, 128, 129, 256, 384, 512, 640, 1000, 1024)
ROWS = (1, 2, 3, 4, 7, 8, 9, 16, 24, 31, 32, 40, 64, 96, 100, 128, 200, 256)


def _extent(choose: random.Random, from_end: int) -> int:
    return choose.choice({0: LAST, 1: ROWS}.get(from_end, (1, 2, 3, 4, 8, 16)))


def _dim(choose: random.Random, from_end: int, extent: int) -> int | None:
    if choose.random() < 0.35:
        return extent
    return choose.choice((None, max(extent // 2, 1), _extent(choose, from_end), {0: 128, 1: 8}.get(from_end, 1)))


def make(choose: random.Random) -> Kernel:
    """A kernel with one window of interest, which it does not touch, so that only the window is judged."""
    while True:
        rank = choose.choice((1, 1, 2, 2, 2, 3, 3, 4))
        array = tuple(_extent(choose, rank - 1 - axis) for axis in range(rank))
        block = tuple(_dim(choose, rank - 1 - axis, extent) for axis, extent in enumerate(array))
        if math.prod(size or 1 for size in block) <= 1 << 18:
            break
    dtype, output, scalar = choose.choice(DTYPES), choose.random() < 0.4, choose.random() < 0.15
    moving = next((axis for axis, (b, a) in enumerate(zip(block, array, strict=True)) if (b or 1) < a), None)
    space = pltpu.SMEM if scalar and math.prod(size or 1 for size in block) <= 1 << 12 else pltpu.VMEM
    spec = pl.BlockSpec(
        block, lambda i: tuple(i if axis == moving else 0 for axis in range(rank)), memory_space=space
    )
    other = pl.BlockSpec((8, 128), lambda i: (0, 0))
    operand, small = jax.ShapeDtypeStruct(array, jnp.dtype(dtype)), jax.ShapeDtypeStruct((8, 128), jnp.float32)

    def untouched(x_ref: object, o_ref: object) -> None:
        pass

    def run(x: jax.Array) -> jax.Array:
        return pl.pallas_call(
            untouched,
            out_shape=operand if output else small,
            grid=(2 if moving is not None else 1,),
            in_specs=[other if output else spec],
            out_specs=spec if output else other,
        )(x)

    words = f"{'out' if output else 'in'} {space} {dtype} block {block} of {array}"
    return Kernel(words, run, (small if output else operand,))


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["tpu-v2", "tpu-v3", *TPUS])
def test_blocks(target: str) -> None:
    for kernel in samples(15, make):
        found, words = verdicts(kernel, target), refusal(kernel, target)
        said = {slug: verdict for slug, verdict in found.items() if slug in TILES}
        assert words or not refuted(said), f"{kernel.words} on {target}: taken, but {said}"
        if any(part in words for part in ABOUT_TILES):
            assert said, f"{kernel.words} on {target}: not noticed: {words[:300]}"
        if refuted(said):
            assert any(part in words for part in ABOUT_TILES), (
                f"{kernel.words} on {target}: {said}, but {words[:300]}"
            )


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["tpu-v2", "tpu-v3", "tpu-v4"])
@pytest.mark.parametrize("space", [pltpu.VMEM, pltpu.SMEM])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_the_least_block_of_one_dim_is_larger_on_old_chips(dtype: str, space: object, target: str) -> None:
    for size in (128, 256, 512, 1024):
        small = jax.ShapeDtypeStruct((1200,), jnp.dtype(dtype))
        block = pl.BlockSpec((size,), lambda i: (i,), memory_space=space)

        def run(x: jax.Array, block: pl.BlockSpec = block) -> jax.Array:
            return pl.pallas_call(
                lambda x_ref, o_ref: None,
                out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
                grid=(2,),
                in_specs=[block],
                out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
            )(x)

        kernel = Kernel(f"{dtype} blocks of {size} of 1200", run, (small,))
        said, refused = refuted(verdicts(kernel, target)) & TILES, refusal(kernel, target)
        assert bool(said) == bool(refused), f"{kernel.words} on {target}: {said} against {refused or 'accepted'}"
