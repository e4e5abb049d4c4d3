"""JAX code that knows nothing of typedpallas: mypy must say the same of it with the plugin and without.

Not all of it is right, so that there is something to say.
"""

import functools
from typing import Any, NamedTuple, reveal_type

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


class State(NamedTuple):
    total: jax.Array
    count: int


class Layer:
    scale: jax.Array

    def __init__(self, size: int) -> None:
        self.scale = jnp.ones((size,))
        self.scale = jnp.zeros((size, size))

    def __call__(self, x: jax.Array) -> jax.Array:
        return x * self.scale


@functools.partial(jax.jit, static_argnames=("n",))
def loop(x: jax.Array, n: int) -> jax.Array:
    return lax.fori_loop(0, n, lambda i, c: c * 2, x)


def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def scaled_kernel(x_ref: Any, o_ref: Any, acc_ref: Any, *, factor: float) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += x_ref[...] * factor
    o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def call(x: jax.Array) -> jax.Array:
    y = jnp.dot(jnp.zeros((8, 4)), jnp.zeros((8, 4)))
    y = y.T
    rows = [jnp.zeros((3,)), jnp.zeros((4,))]
    rows.append(x)
    reveal_type(rows)
    reveal_type(x.shape)
    reveal_type(x + 1)
    reveal_type(jnp.sum(x))
    reveal_type(loop(x, 3))
    reveal_type(jax.nn.relu(x))
    reveal_type(lax.fori_loop(0, 3, lambda i, c: c, x))
    reveal_type(pl.program_id(0))
    reveal_type(np.asarray(x)[0])
    reveal_type(lax.scan(lambda c, t: (c + t, t), x, x))
    wrong: int = jnp.zeros(3)
    reveal_type(wrong)
    jnp.dot(x, "text")
    return pl.pallas_call(
        functools.partial(scaled_kernel, factor=2.0),
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
    )(x)


def train(layer: Layer, state: State, x: jax.Array) -> State:
    grads = jax.grad(lambda v: jnp.sum(layer(v)))(x)
    total = jax.tree.map(jnp.add, state.total, grads)
    reveal_type(total)
    return State(total, state.count + 1).missing
