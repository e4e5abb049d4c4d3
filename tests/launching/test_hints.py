"""A launch promises the alignment that it proves, where Mosaic TPU asks for it, and nowhere else."""

from collections.abc import Callable
from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl

import typedpallas as tp
from typedpallas import Dim, In, Multiple, Out, Scratch, f32, i32
from typedpallas.compilers.ambient import target_context
from typedpallas.launching import Launch
from typedpallas.tpu import HBM, SMEM, VMEM
from typedpallas.tracing import jaxapi
from typedpallas.tracing.guard import CheckerFault
from typedpallas.tracing.ranges import promises

X = jax.ShapeDtypeStruct((64, 256), jnp.float32)
TARGET = "tpu-v5e"

type Start = Callable[[Any, int], Any]

SEEN: dict[str, Start] = {
    "product": lambda i, BM: i * BM,
    "sum": lambda i, BM: (i + 1) * BM - BM,
    "minimum": lambda i, BM: jnp.minimum(i * BM, 48),
    "floor": lambda i, BM: i // 2 * BM,
}
"""What Mosaic proves by itself."""
UNSEEN: dict[str, Start] = {
    "maximum": lambda i, BM: jnp.maximum(i * BM - BM, 0),
    "clip": lambda i, BM: jnp.clip(i * BM, 0, 48),
    "shift": lambda i, BM: i << 4,
    "shift back": lambda i, BM: (i >> 1) << 4,
    "mask": lambda i, BM: (i * 17) & ~15,
    "absolute": lambda i, BM: abs(i * BM),
    "branch": lambda i, BM: lax.cond(i > 1, lambda: i * BM, lambda: 0),
    "turns": lambda i, BM: lax.fori_loop(0, i, lambda _, at: at + BM, 0),
}
"""What it does not."""
WRONG: dict[str, Start] = {
    "half": lambda i, BM: jnp.maximum(i * (BM // 4), 0),
    "odd": lambda i, BM: (i << 4) | 1,
}
"""What nobody proves, as it is not true."""


def picked(start: Start, *, promised: bool = False) -> Launch:
    def pick[BM: Multiple[L[8]], M: Dim, N: Multiple[L[256]]](
        x: In[VMEM, f32, M, N], out: Out[VMEM, f32, BM, N]
    ) -> None:
        BM = out.shape[0]
        at = start(pl.program_id(0), BM)
        out[...] = x[pl.ds(pl.multiple_of(at, BM) if promised else at, BM), :]

    return tp.launch(pick, "M N -> (i BM) N", grid="i", dims={"i": 4})


def streamed(start: Start, *, promised: bool = False) -> Launch:
    """The same by a copy, in a loop inside of a branch."""

    def stream[BM: Multiple[L[8]], M: Dim, N: Multiple[L[256]]](
        x: In[HBM, f32, M, N],
        out: Out[VMEM, f32, BM, N],
        buffer: Scratch[VMEM, f32, BM, N],
        done: Scratch[tp.tpu.DMA],
    ) -> None:
        BM = out.shape[0]
        out[...] = jnp.zeros_like(out)

        def turn(k: Any, _: None) -> None:
            at = start(k, BM)
            at = pl.multiple_of(at, BM) if promised else at
            tp.tpu.sync_copy(x.at[pl.ds(at, BM), :], buffer)
            out[...] += buffer[...]

        @pl.when(pl.program_id(0) >= 0)
        def _() -> None:
            lax.fori_loop(0, 4, turn, None)

    return tp.launch(stream, "M N -> (i BM) N", grid="i", dims={"i": 2})


def operations(launch: Launch) -> list[str]:
    """The primitives of the launch's kernel on a TPU, inner ones included."""

    def inside(jaxpr: Any) -> list[str]:
        found = []
        for eqn in jaxapi.open_jaxpr(jaxpr).eqns:
            found.append(eqn.primitive.name)
            for inner in jaxapi.inner_jaxprs(eqn):
                found += inside(inner)
        return found

    with target_context(TARGET):
        return inside(jax.make_jaxpr(lambda x: launch(x, BM=16))(X))


def _turned(k: Any, at: Any, x: Any, out: Any, buffer: Any) -> Any:
    tp.tpu.sync_copy(x.at[pl.ds(at, 16), :], buffer)
    out[...] += buffer[...]
    return at + 16


CARRIED: dict[str, Callable[..., Any]] = {
    "turns": lambda s, *refs: lax.fori_loop(0, 4, lambda k, at: _turned(k, at, *refs), 0),
    "turns that data decides": lambda s, *refs: lax.fori_loop(0, s[0], lambda k, at: _turned(k, at, *refs), s[1] * 8),
    "while": lambda s, *refs: lax.while_loop(
        lambda at: at < 64, lambda at: _turned(0, at, *refs), pl.program_id(0) * 16
    ),
    "turns in turns": lambda s, *refs: lax.fori_loop(
        0, 2, lambda j, at: lax.fori_loop(0, 2, lambda k, at: _turned(k, at, *refs), at), 0
    ),
}


@pytest.mark.parametrize("loop", CARRIED.values(), ids=CARRIED)
def test_what_a_loop_carries_is_promised_in_its_body(loop: Callable[..., Any]) -> None:
    def stream[BM: Multiple[L[8]], M: Dim, N: Multiple[L[256]]](
        s: In[SMEM, i32, L[2]],
        x: In[HBM, f32, M, N],
        out: Out[VMEM, f32, BM, N],
        buffer: Scratch[VMEM, f32, BM, N],
    ) -> None:
        out[...] = jnp.zeros_like(out)
        loop(s, x, out, buffer)

    launch = tp.launch(stream, "2, M N -> (i BM) N", grid="i", dims={"i": 2})
    numbers = jax.ShapeDtypeStruct((2,), jnp.int32)
    assert launch.check(numbers, X, target=TARGET, BM=16).ok
    launch.compile(numbers, X, target=TARGET, BM=16)


def test_sizes_and_both_axes_are_promised() -> None:
    def kernel(
        s: In[SMEM, i32, L[2]],
        x: In[HBM, f32, L[64], L[256]],
        out: Out[VMEM, f32, L[8], L[128]],
        buffer: Scratch[VMEM, f32, L[64], L[256]],
    ) -> None:
        rows = jnp.maximum(s[0] * 8, 8)
        tp.tpu.sync_copy(x.at[pl.ds(0, rows), :], buffer.at[pl.ds(0, rows), :])
        i = jnp.maximum(pl.program_id(0), 0)
        out[...] = buffer[pl.ds(jnp.maximum(i * 8, 0), 8), pl.ds(jnp.maximum(i * 128, 0), 128)]

    launch = tp.launch(kernel, "2, 64 256 -> (i 8) 128", grid="i", dims={"i": 2})
    numbers = jax.ShapeDtypeStruct((2,), jnp.int32)
    assert launch.check(numbers, X, target=TARGET).ok
    launch.compile(numbers, X, target=TARGET)


MAKERS = {"pick": picked, "stream": streamed}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("start", SEEN.values(), ids=SEEN)
def test_nothing_is_added_where_the_compiler_sees_it(make: Any, start: Start) -> None:
    assert "multiple_of" not in operations(make(start))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("start", UNSEEN.values(), ids=UNSEEN)
def test_what_is_proved_is_promised(make: Any, start: Start) -> None:
    assert operations(make(start)).count("multiple_of") == operations(make(start, promised=True)).count("multiple_of")


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("start", UNSEEN.values(), ids=UNSEEN)
def test_the_compiler_takes_what_it_refuses_of_plain_pallas(make: Any, start: Start) -> None:
    launch = make(start)
    assert launch.check(X, target=TARGET, BM=16).ok
    launch.compile(X, target=TARGET, BM=16)
    if make is picked:
        with pytest.raises(tp.CompileError, match="cannot statically prove"):
            tp.compile(by_hand(start), X, target=TARGET)


def by_hand(start: Start) -> Callable[..., Any]:
    def kernel(x: Any, out: Any) -> None:
        out[...] = x[pl.ds(start(pl.program_id(0), 16), 16), :]

    return pl.pallas_call(
        kernel,
        out_shape=X,
        grid=(4,),
        in_specs=[pl.BlockSpec((64, 256), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((16, 256), lambda i: (i, 0)),
    )


@pytest.mark.parametrize("start", WRONG.values(), ids=WRONG)
def test_what_is_not_true_is_refused(start: Start) -> None:
    with pytest.raises(tp.PlacementError, match="unaligned"):
        picked(start).compile(X, target=TARGET, BM=16)


def test_what_holds_for_a_grid_of_one_step_alone_is_not_promised() -> None:
    """``0 * 4`` is a multiple of anything, but nobody wrote that there is one step."""
    start = WRONG["half"]
    one = picked(start)
    launch = tp.launch(one.kernel, "M N -> (i BM) N", grid="i", dims={"i": 1})
    assert not launch.check(X, target=TARGET, BM=16).ok


def test_a_start_that_is_aligned_in_one_of_two_calls_is_not_promised() -> None:
    """A function that is traced once has one set of equations for all of its calls."""

    @jax.jit
    def at(number: Any) -> Any:
        return jnp.maximum(number, 0)

    def kernel[BM: Multiple[L[8]], M: Dim, N: Dim](x: In[VMEM, f32, M, N], out: Out[VMEM, f32, BM, N]) -> None:
        i = pl.program_id(0)
        out[...] = x[pl.ds(at(i * 16), 16), :] + x[pl.ds(at(i * 4), 16), :]

    launch = tp.launch(kernel, "M N -> (i BM) N", grid="i", dims={"i": 2})
    assert not launch.check(X, target=TARGET, BM=16).ok


def test_numbers_stay_right() -> None:
    """In interpret mode, alone, mapped and jitted."""
    x = np.arange(64 * 256, dtype=np.float32).reshape(64, 256)
    launch = picked(UNSEEN["maximum"])
    expected = np.concatenate([x[:16], x[:48]])
    np.testing.assert_array_equal(launch(x, BM=16), expected)
    np.testing.assert_array_equal(jax.jit(lambda y: launch(y, BM=16))(x), expected)
    np.testing.assert_array_equal(jax.vmap(lambda y: launch(y, BM=16))(np.stack([x, x + 1]))[1], expected + 1)


def test_mapped_and_jitted_calls_are_told_too() -> None:
    launch = picked(UNSEEN["maximum"])
    many = jax.ShapeDtypeStruct((3, 64, 256), jnp.float32)
    tp.compile(jax.jit(jax.vmap(lambda y: launch(y, BM=16))), many, target=TARGET)


def test_a_fault_here_is_no_fault_of_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(kernel: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(promises.ranges_slices, "by_part", broken)
    monkeypatch.delenv("TYPEDPALLAS_DEBUG", raising=False)
    x = np.ones((64, 256), np.float32)
    with pytest.warns(CheckerFault, match="what may be promised"):
        picked(SEEN["product"])(x, BM=16)
