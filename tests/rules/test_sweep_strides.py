"""Loads and stores with a stride on every TPU: what the rule refuses the compiler refuses, the rest passes."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from rules.sweeps_common import Kernel, refusal, refuted, verdicts

S = jax.ShapeDtypeStruct
ALL = slice(None)
ROWS, LEAD = pl.ds(0, 8, stride=2), pl.ds(0, 2, stride=2)
TARGETS = ("tpu-v2", "tpu-v3", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-7x")


def _load(shape: Any, part: Any, index: Any, dtype: Any, *, scratch: bool = False) -> Kernel:
    def kernel(x: Any, o: Any, *own: Any) -> None:
        for buffer in own:
            buffer[...] = x[...]
        o[...] = (*own, x)[0][index]

    buffers = [pltpu.VMEM(shape, dtype)] if scratch else []
    run = pl.pallas_call(kernel, out_shape=S(part, dtype), scratch_shapes=buffers)
    return Kernel(f"load of {part} of {shape} {dtype}", run, (S(shape, dtype),))


def _store(shape: Any, part: Any, index: Any, dtype: Any) -> Kernel:
    def kernel(x: Any, o: Any) -> None:
        o[...] = jnp.zeros_like(o)
        o[index] = x[...]

    run = pl.pallas_call(kernel, out_shape=S(shape, dtype))
    return Kernel(f"store of {part} of {shape} {dtype}", run, (S(part, dtype),))


def _window() -> Kernel:
    """Half of the array's lanes are in the window."""

    def kernel(x: Any, o: Any) -> None:
        o[...] = x[ROWS, :]

    specs = [pl.BlockSpec((16, 128), lambda i: (0, i))]
    out = pl.BlockSpec((8, 128), lambda i: (0, i))
    run = pl.pallas_call(kernel, grid=(2,), in_specs=specs, out_specs=out, out_shape=S((8, 256), "float32"))
    return Kernel("load of a window", run, (S((16, 256), "float32"),))


CASES = [
    (_window(), True),
    *((_load((16, 128), (8, 128), (ROWS, ALL), dtype), True) for dtype in ("float32", "bfloat16", "int8", "bool")),
    (_load((16, 128), (8, 128), (ROWS, ALL), "float32", scratch=True), True),
    (_load((16, 256), (8, 256), (ROWS, ALL), "float32", scratch=True), False),
    (_load((16, 100), (8, 100), (ROWS, ALL), "float32"), True),
    (_load((16, 256), (8, 128), (ROWS, pl.ds(0, 128)), "float32"), False),
    (_load((16, 256), (1, 256), (pl.ds(3, 1, stride=2), ALL), "float32"), False),
    (_load((4, 2, 8, 128), (2, 2, 8, 128), (LEAD, ALL, ALL, ALL), "float32"), True),
    (_load((4, 16, 256), (2, 16, 256), (LEAD, ALL, ALL), "int8"), False),
    (_load((4, 16, 256), (8, 256), (1, ROWS, ALL), "float32"), False),
    (_load((16, 128), (16, 64), (ALL, pl.ds(0, 64, stride=2)), "float32"), False),
    (_load((1024,), (512,), (pl.ds(0, 512, stride=2),), "float32"), False),
    *((_store((16, 128), (8, 128), (ROWS, ALL), dtype), True) for dtype in ("float32", "int32", "uint32")),
    *((_store((16, 128), (8, 128), (ROWS, ALL), dtype), False) for dtype in ("bfloat16", "int8", "int16")),
    (_store((16, 256), (8, 256), (ROWS, ALL), "float32"), False),
    (_store((16, 64), (8, 64), (ROWS, ALL), "float32"), True),
    (_store((1024,), (512,), (pl.ds(0, 512, stride=2),), "float32"), False),
    (_store((4, 16, 128), (2, 16, 128), (LEAD, ALL, ALL), "int16"), False),
]


@pytest.mark.parametrize(("case", "taken"), CASES, ids=[case.words for case, _ in CASES])
def test_strides_are_refused_where_the_instruction_lacks_them(case: Kernel, taken: bool) -> None:
    for target in ("tpu-v3", "tpu-v5e", "tpu-7x"):
        assert refuted(verdicts(case, target)) == (set() if taken else {"strided-access"}), target


@pytest.mark.compiler
@pytest.mark.parametrize("target", TARGETS)
def test_the_compiler_refuses_the_same(target: str) -> None:
    for case, taken in CASES[:: 1 if target in ("tpu-v3", "tpu-v6e") else 3]:
        words = refusal(case, target)
        assert bool(words) != taken, f"{case.words} on {target}: {words[:200]}"
        assert taken or any(part in words for part in ("tride", "last dim size")), words[:200]
