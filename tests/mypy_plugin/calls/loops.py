"""Loops and branches: carries keep their types, stacked results get an axis, bodies are checked with what they get."""
# ruff: noqa: E501

from typing import Literal as L
from typing import reveal_type

import jax
import jax.numpy as jnp
from jax import lax

from typedpallas import Block, Dim, In, f32
from typedpallas.tpu import VMEM


def carries[M: Dim, N: Dim](x: In[VMEM, f32, M, N]) -> None:
    v = x[...]
    reveal_type(lax.while_loop(lambda c: c[0, 0] > 0, lambda c: c * 0.5, v))  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, M, N]"
    reveal_type(lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0], c[1] + 1), (v, 0))[0])  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, M, N]"
    reveal_type(lax.fori_loop(0, 3, lambda i, c: c + v[0], v[1]))  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, N]"
    lax.while_loop(lambda c: c[0, 0] > 0, lambda c: c.T, v)  # E: `while_loop` cannot take these shapes: expected operands that fit, found `f32[M, N]`, `f32[N, M]`  [shape-mismatch]
    lax.scan(lambda c, row: (c.astype(jnp.int32), row), v, v)  # E: `scan` cannot take these element types: expected element types that fit, found `f32[M, N]`, `i32[M, N]`  [dtype-mismatch]


def stacked[M: Dim, N: Dim](x: In[VMEM, f32, M, N]) -> None:
    v = x[...]
    reveal_type(lax.scan(lambda c, row: (c + row, (row.sum(), c)), v[0], v)[1])  # N: Revealed type is "tuple[typedpallas._static.Block[typedpallas.dtypes.f32, M], typedpallas._static.Block[typedpallas.dtypes.f32, M, N]]"
    reveal_type(lax.scan(lambda c, _: (c, c[0]), v, None, length=4)[1])  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, Literal[4], N]"
    reveal_type(lax.map(lambda row: row.sum(), v))  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, M]"


def branches[M: Dim, N: Dim](x: In[VMEM, f32, M, N]) -> None:
    v = x[...]
    reveal_type(lax.cond(v[0, 0] > 0, lambda a: a.T, lambda a: a.T * 2, v))  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, N, M]"
    reveal_type(lax.cond(v[0, 0] > 0, lambda a: a, lambda a: a.T, v))  # N: Revealed type is "typedpallas._static.Block[Any, *tuple[Any, ...]]"


def bodies[M: Dim, N: Dim](x: In[VMEM, f32, M, N]) -> None:
    v = x[...]

    def step(carry, row):
        return carry + row.T, row @ v  # E: `@` cannot take these shapes: expected operands that fit, found `f32[N]`, `f32[M, N]`  [shape-mismatch]

    def halve(carry):
        return carry + v.T  # E: `+` cannot take these shapes: expected operands that fit, found `f32[M, N]`, `f32[N, M]`  [shape-mismatch]

    def kept(carry: Block[f32, M, N]) -> Block[f32, M, N]:
        return carry * 2.0

    lax.scan(step, v[0], v)
    lax.while_loop(lambda c: c[0, 0] > 0, halve, v)
    reveal_type(lax.while_loop(lambda c: c[0, 0] > 0, kept, v))  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, M, N]"


def untyped(x: jax.Array) -> jax.Array:
    """Code without annotations is checked as without the plugin."""
    total, rows = lax.scan(lambda c, row: (c + row, c), x[0], x)
    return lax.while_loop(lambda c: c[0] > 0, lambda c: c - 1, total) + rows[0]


def fixed(x: In[VMEM, f32, L[4], L[8]]) -> None:
    reveal_type(lax.scan(lambda c, row: (c, row[None]), x[0, :], x[...])[1])  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, Literal[4], Literal[1], Literal[8]]"
