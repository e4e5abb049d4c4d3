"""What of VMEM is certain, and what the compiler's temporaries may take: asked of the compiler, kernel by kernel."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from benchmarks import ledger, ledger_figures
from typedpallas import chips
from typedpallas.compilers.ambient import target_context
from typedpallas.events import MemoryUse
from typedpallas.tracing import jaxapi
from typedpallas.tracing.ledgers import vmem as ledger_vmem
from typedpallas.tracing.ledgers import windows as ledger_windows
from typedpallas.tracing.walk import kernels

S = jax.ShapeDtypeStruct
f32, bf16 = jnp.float32, jnp.bfloat16
type Case = tuple[Callable[..., Any], tuple[Any, ...]]


def _use(case: Case, target: str) -> MemoryUse:
    run, avals = case
    with target_context(target):
        (call,) = kernels(jaxapi.trace(run, avals), "mosaic_tpu")
    chip = chips.get(target)
    assert isinstance(chip, chips.TpuTarget)
    found = ledger_vmem.use(call, chip)
    assert found is not None
    return found


def _cut(block: tuple[int, ...], array: tuple[int, ...], dtype: Any) -> Case:
    """Blocks of an array that XLA computes and uses again."""

    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...] + 1

    grid = tuple(-(-extent // size) for extent, size in zip(array, block, strict=True))
    spec = pl.BlockSpec(block, lambda *ids: ids)
    call = pl.pallas_call(kernel, grid=grid, in_specs=[spec], out_specs=spec, out_shape=S(array, dtype))
    return lambda x: call(x * 2) * 2, (S(array, dtype),)


_CUTS = {
    ((128, 128), (512, 512)): False,
    ((128, 512), (512, 512)): True,
    ((8, 256), (8, 512)): True,
    ((8, 256), (16, 512)): True,
    ((16, 256), (16, 512)): False,
    ((1, 128, 512), (4, 512, 512)): True,
    ((2, 128, 512), (4, 512, 512)): False,
    ((2, 512, 512), (4, 512, 512)): True,
    ((1, 512, 256), (4, 512, 512)): False,
    ((2, 8, 256), (4, 8, 512)): False,
    ((512, 512), (512, 512)): True,
    ((8, 512), (20, 512)): True,
    ((16, 128), (20, 512)): False,
}


@pytest.mark.parametrize(("block", "array"), _CUTS)
def test_a_block_that_is_no_piece_of_its_array_certainly_costs_its_window(block: Any, array: Any) -> None:
    for dtype in (f32, bf16):
        use = _use(_cut(block, array, dtype), "tpu-v5e")
        assert use.low == (0 if _may_be_free(block, array, dtype) else use.high)


def _may_be_free(block: Any, array: Any, dtype: Any) -> bool:
    """Of 16-bit rows a tile may be 16 high: then the first two dozen lie in one."""
    return _CUTS[block, array] or (dtype == bf16 and block[-2] == array[-2] <= 16 and len(block) == 2)


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["tpu-v5e", "tpu-7x"])
@pytest.mark.parametrize(("block", "array"), _CUTS)
def test_so_says_the_compiler(block: Any, array: Any, target: str) -> None:
    run, avals = _cut(block, array, f32)
    (figure,) = ledger_figures.of_module(tp.compile(run, *avals, target=target).module)
    assert figure.kept_operands == figure.kept_results == (True,)
    assert (figure.size == 0) == _CUTS[block, array]
    for row in ledger.every_row("a cut", run, avals, target):
        assert row.inside
        assert row.space == "VMEM" or row.width == 0


def _looped(kind: str) -> Case:
    """Scratch in a loop of a length that is data."""

    def kernel(n: Any, x: Any, o: Any, held: Any) -> None:
        def step(i: Any, _: None) -> None:
            if kind == "carried":
                held[...] = held[...] + x[...]
            elif kind == "handed on":
                held[...] = x[...] * i
                o[...] = held[...] + 1
            else:
                o[...] += held[...]

        if kind == "read":
            held[...] = x[...]
        jax.lax.fori_loop(0, n[0], step, None)
        if kind == "carried":
            o[...] = x[...]

    spec = pl.BlockSpec((256, 128), lambda i, n: (i, 0))
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[spec],
        out_specs=spec,
        scratch_shapes=[pltpu.VMEM((256, 128), f32)],
    )
    array = S((1024, 128), f32)
    return pl.pallas_call(kernel, grid_spec=grid, out_shape=array), (S((1,), jnp.int32), array)


@pytest.mark.parametrize(("kind", "least"), [("carried", 1 << 17), ("handed on", 0), ("read", 1 << 17)])
def test_scratch_in_a_loop_of_any_length_is_needed_where_turns_hand_it_on(kind: str, least: int) -> None:
    items = {item.name: (item.low, item.high) for item in _use(_looped(kind), "tpu-v5e").items}
    assert items["held"] == (least, 1 << 17)


@pytest.mark.compiler
@pytest.mark.parametrize("kind", ["carried", "handed on", "read"])
def test_the_compiler_needs_the_scratch_of_loops_likewise(kind: str) -> None:
    run, avals = _looped(kind)
    rows = ledger.every_row(kind, run, avals, "tpu-v5e")
    [row] = [row for row in rows if row.space == "VMEM"]
    assert row.low == row.figure


def _attention(queries: int, keys: int, width: int = 128) -> Case:
    def kernel(q: Any, k: Any, v: Any, o: Any) -> None:
        scores = jax.lax.dot_general(q[...], k[...], (((1,), (1,)), ((), ())), preferred_element_type=f32)
        weights = jnp.exp(scores - scores.max(-1, keepdims=True))
        mixed = jnp.dot(weights.astype(bf16), v[...], preferred_element_type=f32)
        o[...] = (mixed / weights.sum(-1, keepdims=True)).astype(bf16)

    rows, columns = pl.BlockSpec((queries, width), lambda i: (i, 0)), pl.BlockSpec((keys, width), lambda i: (i, 0))
    array, other = S((4 * queries, width), bf16), S((4 * keys, width), bf16)
    call = pl.pallas_call(kernel, grid=(4,), in_specs=[rows, columns, columns], out_specs=rows, out_shape=array)
    return call, (array, other, other)


def _temporaries(case: Case, target: str) -> int:
    return sum(item.high for item in _use(case, target).items if item.temporary)


def test_scores_wait_once_while_their_largest_are_sought() -> None:
    """What is computed of them tile by tile is not counted again; statistics of one lane fill tiles of 128."""
    scores, column = 512 * 2048 * 4, 512 * 128 * 4
    assert scores < _temporaries(_attention(512, 2048), "tpu-v5e") <= (scores + column) * 5 // 4 + (1 << 16)


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["tpu-v4", "tpu-v5e", "tpu-v6e", "tpu-7x"])
@pytest.mark.parametrize(("queries", "keys"), [(128, 256), (512, 512), (1024, 128), (1024, 512), (512, 2048)])
def test_the_compiler_keeps_no_more_of_scores(queries: int, keys: int, target: str) -> None:
    rows = ledger.every_row("attention", *_attention(queries, keys), target)
    assert rows and all(row.inside for row in rows)


@pytest.mark.parametrize(("dtype", "shape"), [(f32, (1,)), (jnp.int16, (16,)), (bf16, (200,))])
def test_a_few_elements_of_one_dim_may_fill_1024_bytes(dtype: Any, shape: Any) -> None:
    low, high = ledger_windows.held(shape, jnp.dtype(dtype).itemsize * 8)
    assert low <= 1024 == high


def test_a_precise_product_may_keep_the_parts_of_its_operands() -> None:
    def kernel(x: Any, y: Any, o: Any) -> None:
        o[...] = jnp.dot(x[...], y[...], precision=jax.lax.Precision.HIGHEST)

    def case(size: int) -> Case:
        return pl.pallas_call(kernel, out_shape=S((8, 128), f32)), (S((8, size), f32), S((size, 128), f32))

    assert _temporaries(case(512), "tpu-v3") >= 8 * 128 * 4 + (8 * 512 + 512 * 128) * 4 * 3 // 2


def _stood_up(rows: int, columns: int) -> Case:
    """Numbers that lie beside each other, computed with and spread over rows, once weights have been computed."""

    def kernel(x: Any, scale: Any, o: Any) -> None:
        weights = jnp.exp(x[...].astype(f32))
        factors = jnp.where(scale[...] > 0, scale[...] * 2, 0.0)
        o[...] = (factors[:, None] * (weights - 1) * weights).astype(bf16)

    block = pl.BlockSpec((rows, columns), lambda i: (i, 0))
    call = pl.pallas_call(
        kernel,
        grid=(4,),
        in_specs=[block, pl.BlockSpec((rows,), lambda i: (i,))],
        out_specs=block,
        out_shape=S((4 * rows, columns), bf16),
    )
    return call, (S((4 * rows, columns), bf16), S((4 * rows,), f32))


def test_what_is_computed_waits_for_a_column_that_is_made_of_a_row() -> None:
    assert _temporaries(_stood_up(256, 1024), "tpu-v6e") >= 256 * 1024 * 4


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["tpu-v4", "tpu-v6e"])
def test_the_compiler_keeps_no_more_of_it(target: str) -> None:
    rows = ledger.every_row("stood up", *_stood_up(256, 2048), target)
    assert rows and all(row.inside for row in rows)


def _written_out(turns: int) -> Case:
    """A loop written out: products, sums and moves that the compiler orders as it likes."""

    def kernel(x: Any, o: Any) -> None:
        for turn in range(turns):
            part = x[turn * 32 : turn * 32 + 32, :]
            spread = jnp.exp(jnp.minimum(part[:, None, :] - part[None, :, :], 0.0))
            summed = (spread * part[:, None, :]).sum(-1)
            o[turn * 32 : turn * 32 + 32, :] = jnp.concatenate([summed, summed, summed, summed], axis=1)

    array = S((turns * 32, 128), f32)
    return pl.pallas_call(kernel, grid=(2,), out_shape=array), (array,)


@pytest.mark.compiler
@pytest.mark.parametrize("turns", [4, 24])
def test_loops_that_are_written_out_may_keep_all_that_they_compute(turns: int) -> None:
    rows = ledger.every_row("written out", *_written_out(turns), "tpu-v6e")
    assert rows and all(row.inside for row in rows)


def _two_steps(kind: str) -> Case:
    """Two steps along an axis that the cores of a chip may share out."""

    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    block = pl.BlockSpec((256, 128), lambda i: (i, 0))
    parameters = pltpu.CompilerParams(dimension_semantics=(kind,))
    array = S((512, 128), f32)
    call = pl.pallas_call(
        kernel, grid=(2,), in_specs=[block], out_specs=block, out_shape=array, compiler_params=parameters
    )
    return call, (array,)


def test_cores_that_share_out_two_steps_need_no_second_buffer() -> None:
    """Two windows of 128 KiB: two buffers each where one core takes both steps."""
    lows = {(kind, target): _use(_two_steps(kind), target).low for kind in _KINDS for target in ("tpu-v4", "tpu-v5e")}
    once, twice = 2 << 17, 4 << 17
    assert [lows[kind, "tpu-v4"] for kind in _KINDS] == [once, twice]
    assert [lows[kind, "tpu-v5e"] for kind in _KINDS] == [twice, twice]


_KINDS = ("parallel", "arbitrary")


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["tpu-v4", "tpu-v5p", "tpu-v5e"])
@pytest.mark.parametrize("kind", _KINDS)
def test_so_the_compiler_shares_them_out(kind: str, target: str) -> None:
    rows = ledger.every_row(kind, *_two_steps(kind), target)
    assert rows and all(row.inside for row in rows)


@pytest.mark.compiler
def test_buffers_of_scopes_are_counted() -> None:
    def kernel(x: Any, o: Any) -> None:
        def outer(a: Any) -> None:
            a[...] = x[...]

            def inner(b: Any) -> None:
                pl.loop(0, 4)(lambda i: b.__setitem__((pl.ds(i * 8, 8), slice(None)), a[pl.ds(24 - i * 8, 8), :]))
                o[...] = b[...] + a[...]

            pl.run_scoped(inner, pltpu.VMEM((32, 128), f32))

        pl.run_scoped(outer, pltpu.VMEM((32, 128), f32))

    array = S((32, 128), f32)
    run = pl.pallas_call(kernel, grid=(2,), out_shape=array)
    assert _use((run, (array,)), "tpu-v5e").high >= 4 * 32 * 128 * 4
    rows = ledger.every_row("scopes", run, (array,), "tpu-v5e")
    assert rows and all(row.inside for row in rows)


@pytest.mark.compiler
@pytest.mark.parametrize(("block", "array"), [((16, 256), (40, 200)), ((16, 128), (20, 128)), ((16, 1), (20, 1))])
def test_blocks_that_leave_their_array_may_be_free_or_not(block: Any, array: Any) -> None:
    run, avals = _cut(block, array, f32)
    rows = ledger.every_row("a cut", run, avals, "tpu-7x")
    assert rows and all(row.inside for row in rows)
