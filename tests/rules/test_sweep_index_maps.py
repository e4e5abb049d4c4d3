"""Random index maps, held against TPU interpret mode: what is refused goes wrong there, what is right passes."""

import math
import random
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sweeps_common import Kernel, refuted, samples, verdicts

GRID_RULES = {"block-out-of-range", "block-never-written", "nonconsecutive-revisit"}
ROWS, COLUMNS = 8, 128
TARGET = "tpu-v5e"
type Result = Callable[..., jax.Array | int]


def _result(choose: random.Random, axes: int) -> tuple[str, Result]:
    """One block index as a function of the grid ids, with its text."""
    a, b, constant = choose.randrange(axes), choose.randrange(axes), choose.choice((0, 0, 1))
    forms: list[tuple[str, Result]] = [
        (f"g{a}", lambda *g: g[a]),
        (f"g{a}", lambda *g: g[a]),
        (f"g{a}", lambda *g: g[a]),
        (str(constant), lambda *g: constant),
        (f"g{a} + 1", lambda *g: g[a] + 1),
        (f"g{a} - 1", lambda *g: g[a] - 1),
        (f"g{a} // 2", lambda *g: g[a] // 2),
        (f"g{a} % 2", lambda *g: g[a] % 2),
        (f"g{a} * {ROWS}", lambda *g: g[a] * ROWS),
        (f"2 * g{a} + g{b} % 2", lambda *g: 2 * g[a] + g[b] % 2),
        (f"3 - g{a}", lambda *g: 3 - g[a]),
        (f"min(g{a} + g{b}, 2)", lambda *g: jnp.minimum(g[a] + g[b], 2)),
        (f"where(g{a} == 1, g{b}, g{a})", lambda *g: jnp.where(g[a] == 1, g[b], g[a])),
    ]
    return choose.choice(forms)


def make(choose: random.Random) -> Kernel:
    """A copy, or a sum over a grid axis, whose operands and result go by random maps."""
    axes = choose.choice((1, 2, 2, 3))
    grid = tuple(choose.choice((1, 2, 2, 3, 4)) for _ in range(axes))
    blocks = (choose.choice((1, 2, 3, 4)), choose.choice((1, 1, 2)))
    shape = jax.ShapeDtypeStruct((blocks[0] * ROWS, blocks[1] * COLUMNS), jnp.float32)
    (first, row), (second, column) = _result(choose, axes), _result(choose, axes)
    body, axis = choose.choice(("copy", "copy", "sum", "last")), choose.randrange(axes)

    def kernel(x_ref: jax.Array, o_ref: jax.Array) -> None:
        if body == "copy":
            o_ref[...] = x_ref[...]
        elif body == "last":

            @pl.when(pl.program_id(axis) == grid[axis] - 1)
            def _() -> None:
                o_ref[...] = x_ref[...]
        else:

            @pl.when(pl.program_id(axis) == 0)
            def _() -> None:
                o_ref[...] = jnp.zeros_like(o_ref)

            o_ref[...] += x_ref[...]

    spec = pl.BlockSpec((ROWS, COLUMNS), lambda *g: (row(*g), column(*g)))

    def run(x: jax.Array, interpret: object = False) -> jax.Array:
        return pl.pallas_call(
            kernel,
            out_shape=shape,
            grid=grid,
            in_specs=[spec],
            out_specs=spec,
            interpret=interpret,  # type: ignore[arg-type]
        )(x)

    words = f"{body} over axis {axis}, grid {grid}, ({first}, {second}) into {blocks} blocks"
    return Kernel(words, run, (shape,))


def _outcome(kernel: Kernel, x: np.ndarray) -> np.ndarray | None:
    """The result in TPU interpret mode, memory that nobody wrote being NaN; none if it stops the kernel."""
    params = pltpu.InterpretParams(uninitialized_memory="nan")
    try:
        return np.asarray(kernel.run(jnp.asarray(x), interpret=params))
    except Exception as error:
        assert "Out-of-bounds block index" in str(error) or "Revisited block" in str(error), error
        return None


def test_index_maps() -> None:
    for kernel in samples(10, make):
        said = {slug: verdict for slug, verdict in verdicts(kernel, TARGET).items() if slug in GRID_RULES}
        x = np.arange(math.prod(kernel.args[0].shape), dtype=np.float32).reshape(kernel.args[0].shape) + 1
        result = _outcome(kernel, x)
        if refuted(said):
            assert result is None or np.isnan(result).any(), f"{kernel.words}: {said}, yet it is right"
        elif not said and result is not None and kernel.words.startswith("copy"):
            np.testing.assert_array_equal(result, x, err_msg=kernel.words)


@pytest.mark.parametrize("seed", range(3))
def test_samples_have_both_kinds(seed: int) -> None:
    """The sweep would prove nothing if it met only good or only bad maps."""
    kernels = [make(random.Random(f"{seed}/{number}")) for number in range(30)]
    bad = [bool(refuted(verdicts(kernel, TARGET)) & GRID_RULES) for kernel in kernels]
    assert any(bad) and not all(bad)
