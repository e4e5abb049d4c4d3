"""Arrays without elements in TPU kernels: the rule and the compiler."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from rules.sweeps_common import Kernel, refusal, refuted, verdicts

X = jax.ShapeDtypeStruct((16, 128), "float32")
_MADE: dict[str, tuple[Any, bool]] = {
    "a roll by 0": (lambda x: jnp.roll(x, 0, 0), False),
    "a roll by 0 lanes": (lambda x: jnp.roll(x, 0, 1), False),
    "a roll all round": (lambda x: jnp.roll(x, 16, 0), False),
    "a roll by 1": (lambda x: jnp.roll(x, 1, 0), True),
    "nothing in front": (lambda x: jnp.concatenate([x[:0], x], 0), False),
    "no zeros behind": (lambda x: jnp.concatenate([x, jnp.zeros((0, 128))], 0), False),
    "a split at 0": (lambda x: jnp.split(x, [0], 0)[1], False),
    "a sum of nothing": (lambda x: x + x[:0].sum(), False),
    "no padding": (lambda x: jnp.pad(x, ((0, 0), (0, 0))), True),
}


def _made(how: str) -> Kernel:
    def kernel(x: Any, o: Any) -> None:
        o[...] = _MADE[how][0](x[...])

    return Kernel(how, pl.pallas_call(kernel, out_shape=X), (X,))


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["tpu-v2", "tpu-v5e", "tpu-7x"])
@pytest.mark.parametrize("how", _MADE)
def test_arrays_without_elements(how: str, target: str) -> None:
    taken = _MADE[how][1]
    assert refuted(verdicts(_made(how), target)) == (set() if taken else {"empty-value"})
    assert (refusal(_made(how), target) == "") == taken
