"""Index maps over the grid, and what the body does where they lead."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plt

import typedpallas as tp
from typedpallas import rules
from typedpallas.dims import Size
from typedpallas.events import Context, IndexMap
from typedpallas.tracing import jaxapi
from typedpallas.tracing.grid import maps as grid_maps
from typedpallas.tracing.grid import values as grid_values
from typedpallas.tracing.grid import visits as grid_visits

F32 = jnp.float32


def _call(
    kernel: Callable[..., None],
    grid: tuple[int, ...],
    maps: tuple[Callable[..., Any], Callable[..., Any]],
    block: tuple[int | None, ...] = (8, 128),
    shapes: tuple[tuple[int, ...], tuple[int, ...]] = ((32, 128), (32, 128)),
    out_block: tuple[int, ...] | None = None,
    **params: Any,
):
    def run(x):
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct(shapes[1], F32),
            grid=grid,
            in_specs=[pl.BlockSpec(block, maps[0])],
            out_specs=pl.BlockSpec(out_block or block, maps[1]),
            **params,
        )(x)

    return run, jax.ShapeDtypeStruct(shapes[0], F32)


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def _said(report: tp.Report) -> dict[str, str]:
    return {item.rule: item.verdict for item in report.diagnostics}


def test_index_maps_are_evaluated_as_jax_does() -> None:
    def index_map(i, j):
        return (i - 5) // 2, (i * 3 - j) % 4, jnp.minimum(i, j), jnp.where(i > j, i, -j), jax.lax.rem(i - 4, 3)

    jaxpr = jax.make_jaxpr(index_map)(np.int32(0), np.int32(0))
    at, whole = grid_values.points((7, 5))
    walked = grid_values.walked(at, (7, 5))
    found = grid_values.evaluate(jaxpr, [at[:, 0], at[:, 1]], walked)
    assert whole
    for row, (i, j) in enumerate(at):
        want = [int(value) for value in index_map(jnp.int32(i), jnp.int32(j))]
        assert [int(np.broadcast_to(value, (35,))[row]) for value in found if value is not None] == want


@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 2),
    st.sampled_from(["i", "j", "i//2", "i+j"]),
)
def test_visits_match_brute_force(rows: int, columns: int, blocks: int, shift: int, form: str) -> None:
    forms = {"i": lambda i, j: i, "j": lambda i, j: j, "i//2": lambda i, j: i // 2, "i+j": lambda i, j: i + j}
    jaxpr = jax.make_jaxpr(lambda i, j: (forms[form](i, j) + shift, j * 0))(np.int32(0), np.int32(0))
    followed = grid_maps.Map(jaxpr, (rows, columns), (8, 128), (8 * blocks, 128))
    visits = grid_visits.follow(followed, frozenset({0, 1}), sequential=True)
    went = [(forms[form](i, j) + shift, 0) for i in range(rows) for j in range(columns)]
    inside = [index for index in went if index[0] < blocks]
    assert visits is not None and visits.complete
    assert (visits.outside is not None) == (len(inside) < len(went))
    assert visits.missing_count == blocks - len(set(inside))
    assert visits.shared is not None or len(set(inside)) == len(inside)
    assert visits.shared is None or len(set(went)) < len(went)
    runs = [index for k, index in enumerate(went) if k == 0 or went[k - 1] != index]
    clipped = [index for k, index in enumerate(runs) if index[0] < blocks]
    assert (visits.returns is not None) or len(set(clipped)) == len(clipped)


def test_a_large_grid_stays_exact() -> None:
    run, x = _call(
        copy, (1000, 1000), (lambda i, j: (i, j), lambda i, j: (i, j)), shapes=((8000, 128000), (8000, 128000))
    )
    assert tp.check(run, x, target="tpu-v5e").diagnostics == ()
    run, x = _call(
        copy, (1001, 1000), (lambda i, j: (i, j), lambda i, j: (i % 1000, j)), shapes=((8000, 128000), (8000, 128000))
    )
    report = tp.check(run, x, target="tpu-v5e")
    assert _said(report)["block-out-of-range"] == "refuted"
    assert "grid point (1000, 0)" in report.diagnostics[0].witness


def test_negative_indices_and_offsets_have_their_own_help() -> None:
    run, x = _call(copy, (4,), (lambda i: (i - 1, 0), lambda i: (i, 0)))
    assert "count from 0" in tp.check(run, x).diagnostics[0].help
    run, x = _call(copy, (4,), (lambda i: (i * 8, 0), lambda i: (i, 0)))
    assert "not element offsets" in tp.check(run, x).diagnostics[0].help


def test_a_table_leaves_the_map_open() -> None:
    def run(table, x):
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, table: (table[i], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, table: (i, 0)),
        )
        return pl.pallas_call(lambda t, x, o: copy(x, o), grid_spec=spec, out_shape=x)(table, x)

    table, x = jax.ShapeDtypeStruct((4,), jnp.int32), jax.ShapeDtypeStruct((32, 128), F32)
    assert _said(tp.check(run, table, x, target="tpu-v5e")) == {"block-out-of-range": "open"}


def test_a_partial_last_block_and_a_dynamic_grid_are_legal() -> None:
    run, x = _call(copy, (4,), (lambda i: (i, 0), lambda i: (i, 0)), shapes=((30, 128), (30, 128)))
    assert tp.check(run, x, target="tpu-v5e").diagnostics == ()

    def dynamic(n, x):
        spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
        return pl.pallas_call(copy, out_shape=x, grid=(n,), in_specs=[spec], out_specs=spec)(x)

    scalar = jax.ShapeDtypeStruct((), jnp.int32)
    assert tp.check(dynamic, scalar, x, target="tpu-v5e").diagnostics == ()


def test_an_output_that_is_cut_or_aliased_may_stay_unwritten() -> None:
    maps = (lambda i: (i, 0), lambda i: (i, 0))
    run, x = _call(copy, (2,), maps)
    assert _said(tp.check(run, x)) == {"block-never-written": "refuted"}
    assert _said(tp.check(lambda x: jax.jit(run)(x) * 2.0, x)).get("block-never-written") != "refuted"
    assert _said(tp.check(lambda x: run(x)[:16], x)) == {"block-never-written": "open"}
    run, x = _call(copy, (2,), maps, input_output_aliases={0: 0})
    assert tp.check(run, x).diagnostics == ()


def _vmapped():
    run, x = _call(copy, (4,), (lambda i: (i, 0), lambda i: (i, 0)))
    return jax.vmap(run), jax.ShapeDtypeStruct((3, *x.shape), F32)


def test_vmap_adds_an_axis_that_the_body_does_not_see() -> None:
    run, x = _vmapped()
    assert tp.check(run, x, target="tpu-v5e").diagnostics == ()
    assert "write-race" not in _said(tp.check(run, x, target="h100"))


def _accumulate(reduced: int, init: str):
    def kernel(x_ref, o_ref):
        if init == "when":

            @pl.when(pl.program_id(reduced) == 0)
            def _():
                o_ref[...] = jnp.zeros_like(o_ref)

        if init == "overwrite":
            o_ref[...] = x_ref[...]
        elif init == "last":

            @pl.when(pl.program_id(reduced) == pl.num_programs(reduced) - 1)
            def _():
                o_ref[...] = x_ref[...]

        elif init == "select":
            o_ref[...] = jnp.where(pl.program_id(reduced) == 0, 0.0, o_ref[...]) + x_ref[...]
        else:
            o_ref[...] += x_ref[...]

    return kernel


@pytest.mark.parametrize(
    ("init", "verdict"),
    [("when", "refuted"), ("overwrite", None), ("last", None), ("select", "open")],
)
def test_a_block_that_comes_back(init: str, verdict: str | None) -> None:
    run, x = _call(
        _accumulate(0, init),
        (4, 4),
        (lambda r, i: (r, i, 0), lambda r, i: (i, 0)),
        block=(None, 8, 128),
        out_block=(8, 128),
        shapes=((4, 32, 128), (32, 128)),
    )
    assert _said(tp.check(run, x, target="tpu-v5e")).get("nonconsecutive-revisit") == verdict
    assert "nonconsecutive-revisit" not in _said(tp.check(run, x))


def test_an_output_that_nobody_uses_is_scratch() -> None:
    run, x = _call(copy, (4,), (lambda i: (i, 0), lambda i: (0, 0)), shapes=((32, 128), (8, 128)))
    assert _said(tp.check(run, x, target="h100"))["write-race"] == "refuted"

    def dropped(x):
        run(x)
        return x

    assert "write-race" not in _said(tp.check(dropped, x, target="h100"))


def _gpu(kernel, **params):
    return _call(kernel, (4,), (lambda i: (i, 0), lambda i: (0, 0)), shapes=((32, 128), (8, 128)), **params)


def test_stores_that_do_not_race() -> None:
    def guarded(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 3)
        def _():
            o_ref[...] = x_ref[...]

    def constant(x_ref, o_ref):
        o_ref[...] = jnp.ones_like(o_ref)

    def slices(x_ref, o_ref):
        o_ref[pl.ds(pl.program_id(0) * 2, 2), :] = x_ref[pl.ds(0, 2), :]

    for kernel in (guarded, constant, slices):
        run, x = _gpu(kernel)
        assert "write-race" not in _said(tp.check(run, x, target="h100")), kernel


def test_stores_that_may_race_are_open() -> None:
    def atomic(x_ref, o_ref):
        plt.atomic_add(o_ref, (slice(None), slice(None)), x_ref[...])

    def data(x_ref, o_ref):
        @pl.when(x_ref[0, 0] > 0)
        def _():
            o_ref[...] = x_ref[...]

    for kernel in (atomic, data):
        run, x = _gpu(kernel)
        assert _said(tp.check(run, x, target="h100")).get("write-race") in (None, "open"), kernel


def test_parallel_axes_race_where_a_device_has_two_cores() -> None:
    params = pltpu.CompilerParams(dimension_semantics=("parallel",))
    run, x = _gpu(copy, compiler_params=params)
    assert _said(tp.check(run, x, target="tpu-v5p"))["write-race"] == "refuted"
    assert "write-race" not in _said(tp.check(run, x, target="tpu-v5e"))
    run, x = _gpu(copy, compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary",)))
    assert "write-race" not in _said(tp.check(run, x, target="tpu-v5p"))


def test_symbolic_maps() -> None:
    def judged(first: Size, steps: Size, block: Size, array: Size) -> list[tuple[str, str]]:
        event = IndexMap(
            name="x",
            role="in",
            grid=(steps,),
            parameters=1,
            results=2,
            block=(block, Size.of(128)),
            array=(array, Size.of(128)),
            affine=(first, Size.of(0)),
        )
        return [(finding.rule, finding.verdict) for finding in rules.judge(event, Context())]

    g0, rows, block = Size.of("g0"), Size.of("M"), Size.of("BM")
    assert judged(g0, rows.cdiv(block), block, rows) == []
    assert judged(g0, Size.of(8), Size.of(8), Size.of(64)) == []
    assert judged(g0, Size.of(16), Size.of(8), Size.of(64)) == [("block-out-of-range", "refuted")]
    assert judged(g0 * block, Size.of(4), block, block * 2) == []


def test_the_place_is_the_map_that_was_written() -> None:
    run, x = _call(copy, (5,), (lambda i: (i, 0), lambda i: (i % 4, 0)))
    (finding,) = [item for item in tp.check(run, x).diagnostics if item.rule == "block-out-of-range"]
    lines = Path(__file__).read_text().splitlines()
    assert finding.file == __file__ and "lambda i: (i, 0)" in lines[finding.line - 1]
    assert jaxapi.is_user_file(finding.file)


def test_maps_that_read_tables_are_told_once_for_a_kernel() -> None:
    block = pl.BlockSpec((8, 128), lambda i, table: (table[i], 0))

    def run(table: Any, x: Any, y: Any) -> Any:
        return pl.pallas_call(
            lambda table_ref, x_ref, y_ref, out_ref: out_ref.__setitem__(..., x_ref[...] + y_ref[...]),
            out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1,
                grid=(4,),
                in_specs=[block, block],
                out_specs=pl.BlockSpec((8, 128), lambda i, table: (i, 0)),
            ),
        )(table, x, y)

    array = jax.ShapeDtypeStruct((32, 128), jnp.float32)
    report = tp.check(run, jax.ShapeDtypeStruct((4,), jnp.int32), array, array, target="tpu-v5e")
    assert [item.rule for item in report.diagnostics] == ["block-out-of-range"]
    assert report.ok
    assert report.diagnostics[0].notes == ("so are those of `y_ref`",)


@pytest.mark.parametrize(
    "index, refuted",
    [
        (lambda i, table: table[i], False),
        (lambda i, table: table[i + 1], True),
        (lambda i, table: table[i - 1], True),
        (lambda i, table: jnp.where(i < 3, table[i + 1], 0), False),
    ],
)
def test_a_map_that_reads_past_its_table_is_refuted(index: Callable[..., Any], refuted: bool) -> None:
    def run(table: Any, x: Any) -> Any:
        return pl.pallas_call(
            lambda table_ref, x_ref, out_ref: out_ref.__setitem__(..., x_ref[...]),
            out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1,
                grid=(4,),
                in_specs=[pl.BlockSpec((8, 128), lambda i, table: (index(i, table), 0))],
                out_specs=pl.BlockSpec((8, 128), lambda i, table: (i, 0)),
            ),
        )(table, x)

    array = jax.ShapeDtypeStruct((32, 128), jnp.float32)
    report = tp.check(run, jax.ShapeDtypeStruct((4,), jnp.int32), array, target="tpu-v5e")
    rules = {item.rule for item in report.diagnostics if item.verdict == "refuted"}
    assert rules == ({"index-out-of-bounds"} if refuted else set())


@pytest.mark.parametrize("step, verdicts", [(32, []), (16, ["open"]), (0, ["open"])])
def test_programs_that_store_masked_vectors_side_by_side_do_not_race(step: int, verdicts: list[str]) -> None:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        at = pl.program_id(0) * step + jnp.arange(32)
        plt.store(out_ref.at[at], plt.load(x_ref.at[at], mask=at < 100), mask=at < 100)

    def run(x: Any) -> Any:
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((100,), F32),
            grid=(4,),
            in_specs=[pl.BlockSpec((100,), lambda i: (0,))],
            out_specs=pl.BlockSpec((100,), lambda i: (0,)),
        )(x)

    report = tp.check(run, jax.ShapeDtypeStruct((100,), F32), target="h100")
    assert [item.verdict for item in report.diagnostics if item.rule == "write-race"] == verdicts


@pytest.mark.parametrize(
    ("add", "looped", "races"), [(True, False, False), (True, True, False), (False, False, True)]
)
def test_programs_that_add_atomically_do_not_race(add: bool, looped: bool, races: bool) -> None:
    """A histogram: each program counts its values in one block that all share; an exchange depends on the order."""
    from jax.experimental.pallas import triton as plt

    update = plt.atomic_add if add else plt.atomic_xchg

    def kernel(x_ref, zero_ref, o_ref):
        if looped:

            def one(i, carry):
                update(o_ref, (x_ref[i],), 1)
                return carry

            jax.lax.fori_loop(0, 128, one, 0)
        else:
            update(o_ref, (x_ref[...],), jnp.ones((128,), jnp.int32))

    run = pl.pallas_call(
        kernel,
        grid=(8,),
        in_specs=[pl.BlockSpec((128,), lambda i: (i,)), pl.BlockSpec((256,), lambda i: (0,))],
        out_specs=pl.BlockSpec((256,), lambda i: (0,)),
        out_shape=jax.ShapeDtypeStruct((256,), jnp.int32),
        input_output_aliases={1: 0},
        compiler_params=plt.CompilerParams(num_warps=4),
    )
    values, counts = jax.ShapeDtypeStruct((1024,), jnp.int32), jax.ShapeDtypeStruct((256,), jnp.int32)
    assert ("write-race" in _said(tp.check(run, values, counts, target="h100"))) == races
