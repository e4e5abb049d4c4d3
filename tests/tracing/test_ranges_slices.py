"""The slices of traced kernels: bounds with a witness, starts as the compiler sees them, silence about data."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp

f32, bf16, i8, i32 = jnp.float32, jnp.bfloat16, jnp.int8, jnp.int32
S = jax.ShapeDtypeStruct
MINE = {"index-out-of-bounds", "unaligned-slice", "narrow-scalar"}


def said(
    body: Callable[..., None],
    shape: tuple[int, ...] = (64, 256),
    dtype: Any = f32,
    *,
    grid: tuple[int, ...] = (2,),
    space: Any = pltpu.VMEM,
    scratch: tuple[Any, ...] = (),
    target: str | None = "tpu-v5e",
) -> list[tuple[str, str]]:
    """The rules here that speak of a kernel on scalars and one operand, with their verdicts."""

    def run(s: jax.Array, x: jax.Array) -> jax.Array:
        return pl.pallas_call(
            body,
            grid=grid,
            out_shape=S((8, 256), f32),
            in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=space)],
            out_specs=pl.BlockSpec((8, 256), lambda *_: (0, 0)),
            scratch_shapes=scratch,
        )(s, x)

    report = tp.check(run, S((4,), i32), S(shape, dtype), target=target)
    return [(item.rule, item.verdict) for item in report.diagnostics if item.rule in MINE]


OUT = [("index-out-of-bounds", "refuted")]
CUT = [("unaligned-slice", "refuted")]


def _reads(start: Callable[[Any, Any], Any], size: int = 8) -> Callable[..., None]:
    def body(s: Any, x: Any, o: Any) -> None:
        o[...] = jnp.zeros((8, 256), f32) + jnp.sum(x[pl.ds(start(pl.program_id(0), s), size), :].astype(f32))

    return body


@pytest.mark.parametrize(
    ("start", "verdicts"),
    [
        (lambda i, s: i * 56, []),
        (lambda i, s: i * 64, OUT),
        (lambda i, s: i * 8 - 8, OUT),
        (lambda i, s: jnp.minimum(i * 64, 56), []),
        (lambda i, s: lax.cond(i > 0, lambda: 64, lambda: 0), OUT),
        (lambda i, s: s[0] * 8, []),
        (lambda i, s: pl.multiple_of(s[0], 8), []),
        (lambda i, s: jnp.maximum(s[0], 1000), [*OUT, *CUT]),
        (lambda i, s: 55, []),
        (lambda i, s: -8, OUT),
    ],
    ids=[
        "fits",
        "past the end",
        "before 0",
        "clamped",
        "branch",
        "data",
        "promised",
        "all past",
        "static",
        "negative",
    ],
)
def test_starts_of_rows(start: Callable[[Any, Any], Any], verdicts: list[tuple[str, str]]) -> None:
    found = said(_reads(start))
    assert [one for one in found if one[0] == "index-out-of-bounds"] == [one for one in verdicts if one in OUT]
    assert [one for one in found if one[0] == "unaligned-slice"] == [one for one in verdicts if one in CUT]


def _in_branch(condition: Callable[[Any, Any], Any]) -> Callable[..., None]:
    def body(s: Any, x: Any, o: Any) -> None:
        i = pl.program_id(0)
        o[...] = jnp.zeros((8, 256), f32)

        @pl.when(condition(i, s))
        def _() -> None:
            o[...] = x[pl.ds(i * 64, 8), :]

    return body


def test_only_what_surely_runs_is_refused() -> None:
    assert said(_in_branch(lambda i, s: i == 1)) == OUT
    assert said(_in_branch(lambda i, s: i == 0)) == []
    assert said(_in_branch(lambda i, s: i > 5)) == []
    assert said(_in_branch(lambda i, s: s[0] > 0)) == []


def _looped(low: Any, high: Callable[[Any, Any], Any], **options: Any) -> Callable[..., None]:
    def body(s: Any, x: Any, o: Any) -> None:
        def turn(k: Any, total: Any) -> Any:
            return total + x[pl.ds(k * 16, 16), :][:8]

        o[...] = lax.fori_loop(low, high(pl.program_id(0), s), turn, jnp.zeros((8, 256), f32), **options)

    return body


def test_loops_of_known_and_unknown_length() -> None:
    assert said(_looped(0, lambda i, s: 4)) == []
    assert said(_looped(0, lambda i, s: 5)) == OUT
    assert said(_looped(0, lambda i, s: 5, unroll=True)) == OUT
    assert said(_looped(1, lambda i, s: i + 4)) == OUT
    assert said(_looped(1, lambda i, s: i + 3)) == []
    assert said(_looped(0, lambda i, s: s[0])) == []
    assert said(_looped(0, lambda i, s: 0)) == []


def test_a_carried_start() -> None:
    def body(turns: int) -> Callable[..., None]:
        def kernel(s: Any, x: Any, o: Any) -> None:
            def turn(k: Any, carried: Any) -> Any:
                at, total = carried
                return at + 8, total + x[pl.ds(pl.multiple_of(at, 8), 8), :]

            o[...] = lax.fori_loop(0, turns, turn, (jnp.int32(0), jnp.zeros((8, 256), f32)))[1]

        return kernel

    assert said(body(8)) == []
    assert said(body(9)) == OUT


def test_a_carried_start_is_not_proved_to_the_compiler() -> None:
    def body(s: Any, x: Any, o: Any) -> None:
        def turn(k: Any, carried: Any) -> Any:
            at, total = carried
            return at + 8, total + x[pl.ds(at, 8), :]

        o[...] = lax.fori_loop(0, 4, turn, (jnp.int32(0), jnp.zeros((8, 256), f32)))[1]

    assert said(body) == CUT


def test_a_flag_that_a_loop_flips_stays_in_bounds() -> None:
    """Two slots in turn: the carry settles between 0 and 1."""

    def body(s: Any, x: Any, o: Any) -> None:
        def turn(k: Any, carried: Any) -> Any:
            slot, total = carried
            return 1 - slot, total + x[slot]

        o[...] = lax.fori_loop(0, 9, turn, (jnp.int32(0), jnp.zeros((8, 256), f32)))[1]

    assert said(body, (2, 8, 256)) == []


def test_semaphores_have_bounds_too() -> None:
    def body(slots: int) -> Callable[..., None]:
        def kernel(s: Any, x: Any, o: Any, buffer: Any, done: Any) -> None:
            copy = pltpu.make_async_copy(x.at[0], buffer, done.at[pl.program_id(0)])
            copy.start()
            copy.wait()
            o[...] = buffer[...]

        return kernel

    def of(slots: int) -> list[tuple[str, str]]:
        scratch = (pltpu.VMEM((8, 256), f32), pltpu.SemaphoreType.DMA((slots,)))
        return said(body(slots), (2, 8, 256), space=pl.ANY, scratch=scratch)

    assert of(2) == []
    assert set(of(1)) == set(OUT)


def test_without_a_target_what_holds_on_every_chip_is_judged() -> None:
    assert said(_reads(lambda i, s: i * 64), target=None) == OUT
    assert said(_reads(lambda i, s: i * 4), target=None) == CUT


def test_a_copy_says_once_what_its_start_and_its_wait_share() -> None:
    def body(s: Any, x: Any, o: Any, buffer: Any, done: Any) -> None:
        copy = pltpu.make_async_copy(x.at[pl.ds(3, 8), :], buffer, done)
        copy.start()
        copy.wait()
        o[...] = buffer[...]

    scratch = (pltpu.VMEM((8, 256), f32), pltpu.SemaphoreType.DMA)
    assert said(body, space=pl.ANY, scratch=scratch) == CUT


@pytest.mark.parametrize(
    ("dtype", "needed", "scratch_of_7x"), [(f32, 8, 8), (bf16, 8, 16), (i8, 32, 32)], ids=["f32", "bf16", "i8"]
)
def test_tiles_by_type_and_owner(dtype: Any, needed: int, scratch_of_7x: int) -> None:
    def own(step: int) -> Callable[..., None]:
        def body(s: Any, x: Any, o: Any, buffer: Any) -> None:
            buffer[pl.ds(s[0] * step, 2), :] = jnp.zeros((2, 256), dtype)
            o[...] = jnp.zeros((8, 256), f32)

        return body

    scratch = (pltpu.VMEM((64, 256), dtype),)
    for step in (4, 8, 16, 32):
        assert (said(_reads(lambda i, s, step=step: s[0] * step, 2), dtype=dtype) == []) == (step % needed == 0)
        assert (said(own(step), scratch=scratch, target="tpu-7x") == []) == (step % scratch_of_7x == 0)


def test_the_message_has_arithmetic_a_step_and_the_edit() -> None:
    def run(x: jax.Array) -> jax.Array:
        def body(x: Any, o: Any) -> None:
            o[...] = x[pl.ds(jnp.maximum(pl.program_id(0) * 8, 8), 8), :]

        return pl.pallas_call(
            body, grid=(4,), out_shape=S((8, 256), f32), out_specs=pl.BlockSpec((8, 256), lambda i: (0, 0))
        )(x)

    (item,) = tp.check(run, S((64, 256), f32), target="tpu-v5e").diagnostics
    assert "in a way that the compiler does not see" in item.message
    assert "pl.multiple_of(start, 8)" in item.help


def test_jax_refuses_constants_past_the_end_by_the_same_rule() -> None:
    for body in (
        lambda s, x, o: o.__setitem__(..., x[pl.ds(60, 8), :]),
        lambda s, x, o: o.__setitem__(..., jnp.zeros((8, 256), f32) + x[64, :]),
    ):
        assert said(body) == OUT


def test_narrow_scalars() -> None:
    def used(s: Any, x: Any, o: Any) -> None:
        o[...] = jnp.zeros((8, 256), f32) + x[1, 2].astype(f32)

    def unused(s: Any, x: Any, o: Any) -> None:
        x[1, 2]
        o[...] = jnp.zeros((8, 256), f32)

    assert said(used, dtype=bf16) == [("narrow-scalar", "refuted")]
    assert said(used, dtype=jnp.bool_) == []
    assert said(used) == []
    assert said(unused, dtype=bf16) == []


def test_zero_programs_do_nothing() -> None:
    assert said(_reads(lambda i, s: i * 64 + 64), grid=(0,)) == []


TAKEN = [
    (f32, (64, 256), "3", 4),
    (f32, (64, 256), "4", 8),
    (f32, (64, 256), "7", 2),
    (f32, (64, 256), "*4", 4),
    (f32, (64, 128), "*1", 12),
    (f32, (3, 256), "*1", 3),
    (f32, (40, 256), "*8", 40),
    (bf16, (64, 256), "6", 4),
    (bf16, (5, 256), "4", 1),
    (bf16, (5, 256), "*8", 5),
    (bf16, (64, 128), "*2", 12),
    (i8, (64, 256), "4", 28),
    (i8, (32, 256), "*8", 12),
    (i8, (64, 256), "*16", 16),
]
REFUSED = [
    (f32, (64, 256), "3", 6),
    (f32, (64, 256), "0", 12),
    (f32, (64, 256), "*8", 12),
    (f32, (64, 256), "*2", 4),
    (bf16, (64, 256), "5", 4),
    (bf16, (64, 128), "*1", 2),
    (bf16, (5, 256), "*4", 5),
    (i8, (64, 256), "4", 32),
    (i8, (64, 256), "*8", 12),
    (i8, (3, 256), "*4", 2),
]
"""Copies of rows, by type, shape, start (`*4`: a scalar times 4) and size; what libtpu says of each on v5e."""


@pytest.mark.parametrize(
    ("dtype", "shape", "start", "size", "taken"), [(*c, True) for c in TAKEN] + [(*c, False) for c in REFUSED]
)
def test_rows_that_copies_take(dtype: Any, shape: tuple[int, int], start: str, size: int, taken: bool) -> None:
    def body(s: Any, x: Any, o: Any, part: Any) -> None:
        at = s[0] * int(start[1:]) if start[0] == "*" else int(start)
        pltpu.sync_copy(x.at[pl.ds(at, size), :], part)
        o[...] = jnp.zeros((8, 256), f32)

    found = said(body, shape, dtype, space=pl.ANY, scratch=(pltpu.VMEM((size, shape[1]), dtype),))
    assert found == ([] if taken else CUT)


@pytest.mark.parametrize(
    ("use", "verdict"),
    [
        (lambda i, number: jnp.where(i > 0, number, 0), "open"),
        (lambda i, number: lax.select(i > 0, number * 2 + 1, 7), "open"),
        (lambda i, number: number + jnp.where(i > 0, number, 0), "refuted"),
        (lambda i, number: jnp.where(number > 0, i, 0), "refuted"),
    ],
)
def test_a_number_from_outside_that_a_select_may_drop(use: Callable[[Any, Any], Any], verdict: str) -> None:
    """A kernel reads its previous entry at each step and throws away what it read at the first."""

    def kernel(table_ref: Any, o_ref: Any) -> None:
        i = pl.program_id(0)
        o_ref[...] = jnp.full(o_ref.shape, use(i, table_ref[i - 1]), jnp.int32)

    run = pl.pallas_call(
        kernel,
        grid=(4,),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((32, 128), jnp.int32),
    )
    report = tp.check(run, jax.ShapeDtypeStruct((4,), jnp.int32), target="tpu-v5e")
    assert {(item.rule, item.verdict) for item in report.diagnostics} == {("index-out-of-bounds", verdict)}


def test_a_slice_that_jax_itself_copies_has_the_line_of_the_copy() -> None:
    """`pltpu.sync_copy` is traced by JAX, in a scope of its own, without the frames of its caller."""

    def body(s: Any, x: Any, o: Any) -> None:
        pltpu.sync_copy(x.at[pl.ds(pl.program_id(0) * 4, 8), :], o)

    def run(s: jax.Array, x: jax.Array) -> jax.Array:
        specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.HBM)]
        out = pl.BlockSpec((8, 256), lambda i: (0, 0))
        return pl.pallas_call(body, grid=(2,), out_shape=S((8, 256), f32), in_specs=specs, out_specs=out)(s, x)

    report = tp.check(run, S((4,), i32), S((64, 256), f32), target="tpu-v5e")
    (cut,) = [item for item in report.diagnostics if item.rule == "unaligned-slice"]
    assert (cut.file, cut.line) == (__file__, body.__code__.co_firstlineno + 1)
