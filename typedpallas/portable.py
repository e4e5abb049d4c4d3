"""The operations of a portable kernel: one spelling, which each backend turns into its own.

They work inside the body of a kernel that a `tp.launch` runs, and nowhere else. Everything that all backends spell
alike (`jax.numpy`, ``ref[...]``, `pl.when`, `jax.lax.broadcasted_iota`) needs no operation here.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from typedpallas.launching import jaxapi


class OutsideLaunch(RuntimeError):
    """A portable operation was called where no launch is running a kernel."""


@dataclass(frozen=True)
class GridAxis:
    """Where the running step is along one grid axis: ``index`` of ``size`` steps, as traced int32."""

    index: Callable[[], Any]
    size: int


class Operations:
    """How one backend spells the portable operations; backends with other matrix units override.

    Args:
        axes: the grid axes by name.
        step: the running step of the sequential axes taken together, traced; none if there is no such axis.
        steps: how many there are.
    """

    key: str = "plain"
    """Tells JAX's trace caches the backends apart."""

    def __init__(self, axes: Mapping[str, GridAxis], step: Any | None, steps: int) -> None:
        self.axes = axes
        self.step = step
        self.steps = steps

    def at_step(self, which: int, body: Callable[[], None]) -> None:
        """Run ``body`` at one step only."""
        if self.step is None:
            body()
        else:
            pl.when(lax.eq(self.step, jnp.int32(which)))(body)

    def mma(self, acc: Any, x: Any, y: Any, transpose_x: bool, transpose_y: bool) -> None:
        """``acc += x @ y``."""
        acc[...] += contract(value(x), value(y), transpose_x, transpose_y, acc.dtype)

    def dot(self, x: Any, y: Any, transpose_x: bool, transpose_y: bool) -> Any:
        """``x @ y``."""
        return contract(value(x), value(y), transpose_x, transpose_y, product_dtype(x.dtype))

    def load_rows(self, ref: Any) -> Any:
        """The whole block, so that rows can be reduced."""
        return ref[...]


def value(x: Any) -> Any:
    """What a ref holds; a value is itself."""
    return x[...] if jaxapi.is_ref(x) else x


def product_dtype(dtype: Any) -> Any:
    """What products of ``dtype`` are summed in."""
    return jnp.dtype(jnp.int32 if jnp.issubdtype(dtype, jnp.integer) else jnp.float32)


def contract(x: Any, y: Any, transpose_x: bool, transpose_y: bool, dtype: Any) -> Any:
    """The matrix product of two values, summed in ``dtype``."""
    dims = ((0 if transpose_x else 1,), (1 if transpose_y else 0,))
    return lax.dot_general(x, y, (dims, ((), ())), preferred_element_type=dtype)


_KEY = jax.make_user_context(default_value=None)
_RUNNING: ContextVar[Operations | None] = ContextVar("typedpallas_operations", default=None)


@contextmanager
def running(operations: Operations) -> Iterator[None]:
    """Inside, the portable operations are spelled as ``operations`` say. For backends."""
    token = _RUNNING.set(operations)
    try:
        with _KEY(operations.key):
            yield
    finally:
        _RUNNING.reset(token)


def _operations(name: str) -> Operations:
    found = _RUNNING.get()
    if found is None:
        raise OutsideLaunch(f"tp.{name} works only inside a kernel that a tp.launch runs")
    return found


def mma(acc: Any, x: Any, y: Any, transpose_x: bool = False, transpose_y: bool = False) -> None:
    """``acc += x @ y`` on the matrix unit.

    Args:
        acc: a `Scratch` in `tp.ACC`, shape ``(m, n)``.
        x: a ref or value of shape ``(m, k)``, or ``(k, m)`` with ``transpose_x``.
        y: a ref or value of shape ``(k, n)``, or ``(n, k)`` with ``transpose_y``.

    Raises:
        OutsideLaunch: no launch is running.
        ValueError: the shapes do not contract.
    """
    operations = _operations("mma")
    shape = _product_shape("mma", x, y, transpose_x, transpose_y)
    if tuple(acc.shape) != shape:
        raise ValueError(f"tp.mma: expected an accumulator of shape {shape}, found {tuple(acc.shape)}")
    operations.mma(acc, x, y, transpose_x, transpose_y)


def dot(x: Any, y: Any, transpose_x: bool = False, transpose_y: bool = False) -> jax.Array:
    """``x @ y`` on the matrix unit, as a value of float32 (int32 for integers).

    Args:
        x: a ref or value of shape ``(m, k)``, or ``(k, m)`` with ``transpose_x``.
        y: a ref or value of shape ``(k, n)``, or ``(n, k)`` with ``transpose_y``.

    Raises:
        OutsideLaunch: no launch is running.
        ValueError: the shapes do not contract.
    """
    operations = _operations("dot")
    _product_shape("dot", x, y, transpose_x, transpose_y)
    result: jax.Array = operations.dot(x, y, transpose_x, transpose_y)
    return result


def _product_shape(name: str, x: Any, y: Any, transpose_x: bool, transpose_y: bool) -> tuple[int, int]:
    if len(x.shape) != 2 or len(y.shape) != 2:
        raise ValueError(f"tp.{name}: expected two matrices, found shapes {tuple(x.shape)} and {tuple(y.shape)}")
    m, k = x.shape[::-1] if transpose_x else x.shape
    other, n = y.shape[::-1] if transpose_y else y.shape
    if k != other:
        raise ValueError(
            f"tp.{name}: expected inner dims that agree, found {k} of {tuple(x.shape)} and {other} of "
            f"{tuple(y.shape)} (transpose_x={transpose_x}, transpose_y={transpose_y})"
        )
    if x.dtype != y.dtype:
        raise ValueError(f"tp.{name}: expected operands of one element type, found {x.dtype} and {y.dtype}")
    return m, n


def first(body: Callable[[], None]) -> None:
    """Decorator: run ``body`` at the first step of the sequential grid axes, for each block of the others."""
    _operations("first").at_step(0, body)


def last(body: Callable[[], None]) -> None:
    """Decorator: run ``body`` at the last step of the sequential grid axes, for each block of the others."""
    operations = _operations("last")
    operations.at_step(operations.steps - 1, body)


def load_rows(ref: Any) -> jax.Array:
    """The whole block ``(m, n)``, laid out so that reductions over axis 1 and row operations are cheap."""
    result: jax.Array = _operations("load_rows").load_rows(ref)
    return result


def broadcast_rows(vector: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """One value for each row, ``(m,)``, repeated along the rows of ``shape``, ``(m, n)``."""
    _operations("broadcast_rows")
    return lax.broadcast_in_dim(vector, shape, (0,))


def grid_index(axis: str) -> jax.Array:
    """The running step along a grid axis of the launch, int32: ``grid_index("i") * BM`` is the first row.

    Raises:
        OutsideLaunch: no launch is running.
        ValueError: the launch has no such axis.
    """
    result: jax.Array = _axis("grid_index", axis).index()
    return result


def grid_size(axis: str) -> int:
    """How many steps a grid axis of the launch has.

    Raises:
        OutsideLaunch: no launch is running.
        ValueError: the launch has no such axis.
    """
    return _axis("grid_size", axis).size


def _axis(name: str, axis: str) -> GridAxis:
    axes = _operations(name).axes
    if axis not in axes:
        known = ", ".join(axes) or "the grid is empty"
        raise ValueError(f"tp.{name}: expected a grid axis ({known}), found `{axis}`")
    return axes[axis]
