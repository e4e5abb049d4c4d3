"""Random slices on every TPU: what the rules refuse the compiler refuses, what it takes they let pass.

The forms of starts, and copies, are swept by ``python -m benchmarks.agreement --families slice-forms,slice-copies``.
"""

import random
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from rules.sweeps_common import TPUS, Kernel, refusal, refuted, samples, verdicts

MINE = {"unaligned-slice", "narrow-scalar", "index-out-of-bounds"}
WORDS = ("statically prove", "aligned to tiles", "unaligned indices", "DMA transfer", "word size", "Tile size")
ALSO = ("squeezed", "Only 32-bit scalar", "converted to scalars", "legalize unresolved")
DTYPES = ("float32", "bfloat16", "int8", "int16", "int32", "uint8")
ROWS, COLUMNS = (2, 3, 4, 5, 8, 12, 16, 20, 32, 40, 64, 96), (100, 128, 256, 384)
STEPS, SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256), (1, 2, 3, 4, 8, 12, 16, 32, 64, 128, 256)


def make(choose: random.Random) -> Kernel:
    """A kernel that copies or loads a slice of two axes, each whole, from a constant, or from a scalar's multiple."""
    lead = choose.choice((None, None, 2, 3))
    shape = (*(() if lead is None else (lead,)), choose.choice(ROWS), choose.choice(COLUMNS))
    dtype = jnp.dtype(choose.choice(DTYPES))
    way = choose.choice(("load", "store", "copy from HBM", "copy from VMEM"))
    parts = [_part(choose, extent, axis >= len(shape) - 2) for axis, extent in enumerate(shape)]
    moved = tuple(size for _, size in parts)
    words = f"{way} {dtype} {parts} of {shape}"

    def index(s: Any) -> tuple[Any, ...]:
        return tuple(pl.ds(s[0] * int(start[1:]) if start[0] == "*" else int(start), size) for start, size in parts)

    def kernel(s: Any, x: Any, o: Any, whole: Any, part: Any) -> None:
        if way == "load":
            part[...] = whole[index(s)]
        elif way == "store":
            whole[index(s)] = part[...]
        else:
            pltpu.sync_copy((x if way == "copy from HBM" else whole).at[index(s)], part)
        o[...] = jnp.zeros((8, 128), jnp.float32)

    def run(s: jax.Array, x: jax.Array) -> jax.Array:
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
            in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pl.ANY)],
            scratch_shapes=[pltpu.VMEM(shape, dtype), pltpu.VMEM(moved, dtype)],
        )(s, x)

    return Kernel(words, run, (jax.ShapeDtypeStruct((1,), jnp.int32), jax.ShapeDtypeStruct(shape, dtype)))


def _part(choose: random.Random, extent: int, tiled: bool) -> tuple[str, int]:
    """A start (``*8``: a scalar times 8) and a size that stay inside."""
    kind = choose.random()
    if kind < 0.45:
        return "0", extent
    size = min(choose.choice(SIZES if tiled else (1, 2)), extent)
    if kind < 0.75:
        step = choose.choice((1, 2, 4, 8, 64, 128))
        return str(choose.randrange(extent - size + 1) // step * step), size
    return f"*{choose.choice(STEPS if tiled else (1,))}", size


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["tpu-v2", "tpu-v3", *TPUS])
def test_slices(target: str) -> None:
    for kernel in samples(20, make):
        found, words = verdicts(kernel, target), refusal(kernel, target)
        said = {slug: verdict for slug, verdict in found.items() if slug in MINE}
        assert words or not refuted(said), f"{kernel.words} on {target}: taken, but {said}"
        if any(part in words for part in (*WORDS, *ALSO)):
            assert said, f"{kernel.words} on {target}: not noticed: {words[:300]}"


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["tpu-v2", "tpu-v3", "tpu-v4", "tpu-v5e"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize(
    ("extent", "start", "size"),
    [(1, 0, 1), (100, 0, 100), (128, 0, 128), (256, 0, 256), (512, 0, 512), (640, 0, 640), (2048, 256, 512)],
)
def test_stores_of_part_of_a_word_of_one_dim(extent: int, start: int, size: int, dtype: str, target: str) -> None:
    def kernel(o: Any, scratch: Any) -> None:
        scratch[pl.ds(start, size)] = jnp.zeros((size,), dtype)
        o[...] = jnp.zeros((8, 128), jnp.float32)

    def run() -> jax.Array:
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
            scratch_shapes=[pltpu.VMEM((extent,), dtype)],
        )()

    stored = Kernel(f"{size} from {start} of {extent} {dtype}", run, ())
    said, words = refuted(verdicts(stored, target)) & MINE, refusal(stored, target)
    assert bool(said) == ("subelement masking" in words), f"{stored.words} on {target}: {said}, but {words[:200]}"


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["tpu-v2", "tpu-v3", "tpu-v4"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("load", [True, False])
@pytest.mark.parametrize("step", [128, 256, 512, 1024])
def test_starts_in_one_dim_that_only_data_tells(step: int, load: bool, dtype: str, target: str) -> None:
    def kernel(s: Any, o: Any, whole: Any, part: Any) -> None:
        index = pl.ds(s[0] * step, 1024)
        if load:
            part[...] = whole[index]
        else:
            whole[index] = part[...]
        o[...] = jnp.zeros((8, 128), jnp.float32)

    def run(s: jax.Array) -> jax.Array:
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
            in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)],
            scratch_shapes=[pltpu.VMEM((4096,), dtype), pltpu.VMEM((1024,), dtype)],
        )(s)

    used = Kernel(
        f"{'load' if load else 'store'} of {dtype} from *{step}", run, (jax.ShapeDtypeStruct((1,), "int32"),)
    )
    said, words = refuted(verdicts(used, target)) & MINE, refusal(used, target)
    assert bool(said) == bool(words), f"{used.words} on {target}: {said}, but {words[:200]}"


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["tpu-v2", "tpu-v4"])
@pytest.mark.parametrize(("dtype", "rows"), [("int8", 3), ("int8", 4), ("int8", 5), ("bfloat16", 2), ("bfloat16", 3)])
@pytest.mark.parametrize("step", [2, 4, 8])
def test_starts_in_few_narrow_rows(step: int, rows: int, dtype: str, target: str) -> None:
    def kernel(s: Any, o: Any, whole: Any, part: Any) -> None:
        whole[pl.ds(s[0] * step, rows), :] = part[...]
        o[...] = jnp.zeros((8, 128), jnp.float32)

    def run(s: jax.Array) -> jax.Array:
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
            in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)],
            scratch_shapes=[pltpu.VMEM((rows, 128), dtype)] * 2,
        )(s)

    used = Kernel(f"{rows} rows of {dtype} from *{step}", run, (jax.ShapeDtypeStruct((1,), "int32"),))
    said, words = refuted(verdicts(used, target)) & MINE, refusal(used, target)
    assert bool(said) == bool(words), f"{used.words} on {target}: {said}, but {words[:200]}"
