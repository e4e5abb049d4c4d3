"""Typed kernels that slice by their own dims: starts over program ids, turns and scalars in steps of a block.

Level 1 judges them for all sizes, the trace with the sizes of one launch. They are launched by `tp.launch`, which
promises what it proves to the compiler, or by `pl.pallas_call`, which promises nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from benchmarks.levels.judge import Subject

_STARTS = (
    *(
        "i * U",
        "i * U",
        "k * U",
        "k * U",
        "U * i + k * U",
        "(i + 1) * U - U",
        "i * U + 4",
        "k * U + V",
        "i * 4",
        "k * 64",
    ),
    *("jnp.minimum(i * U, U)", "jnp.maximum(i * U, 0)", "jnp.clip(k * U, 0, V)", "jnp.where(i > 0, U, 0)", "s[0]"),
    *("i // 2 * U", "k % 2 * U", "lax.rem(k * U, 2 * U)", "k << 3", "(k * U) & ~7", "abs(k * U)", "s[0] * U", "i"),
    *("i * 4", "k * 64"),
    *("pl.multiple_of(s[0], U)", "pl.multiple_of(s[0], 8)", "pl.multiple_of(s[0], 128) + U", "pl.cdiv(k, 2) * U"),
    *("pl.num_programs(0) * U - U - i * U", "k * U // 2", "i * U * 2", "3", "U", "0", "i * V + k * U"),
)
_UNITS = ("BM", "BM", "BM", "BM // 2", "2 * BM", "N", "N // 2", "8", "16", "128", "4")
_LOOPS = {
    "none": "{index}",
    "when": "@pl.when({moves})\n    def _() -> None:\n        {index}",
    "loop": "@pl.loop(0, {turns})\n    def _(k: Any) -> None:\n        {index}",
    "fori": "def turn(k: Any, carry: None) -> None:\n        {index}\n\n    lax.fori_loop(0, {turns}, turn, None)",
    "range": "for k in range({turns}):\n        {index}",
}
_HEAD = """from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import In, Out, Scratch, tpu

ARGS = (jax.ShapeDtypeStruct((2,), jnp.int32), jax.ShapeDtypeStruct({array}, jnp.{dtype}))


def kernel[BM: {bm}, M: tp.Dim, N: {n}](
    s: In[tpu.SMEM, tp.i32, L[2]],
    x: In[tpu.{space}, tp.{short}, M, N],
    o: Out[tpu.VMEM, tp.{short}, BM, N],
    b: Scratch[tpu.VMEM, tp.{short}, BM, N],
) -> None:
    BM, N = o.shape
    i, k = pl.program_id(0), 0
    o[...] = jnp.zeros_like(o)
    b[...] = jnp.zeros_like(b)
    {body}


"""
_LAUNCH = """launch = tp.launch(kernel, "2, M N -> (i BM) N", grid="i", dims={{"i": {steps}}})


def run(s: Any, x: Any) -> Any:
    return launch(s, x, BM={size})
"""
_CALL = """def run(s: Any, x: Any) -> Any:
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(({steps} * {size}, {width}), jnp.{dtype}),
        grid=({steps},),
        in_specs=[
            pl.BlockSpec(memory_space=pltpu.SMEM),
            pl.BlockSpec({whole}memory_space={place}),
        ],
        out_specs=pl.BlockSpec(({size}, {width}), lambda i: (i, 0)),
        scratch_shapes=[pltpu.VMEM(({size}, {width}), jnp.{dtype})],
    )(s, x)
"""
_SHORT = {"float32": "f32", "bfloat16": "bf16", "int8": "i8", "int32": "i32"}


def subjects(seeds: Iterable[int]) -> Iterator[Subject]:
    """One module for each seed."""
    for seed in seeds:
        yield Subject(f"dims_{seed}", "generic", _module(random.Random(seed)))


def _module(rng: random.Random) -> str:
    dtype = rng.choice(tuple(_SHORT))
    rows = {"float32": 8, "int32": 8, "bfloat16": 16, "int8": 32}[dtype]
    size, width, steps = rng.choice((rows, 2 * rows)), rng.choice((128, 256, 512)), rng.choice((1, 2, 2))
    height = rng.choice((4 * size, 8 * size))
    space = rng.choice(("VMEM", "HBM"))
    loop = rng.choice(tuple(_LOOPS))
    index = _index(rng, space).replace("V", rng.choice(_UNITS))
    moves = rng.choice(("i > 0", "s[1] > 0", "BM > 8"))
    body = _LOOPS[loop].format(index=index, turns=rng.choice((1, 2, 2, 3)), moves=moves)
    fields = {
        "array": (height, width),
        "dtype": dtype,
        "short": _SHORT[dtype],
        "bm": _bound(rng, size),
        "n": _bound(rng, width),
        "space": space,
        "steps": steps,
        "size": size,
        "width": width,
        "whole": f"({height}, {width}), lambda i: (0, 0), " if space == "VMEM" else "",
        "place": f"pltpu.{space}",
    }
    call = _LAUNCH if rng.random() < 0.6 else _CALL
    return _HEAD.format(body=body, **fields) + call.format(**fields)


def _bound(rng: random.Random, size: int) -> str:
    """What the kernel promises of a dim: some power of two that divides its size, or nothing."""
    power = size & -size
    promised = rng.choice((power, power, power, max(power // 2, 1), 1))
    return f"tp.Multiple[L[{promised}]]" if promised > 1 else "tp.Dim"


def _index(rng: random.Random, space: str) -> str:
    """A statement that takes a part of a ref, of one axis or the other."""
    start = rng.choice(_STARTS).replace("U", rng.choice(_UNITS))
    lanes = rng.random() < 0.3
    size = rng.choice(("N", "128", "N // 2") if lanes else ("BM", "BM", "BM", "8", "BM // 2", "1", "2"))
    part = f":, pl.ds({start}, {size})" if lanes else f"pl.ds({start}, {size}), :"
    whole = f"0:BM, 0:{size}" if lanes else f"0:{size}, :"
    if space == "HBM":
        return f"pltpu.sync_copy(x.at[{'0:BM, ' + part[3:] if lanes else part}], b.at[{whole}])"
    if rng.random() < 0.3:
        return f"b[{part}] = x[{'0:BM, 0:' + size if lanes else whole}]"
    return f"o[{whole}] = x[{'0:BM, ' + part[3:] if lanes else part}]"
