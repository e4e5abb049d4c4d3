"""Step 3: the kernels run on this machine, step by step, and are held against plain JAX."""

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from typedpallas.cli import terminal
from typedpallas.cli.demo import heading
from typedpallas.cli.terminal import Screen

_TOLERANCE = 2.0**-7
"""Of the largest value: two units in the last place of bfloat16, in which the results are kept."""


@dataclass(frozen=True)
class Run:
    """A kernel on arrays, and what plain JAX makes of them in float32."""

    what: str
    kernel: Callable[[], Any]
    reference: Callable[[], Any]


def show(on: Screen) -> bool:
    """Print the largest error of each kernel; whether all are as small as bfloat16's rounding."""
    import jax.numpy as jnp

    heading(on, 3, "The same kernels run here in Pallas's interpret mode, against plain JAX in float32")
    rows = []
    fine = True
    for run in runs():
        start = time.monotonic()
        found = run.kernel().astype(jnp.float32)
        expected = run.reference()
        error = float(jnp.max(jnp.abs(found - expected)) / jnp.max(jnp.abs(expected)))
        verdict = "right" if error <= _TOLERANCE else "WRONG"
        fine &= error <= _TOLERANCE
        rows.append((run.what, f"{error:.1e}", f"{time.monotonic() - start:.1f} s", verdict))
    for line in terminal.table(on, ("kernel, bfloat16", "largest error", "time", ""), rows):
        on.write(line)
    on.write(on.paint(f"errors are relative to the largest value; up to {_TOLERANCE:.1e} is rounding", "dim"))
    return fine


def runs() -> Iterator[Run]:
    """The three kernels on random arrays small enough to be interpreted."""
    import jax
    import jax.numpy as jnp

    from typedpallas.kernels import flash_attention, matmul, scaled_relu

    def array(seed: int, *shape: int) -> jax.Array:
        return jax.random.normal(jax.random.key(seed), shape, jnp.bfloat16)

    def wide(*arrays: jax.Array) -> list[jax.Array]:
        return [x.astype(jnp.float32) for x in arrays]

    x = array(0, 512, 1024)
    yield Run(
        "scaled_relu 512x1024",
        lambda: scaled_relu(x, block=(128, 512)),
        lambda: jnp.maximum(2 * wide(x)[0] + 1, 0),
    )
    a, b = array(1, 256, 512), array(2, 512, 256)
    yield Run(
        "matmul 256x512x256",
        lambda: matmul(a, b, block=(128, 128, 128)),
        lambda: jnp.matmul(*wide(a, b), precision="highest"),
    )
    q, k, v = (array(seed, 1, 2, 256, 64) for seed in (3, 4, 5))
    for causal in (False, True):
        yield Run(
            f"flash_attention 1x2x256x64{', causal' if causal else ''}",
            functools.partial(flash_attention, q, k, v, causal=causal, block=(64, 64)),
            functools.partial(attention, *wide(q, k, v), causal=causal),
        )


def attention(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """``softmax(q k^T / sqrt(d)) v``, in plain JAX."""
    import jax
    import jax.numpy as jnp

    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, precision="highest") * q.shape[-1] ** -0.5
    if causal:
        seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        scores = jnp.where(seen, scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v, precision="highest")
