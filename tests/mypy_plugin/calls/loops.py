"""Loops and branches: carries keep their types, stacked results get an axis, bodies are checked with what they get."""
# ruff: noqa: E501

import functools
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
    reveal_type(lax.cond(v[0, 0] > 0, lambda: v, lambda: v * 2))  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, M, N]"
    lax.cond(v[0, 0] > 0, lambda a: a, lambda a: a.T, v)  # E: `cond` cannot take these shapes: expected operands that fit, found `f32[M, N]`, `f32[N, M]`  [shape-mismatch]
    lax.cond(v[0, 0] > 0, lambda a: (a, a), lambda a: (a, a > 0), v)  # E: `cond` cannot take these element types: expected element types that fit, found `f32[M, N]`, `bool_[M, N]`  [dtype-mismatch]


def several_branches[M: Dim, N: Dim](x: In[VMEM, f32, M, N]) -> None:
    v = x[...]
    i = v[0, 0].astype(jnp.int32)

    def scaled(factor: float, a: Block[f32, M, N]) -> Block[f32, M, N]:
        return a * factor

    def halved(a: Block[f32, M, N]) -> Block[f32, M, N]:
        return a * 0.5

    def turned(a: Block[f32, M, N]) -> Block[f32, N, M]:
        return a.T

    reveal_type(lax.switch(i, [lambda a: a.T, lambda a: a.T * 2], v))  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, N, M]"
    reveal_type(lax.switch(i, (lambda: v[0], lambda: v[1], lambda: v[2])))  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, N]"
    twice = [functools.partial(scaled, 2.0), functools.partial(scaled, 3.0)]
    reveal_type(lax.switch(i, twice, v))  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, M, N]"
    reveal_type(lax.switch(i, [halved, lambda a: a], v))  # N: Revealed type is "typedpallas._static.Block[Any, *tuple[Any, ...]]"
    every = [halved, functools.partial(scaled, 2.0)]
    reveal_type(lax.switch(i, every, v))  # N: Revealed type is "typedpallas._static.Block[typedpallas.dtypes.f32, M, N]"
    lax.switch(i, [lambda a: a.T, lambda a: a.T.astype(jnp.bfloat16)], v)  # E: `switch` cannot take these element types: expected element types that fit, found `f32[N, M]`, `bf16[N, M]`  [dtype-mismatch]
    lax.switch(i, [halved, turned], v)  # E: `switch` cannot take these shapes: expected operands that fit, found `f32[M, N]`, `f32[N, M]`  [shape-mismatch]
    lax.switch(i, [lambda a: a @ a.T, lambda a: a @ a], v)  # E: `@` cannot take these shapes: expected operands that fit, found `f32[M, N]`, `f32[M, N]`  [shape-mismatch]
    lax.switch(i, [functools.partial(scaled, k) for k in (1.0, 2.0)], v)


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
