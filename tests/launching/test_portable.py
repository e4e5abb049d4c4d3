"""Portable operations outside of a launch, and their own errors inside."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import typedpallas as tp
from typedpallas import BLOCK, In, Out, f32

VALUE = jnp.ones((8, 8))
CALLS: dict[str, Any] = {
    "mma": lambda: tp.mma(VALUE, VALUE, VALUE),
    "dot": lambda: tp.dot(VALUE, VALUE),
    "first": lambda: tp.first(lambda: None),
    "last": lambda: tp.last(lambda: None),
    "load_rows": lambda: tp.load_rows(VALUE),
    "broadcast_rows": lambda: tp.broadcast_rows(VALUE[0], (8, 8)),
    "grid_index": lambda: tp.grid_index("i"),
    "grid_size": lambda: tp.grid_size("i"),
}


@pytest.mark.parametrize("name", CALLS)
def test_outside_of_a_launch(name: str) -> None:
    with pytest.raises(tp.OutsideLaunch, match=rf"tp\.{name} works only inside a kernel"):
        CALLS[name]()


def run(body: Any) -> Any:
    """A launch of one (8, 16) block whose kernel is ``body``."""

    def kernel(x: In[BLOCK, f32, 8, 16], out: Out[BLOCK, f32, 8, 16]) -> None:
        body(x, out)

    return tp.launch(kernel, "(i 8) 16 -> (i 8) 16", grid="i")(np.ones((8, 16), np.float32))


def test_shapes_that_do_not_contract() -> None:
    with pytest.raises(ValueError, match=r"found 16 of \(8, 16\) and 8 of \(8, 16\)"):
        run(lambda x, out: tp.dot(x, x))


def test_accumulator_of_another_shape() -> None:
    with pytest.raises(ValueError, match=r"expected an accumulator of shape \(8, 8\), found \(8, 16\)"):
        run(lambda x, out: tp.mma(out, x, x, transpose_y=True))


def test_operands_of_two_types() -> None:
    with pytest.raises(ValueError, match="one element type, found float32 and bfloat16"):
        run(lambda x, out: tp.dot(x, x[...].astype(jnp.bfloat16), transpose_y=True))


def test_no_matrices() -> None:
    with pytest.raises(ValueError, match="expected two matrices"):
        run(lambda x, out: tp.dot(x, jnp.ones((16,))))


def test_axis_that_the_grid_lacks() -> None:
    with pytest.raises(ValueError, match=r"tp\.grid_index: expected a grid axis \(i\), found `j`"):
        run(lambda x, out: tp.grid_index("j"))


def test_transposed_operands() -> None:
    def body(x: Any, out: Any) -> None:
        square = tp.dot(x, x, transpose_y=True)
        other = tp.dot(x, x, transpose_x=True)
        out[...] = tp.dot(square, x[...]) + tp.dot(x[...], other)

    x = np.ones((8, 16), np.float32)
    np.testing.assert_allclose(run(body), x @ x.T @ x + x @ (x.T @ x))
