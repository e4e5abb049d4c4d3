"""Padding that reaches a result: flagged exactly where TPU interpret mode, with NaN past the arrays, gives NaN."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plt

import typedpallas as tp

f32 = jnp.float32
INTERPRET = pltpu.InterpretParams(uninitialized_memory="nan")
RUNS: dict[str, tuple[Callable[..., Any], tuple[jax.ShapeDtypeStruct, ...], bool]] = {}


def _zeroed(o: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o[...] = jnp.zeros_like(o)


def _over_columns(name: str, body: Callable[[Any], Any], flagged: bool, columns: int = 640, width: int = 256) -> None:
    """A kernel that adds up what ``body`` makes of each block of columns."""

    def kernel(x: Any, o: Any) -> None:
        _zeroed(o)
        o[...] += body(x[...])

    def run(x: Any, interpret: Any = False) -> Any:
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((8, 1), f32),
            grid=(pl.cdiv(columns, width),),
            in_specs=[pl.BlockSpec((8, width), lambda k: (0, k))],
            out_specs=pl.BlockSpec((8, 1), lambda k: (0, 0)),
            interpret=interpret,
        )(x)

    RUNS[name] = run, (jax.ShapeDtypeStruct((8, columns), f32),), flagged


def _position(width: int = 256) -> Any:
    return pl.program_id(0) * width + jax.lax.broadcasted_iota(jnp.int32, (8, width), 1)


_over_columns("sum", lambda x: jnp.sum(x, 1, keepdims=True), True)
_over_columns("mean of squares", lambda x: jnp.mean(x * x, 1, keepdims=True), True)
_over_columns("maximum", lambda x: jnp.max(jnp.abs(x) * 2.0, 1, keepdims=True), True)
_over_columns("sum of exponentials", lambda x: jnp.sum(jnp.exp(x), 1)[:, None] / 3.0, True)
_over_columns("blocks that divide", lambda x: jnp.sum(x, 1, keepdims=True), False, 512)
_over_columns("block of the whole array", lambda x: jnp.sum(x, 1, keepdims=True), False, 640, 640)
_over_columns("masked", lambda x: jnp.sum(jnp.where(_position() < 640, x, 0.0), 1, keepdims=True), False)
_over_columns("masked late", lambda x: jnp.sum(jnp.where(_position() < 640, x * x, 0.0), 1, keepdims=True), False)


def _by_rows(name: str, body: Callable[[Any], Any], flagged: bool) -> None:
    """A kernel of row blocks, the last one partial, with a result for each row."""

    def kernel(x: Any, o: Any) -> None:
        o[...] = body(x[...])

    def run(x: Any, interpret: Any = False) -> Any:
        rows = pl.BlockSpec((16, 128), lambda i: (i, 0))
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((40, 128), f32),
            grid=(3,),
            in_specs=[rows],
            out_specs=rows,
            interpret=interpret,
        )(x)

    RUNS[name] = run, (jax.ShapeDtypeStruct((40, 128), f32),), flagged


_by_rows("along the whole axis", lambda x: x - jnp.mean(x, 1, keepdims=True), False)
_by_rows("across the rows of a block", lambda x: jnp.broadcast_to(jnp.sum(x, 0, keepdims=True), (16, 128)), True)


def _product(name: str, masks: tuple[bool, bool], flagged: bool) -> None:
    def kernel(x: Any, y: Any, o: Any) -> None:
        _zeroed(o)
        columns = pl.program_id(0) * 256 + jax.lax.broadcasted_iota(jnp.int32, (8, 256), 1)
        rows = pl.program_id(0) * 256 + jax.lax.broadcasted_iota(jnp.int32, (256, 128), 0)
        left = jnp.where(columns < 640, x[...], 0.0) if masks[0] else x[...]
        right = jnp.where(rows < 640, y[...], 0.0) if masks[1] else y[...]
        o[...] += jnp.dot(left, right, preferred_element_type=f32)

    def run(x: Any, y: Any, interpret: Any = False) -> Any:
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((8, 128), f32),
            grid=(3,),
            in_specs=[pl.BlockSpec((8, 256), lambda k: (0, k)), pl.BlockSpec((256, 128), lambda k: (k, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda k: (0, 0)),
            interpret=interpret,
        )(x, y)

    RUNS[name] = run, (jax.ShapeDtypeStruct((8, 640), f32), jax.ShapeDtypeStruct((640, 128), f32)), flagged


_product("product of partial blocks", (False, False), True)
_product("product of masked blocks", (True, True), False)


def _twice(x: Any) -> Any:
    return jax.jit(lambda v: jnp.sum(v * 2.0, 1, keepdims=True))(x)


def _by_chunks(x: Any) -> Any:
    def chunk(j: Any, best: Any) -> Any:
        return best + jnp.sum(jax.lax.dynamic_slice(x, (0, j * 128), (8, 128)), 1, keepdims=True)

    return jax.lax.fori_loop(0, 2, chunk, jnp.zeros((8, 1), f32))


def _while(x: Any) -> Any:
    def turn(carry: Any) -> Any:
        return carry[0] + 1, carry[1] + jnp.max(x, 1, keepdims=True)

    return jax.lax.while_loop(lambda carry: carry[0] < 2, turn, (0, jnp.zeros((8, 1), f32)))[1]


def _scanned(x: Any) -> Any:
    rows = x.reshape(8, 2, 128).transpose(1, 0, 2)
    return jax.lax.scan(lambda c, part: (c + jnp.sum(part, 1, keepdims=True), None), jnp.zeros((8, 1), f32), rows)[0]


def _either(x: Any) -> Any:
    return jax.lax.cond(x[0, 0] > 0, lambda: jnp.sum(x, 1, keepdims=True), lambda: jnp.max(x, 1, keepdims=True))


def _only_at(step: int) -> Callable[[Any], Any]:
    def body(x: Any) -> Any:
        full = jnp.sum(x, 1, keepdims=True)
        masked = jnp.sum(jnp.where(_position() < 640, x, 0.0), 1, keepdims=True)
        return jax.lax.cond(pl.program_id(0) == step, lambda: masked, lambda: full)

    return body


def _where(condition: Callable[[], Any]) -> Callable[[Any], Any]:
    return lambda x: jnp.sum(jnp.where(condition(), x, 0.0), 1, keepdims=True)


@jax.jit
def _mask(start: Any) -> Any:
    return start + jnp.arange(256)[None, :] < 640


_over_columns("in a function", _twice, True)
_over_columns("by chunks", _by_chunks, True)
_over_columns("by chunks that end with the array", _by_chunks, False, 512)
_over_columns("a loop of unknown length", _while, True)
_over_columns("a scan over parts", _scanned, True)
_over_columns("either way", _either, True)
_over_columns("masked in the last step", _only_at(2), False)
_over_columns("masked in the first step", _only_at(0), True)
_over_columns("the half that holds the array", lambda x: jnp.sum(x[:, :128], 1, keepdims=True), False)
_over_columns("the half past the array", lambda x: jnp.sum(x[:, 128:], 1, keepdims=True), True)
_over_columns("a cast", lambda x: jnp.sum(x.astype(jnp.bfloat16).astype(f32), 1, keepdims=True), True)
_over_columns("both axes", lambda x: jnp.broadcast_to(jnp.sum(x), (8, 1)), True)
_over_columns("times zero", lambda x: jnp.sum(x * (_position() < 640).astype(f32), 1, keepdims=True), False)
_over_columns("times one", lambda x: jnp.sum(x * (_position() < 900).astype(f32), 1, keepdims=True), True)
_over_columns("times itself", lambda x: jnp.sum(x * (x * (_position() < 900).astype(f32)), 1, keepdims=True), True)
_over_columns("divided by its sum", lambda x: (x / jnp.sum(x, 1, keepdims=True))[:, :1], True)
_over_columns("one too many", _where(lambda: _position() <= 640), True)
_over_columns("one too few", _where(lambda: _position() < 639), False)
_over_columns("without the step", _where(lambda: jax.lax.broadcasted_iota(jnp.int32, (8, 256), 1) < 640), True)
_over_columns("from the end", _where(lambda: _position() - 640 < 0), False)
_over_columns("either of two", _where(lambda: (_position() < 600) | (_position() // 40 == 15)), False)
_over_columns("a remainder", _where(lambda: _position() % 1000 < 640), False)
_over_columns("not past", _where(lambda: jnp.logical_not(_position() >= 640)), False)
_over_columns("in floats", _where(lambda: _position().astype(f32) < 639.5), False)
_over_columns("made by a function", _where(lambda: jnp.broadcast_to(_mask(pl.program_id(0) * 256), (8, 256))), False)
_over_columns(
    "and by data", lambda x: jnp.sum(jnp.where((_position() < 640) & (x > 0.1), x, 0.0), 1, keepdims=True), False
)
_over_columns(
    "chosen by a number", lambda x: jnp.where(pl.program_id(0) < 2, jnp.sum(x), 0.0)[None, None] + x[:, :1], False
)
_over_columns("turned around", lambda x: jax.lax.rev(x, (1,))[:, :1], True)
_over_columns("leaky", lambda x: jnp.sum(jnp.where(x > 0, x, 0.1 * x), 1, keepdims=True), True)
_over_columns("clipped", lambda x: jnp.sum(jnp.clip(x, -1.0, 1.0), 1, keepdims=True), True)
_over_columns("signs", lambda x: jnp.sum(jnp.sign(x), 1, keepdims=True), True)
_over_columns("without NaN", lambda x: jnp.sum(jnp.where(jnp.isnan(x), 0.0, x), 1, keepdims=True), False)
_over_columns(
    "put together", lambda x: jnp.sum(jnp.concatenate([x[:, :128], x[:, :128]], 1), 1, keepdims=True), False
)
_over_columns("running", lambda x: jnp.cumsum(x, 1)[:, :1], False)
_over_columns("running to the end", lambda x: jnp.cumsum(x, 1)[:, 255:], True)
_over_columns("running from the end", lambda x: jax.lax.cumsum(x, 1, reverse=True)[:, :1], True)
_over_columns("in a batch", lambda x: jnp.einsum("bik,bjk->bij", x[None], x[None])[0, :, :1], True)
_over_columns("the row of a batch", lambda x: jnp.einsum("ki,kj->ij", x[:, :8], x[:, :128])[:, :1], False)


def _with_rows(name: str, body: Callable[[Any, Any], None], flagged: bool) -> None:
    """A kernel of row blocks that gets the refs themselves; its last block has 8 rows of 16."""

    def run(x: Any, interpret: Any = False) -> Any:
        return pl.pallas_call(
            body,
            out_shape=jax.ShapeDtypeStruct((40, 128), f32),
            grid=(3,),
            in_specs=[pl.BlockSpec((16, 128), lambda i: (i, 0))],
            out_specs=pl.BlockSpec((16, 128), lambda i: (i, 0)),
            interpret=interpret,
        )(x)

    RUNS[name] = run, (jax.ShapeDtypeStruct((40, 128), f32),), flagged


def _rows_one_by_one(count: int) -> Callable[[Any, Any], None]:
    def body(x: Any, o: Any) -> None:
        def row(r: Any, total: Any) -> Any:
            return total + x[pl.ds(r, 1), :]

        o[...] = jnp.broadcast_to(jax.lax.fori_loop(0, count, row, jnp.zeros((1, 128), f32)), (16, 128))

    return body


def _scoped(x: Any, o: Any) -> None:
    def inner(acc: Any) -> None:
        acc[...] = x[...]
        o[...] = jnp.broadcast_to(jnp.max(acc[...], axis=0, keepdims=True), (16, 128))

    pl.run_scoped(inner, pltpu.VMEM((16, 128), f32))


def _valid_rows(x: Any, o: Any) -> None:
    row = pl.program_id(0) * 16 + jax.lax.broadcasted_iota(jnp.int32, (16, 128), 0)

    def inner(acc: Any) -> None:
        acc[...] = jnp.where(row < 40, x[...], 0.0)
        o[...] = jnp.broadcast_to(jnp.sum(acc[...], axis=0, keepdims=True), (16, 128))

    pl.run_scoped(inner, pltpu.VMEM((16, 128), f32))


def _rows_that_exist(x: Any, o: Any) -> None:
    def row(r: Any, total: Any) -> Any:
        return total + x[pl.ds(r, 1), :]

    count = jnp.minimum(16, 40 - pl.program_id(0) * 16)
    o[...] = jnp.broadcast_to(jax.lax.fori_loop(0, count, row, jnp.zeros((1, 128), f32)), (16, 128))


def _upside_down(x: Any, o: Any) -> None:
    for r in range(16):
        o[r, :] = x[15 - r, :]


_with_rows("rows one by one", _rows_one_by_one(16), True)
_with_rows("the rows that are there", _rows_one_by_one(8), False)
_with_rows("as many rows as there are", _rows_that_exist, False)
_with_rows("a scoped buffer", _scoped, True)
_with_rows("a scoped buffer, masked", _valid_rows, False)
_with_rows("upside down", _upside_down, True)
_product("product of one masked block", (True, False), True)


def _backwards() -> None:
    """Blocks of the result end elsewhere than those of the operand."""

    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...] * 2.0

    def run(x: Any, interpret: Any = False) -> Any:
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((40, 128), f32),
            grid=(3,),
            in_specs=[pl.BlockSpec((16, 128), lambda i: (2 - i, 0))],
            out_specs=pl.BlockSpec((16, 128), lambda i: (i, 0)),
            interpret=interpret,
        )(x)

    RUNS["blocks from the end"] = run, (jax.ShapeDtypeStruct((40, 128), f32),), True


_backwards()


@pytest.mark.parametrize("name", RUNS)
def test_it_is_flagged_exactly_where_the_result_is_garbage(name: str) -> None:
    run, args, flagged = RUNS[name]
    report = tp.check(run, *args, target="tpu-v5e")
    found = {item.rule for item in report.diagnostics} - {"primitive-not-on-target"}
    assert found == ({"unmasked-padding"} if flagged else set())
    random = np.random.default_rng(0)
    arrays = [jnp.asarray(random.standard_normal(arg.shape), arg.dtype) for arg in args]
    assert bool(jnp.isnan(run(*arrays, interpret=INTERPRET)).any()) == flagged


def test_what_the_caller_cuts_off_is_left_alone() -> None:
    run, args, _ = RUNS["across the rows of a block"]
    assert not tp.check(lambda x: run(x)[:32], *args, target="tpu-v5e").diagnostics


@pytest.mark.parametrize("masked", [False, True])
def test_a_large_grid_costs_no_more_than_a_small_one(masked: bool) -> None:
    def kernel(x: Any, o: Any) -> None:
        row = pl.program_id(0) * 16 + jax.lax.broadcasted_iota(jnp.int32, (16, 128), 0)
        value = jnp.where(row < 16 * 65536 - 8, x[...], 0.0) if masked else x[...]
        o[...] = jnp.broadcast_to(jnp.sum(value, 0, keepdims=True), (16, 128))

    shape = jax.ShapeDtypeStruct((16 * 65536 - 8, 128), f32)
    rows = pl.BlockSpec((16, 128), lambda i: (i, 0))
    run = pl.pallas_call(kernel, out_shape=shape, grid=(65536,), in_specs=[rows], out_specs=rows)
    start = time.perf_counter()
    found = [item.rule for item in tp.check(run, shape, target="tpu-v5e").diagnostics]
    assert found == ([] if masked else ["unmasked-padding"])
    assert time.perf_counter() - start < 5


def test_a_length_that_is_data_is_left_alone() -> None:
    def kernel(size: Any, x: Any, o: Any) -> None:
        column = pl.program_id(0) * 256 + jax.lax.broadcasted_iota(jnp.int32, (8, 256), 1)
        _zeroed(o)
        o[...] += jnp.sum(jnp.where(column < size[0], x[...], 0.0), 1, keepdims=True)

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(3,),
        in_specs=[pl.BlockSpec((8, 256), lambda k, _: (0, k))],
        out_specs=pl.BlockSpec((8, 1), lambda k, _: (0, 0)),
    )
    run = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 1), f32), grid_spec=spec)
    arguments = jax.ShapeDtypeStruct((1,), jnp.int32), jax.ShapeDtypeStruct((8, 640), f32)
    assert not tp.check(run, *arguments, target="tpu-v5e").diagnostics


def _in_triton(body: Callable[[Any, Any], None], columns: int = 200) -> Callable[..., Any]:
    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((64,), f32),
        grid=(4,),
        in_specs=[pl.BlockSpec((16, 256), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((16,), lambda i: (i,)),
    )


def _loaded(mask: int, other: float | None) -> Callable[[Any, Any], None]:
    def body(x: Any, o: Any) -> None:
        inside = jnp.broadcast_to(jnp.arange(256)[None, :] < mask, (16, 256))
        o[...] = jnp.sum(plt.load(x, mask=inside, other=other), axis=1)

    return body


def _plain(x: Any, o: Any) -> None:
    o[...] = jnp.sum(x[...], axis=1)


def _zeros(x: Any, o: Any) -> None:
    o[...] = jnp.sum(x[...] * (jnp.arange(256) < 200)[None, :].astype(f32), axis=1)


@pytest.mark.parametrize(
    ("body", "flagged"),
    [
        (_plain, True),
        (_loaded(200, 0.0), False),
        (_loaded(201, 0.0), True),
        (_loaded(200, None), False),
        (_zeros, False),
    ],
)
def test_triton_reads_what_lies_behind_an_array(body: Callable[[Any, Any], None], flagged: bool) -> None:
    report = tp.check(_in_triton(body), jax.ShapeDtypeStruct((64, 200), f32), target="h100")
    found = [item for item in report.diagnostics if item.verdict == "refuted"]
    assert [item.rule for item in found] == (["unmasked-padding"] if flagged else [])
    assert all("Triton" in note for item in found for note in item.notes[:1])


def _row(limit: int, behind: bool) -> Callable[..., Any]:
    """Each row of 1000 less its maximum, as two times 512; from windows of one row, or from all of the array."""

    def kernel(x: Any, o: Any) -> None:
        def load(k: Any) -> Any:
            columns = pl.ds(k * 512, 512)
            view = x.at[pl.program_id(0), columns] if behind else x.at[columns]
            return plt.load(view, mask=k * 512 + jnp.arange(512) < limit, other=-jnp.inf)

        most = jax.lax.fori_loop(0, 2, lambda k, best: jnp.maximum(best, jnp.max(load(k))), -jnp.inf)

        def store(k: Any, _: Any) -> None:
            inside = k * 512 + jnp.arange(512) < 1000
            plt.store(o.at[pl.ds(k * 512, 512)], load(k) - most, mask=inside)

        jax.lax.fori_loop(0, 2, store, None)

    row = pl.BlockSpec((None, 1000), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((16, 1000), f32),
        grid=(16,),
        in_specs=[pl.no_block_spec if behind else row],
        out_specs=row,
    )


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("limit", [999, 1000, 1001, 1024])
def test_a_triton_load_goes_past_the_end_where_its_mask_is_too_long(limit: int, behind: bool) -> None:
    report = tp.check(_row(limit, behind), jax.ShapeDtypeStruct((16, 1000), f32), target="h100")
    assert [item.rule for item in report.diagnostics] == (["unmasked-padding"] if limit > 1000 else [])
    assert all("512:1024" in item.witness and "1000" in item.help for item in report.diagnostics)


@pytest.mark.parametrize("masked", [False, True])
def test_an_axis_that_vmap_made_is_seen_through(masked: bool) -> None:
    run, args, _ = RUNS["masked" if masked else "sum"]
    batch = jax.ShapeDtypeStruct((2, *args[0].shape), f32)
    found = [item.rule for item in tp.check(jax.vmap(run), batch, target="tpu-v5e").diagnostics]
    assert found == ([] if masked else ["unmasked-padding"])


def test_whole_numbers_have_no_nan() -> None:
    """A factor of zero drops them, and so does one masked operand of a product; their maximum they change."""

    def run(body: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        def kernel(x: Any, o: Any) -> None:
            _zeroed(o)
            inside = pl.program_id(0) * 256 + jax.lax.broadcasted_iota(jnp.int32, (8, 256), 1) < 640
            o[...] += body(x[...], inside)

        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((8, 1), jnp.int32),
            grid=(3,),
            in_specs=[pl.BlockSpec((8, 256), lambda k: (0, k))],
            out_specs=pl.BlockSpec((8, 1), lambda k: (0, 0)),
        )

    x = jax.ShapeDtypeStruct((8, 640), jnp.int32)
    zero = run(lambda x, inside: jnp.sum(x * inside.astype(jnp.int32), 1, keepdims=True))
    bits = run(lambda x, inside: jnp.sum(x & jnp.where(inside, -1, 0), 1, keepdims=True))
    most = run(lambda x, inside: jnp.max(x, 1, keepdims=True))
    rules = [{item.rule for item in tp.check(each, x, target="tpu-v6e").diagnostics} for each in (zero, bits, most)]
    assert rules == [set(), set(), {"unmasked-padding"}]
