"""What every type checker sees of the portable operations; `typedpallas.portable` documents and runs them."""

from collections.abc import Callable
from typing import Any

import jax

from typedpallas._refs import Block, Ref
from typedpallas.dtypes import DType, Number
from typedpallas.spaces import VectorLoads, VectorStores

type _Matrix = Ref[VectorLoads, Number, Any, Any] | jax.Array

def mma(
    acc: Ref[VectorStores, Number, Any, Any],
    x: _Matrix,
    y: _Matrix,
    transpose_x: bool = ...,
    transpose_y: bool = ...,
) -> None: ...
def dot(x: _Matrix, y: _Matrix, transpose_x: bool = ..., transpose_y: bool = ...) -> jax.Array: ...
def first(body: Callable[[], None]) -> None: ...
def last(body: Callable[[], None]) -> None: ...
def load_rows[E: DType, M: int, N: int](ref: Ref[VectorLoads, E, M, N]) -> Block[E, M, N]: ...
def broadcast_rows(vector: jax.Array, shape: tuple[int, ...]) -> jax.Array: ...
def grid_index(axis: str) -> jax.Array: ...
def grid_size(axis: str) -> int: ...
