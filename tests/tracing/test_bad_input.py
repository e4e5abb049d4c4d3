"""Functions that do not trace, operations that nobody knows, maps that only data decides: told, never a crash."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.extend.core import Primitive

import typedpallas as tp

f32 = jnp.float32
X = jax.ShapeDtypeStruct((32, 128), f32)
TABLE = jax.ShapeDtypeStruct((4,), jnp.int32)
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))


def misspelt(x: Any, o: Any) -> None:
    o[...] = jnp.zeros_like(x[...]) + undefined_name  # type: ignore[name-defined]  # noqa: F821


def missing_key(x: Any, o: Any) -> None:
    o[...] = x[...] * {"scale": 2.0}["scales"]


def branches_on_data(x: Any, o: Any) -> None:
    if x[0, 0] > 0:
        o[...] = x[...]


def no_such_function(x: Any, o: Any) -> None:
    o[...] = jnp.no_such_function(x[...])


def wrong_argument(x: Any, o: Any) -> None:
    o[...] = jnp.sum(x[...], axiss=0)  # type: ignore[call-arg]


def divides_by_zero(x: Any, o: Any) -> None:
    o[...] = x[...] * (1 // 0)


def asserts(x: Any, o: Any) -> None:
    assert x.shape == (1, 1), "a block of one element"
    o[...] = x[...]


FAILS: list[tuple[Callable[..., None], type[Exception]]] = [
    (misspelt, NameError),
    (missing_key, KeyError),
    (branches_on_data, jax.errors.TracerBoolConversionError),
    (no_such_function, AttributeError),
    (wrong_argument, TypeError),
    (divides_by_zero, ZeroDivisionError),
    (asserts, AssertionError),
]


@pytest.mark.parametrize("target", [None, "tpu-v5e", "h100"])
@pytest.mark.parametrize(("kernel", "kind"), FAILS, ids=[kernel.__name__ for kernel, _ in FAILS])
def test_an_error_of_the_kernels_own_comes_with_the_kernels_name(
    kernel: Callable[..., None], kind: type[Exception], target: str | None
) -> None:
    run = pl.pallas_call(kernel, out_shape=X, grid=(4,), in_specs=[ROWS], out_specs=ROWS)
    with pytest.raises(kind) as caught:
        tp.check(lambda x: run(x) + 1, X, target=target)
    notes = getattr(caught.value, "__notes__", [])
    assert any(f"kernel `{kernel.__name__} at " in note for note in notes), notes


def _by_plgpu(kernel: Any) -> Any:
    return plgpu.kernel(kernel, out_type=X)


def _by_pl(kernel: Any) -> Any:
    return pl.kernel(kernel, out_type=X, mesh=pltpu.TensorCoreMesh(axis_name="core", num_cores=1))


@pytest.mark.parametrize("launched", [_by_plgpu, _by_pl])
def test_kernels_on_meshes_are_named_too(launched: Any) -> None:
    with pytest.raises(KeyError) as caught:
        tp.check(launched(missing_key), X, target="h100" if launched is _by_plgpu else "tpu-v5p")
    assert any("kernel `missing_key at " in note for note in getattr(caught.value, "__notes__", []))


def test_an_error_outside_of_kernels_names_none() -> None:
    run = pl.pallas_call(lambda x, o: None, out_shape=X)

    def fails(x: Any) -> Any:
        return run(x) + {}["missing"]

    with pytest.raises(KeyError) as caught:
        tp.check(fails, X, target="tpu-v5e")
    assert not any("typedpallas" in note for note in getattr(caught.value, "__notes__", []))


on_values, on_refs = Primitive("frobnicate"), Primitive("frobnicate_ref")
on_values.def_abstract_eval(lambda x: x)
on_refs.def_abstract_eval(lambda ref: jax.core.ShapedArray(ref.shape, ref.dtype))


def _primitive(kernel: Callable[..., None], target: str | None) -> set[tuple[str, str]]:
    run = pl.pallas_call(kernel, out_shape=X, grid=(4,), in_specs=[ROWS], out_specs=ROWS)
    found = tp.check(run, X, target=target).diagnostics
    assert all("frobnicate" in item.message for item in found)
    return {(item.rule, item.verdict) for item in found}


@pytest.mark.parametrize("target", ["tpu-v5e", "tpu-7x", "h100"])
def test_an_operation_that_no_backend_lowers_is_told_by_its_name(target: str) -> None:
    def kernel(x: Any, o: Any) -> None:
        o[...] = on_values.bind(x[...])

    assert _primitive(kernel, target) == {("primitive-not-on-target", "refuted")}


@pytest.mark.parametrize("target", [None, "tpu-v5e", "h100"])
def test_an_unknown_operation_on_refs_is_open_by_its_name(target: str | None) -> None:
    def kernel(x: Any, o: Any) -> None:
        o[...] = on_refs.bind(x)

    assert _primitive(kernel, target) == {("primitive-not-on-target", "open")}


@pytest.mark.parametrize("nested", ["when", "loop", "scoped"])
def test_an_unknown_operation_is_found_wherever_it_is(nested: str) -> None:
    def kernel(x: Any, o: Any) -> None:
        def body(*_: Any) -> None:
            o[...] = on_refs.bind(x)

        o[...] = x[...]
        if nested == "when":
            pl.when(pl.program_id(0) == 1)(body)
        elif nested == "loop":
            jax.lax.fori_loop(0, 3, body, None)
        else:
            pl.run_scoped(body, pltpu.VMEM((8, 128), f32))

    assert _primitive(kernel, "tpu-v5e") == {("primitive-not-on-target", "open")}


def _copied(table: Any, x: Any, o: Any) -> None:
    o[...] = x[...]


MAPS: dict[str, Callable[..., Any]] = {
    "read": lambda i, table: (table[i], 0),
    "computed": lambda i, table: (jnp.minimum(table[i], 3), 0),
    "divided": lambda i, table: (table[i] // 8, 0),
    "chosen": lambda i, table: (jnp.where(table[i] > 0, i, 3 - i), 0),
    "read twice": lambda i, table: (table[table[i]], 0),
}


@pytest.mark.parametrize("side", ["in", "out"])
@pytest.mark.parametrize("name", MAPS)
def test_a_map_that_data_decides_is_never_refused(name: str, side: str) -> None:
    tabled = pl.BlockSpec((8, 128), MAPS[name])
    plain = pl.BlockSpec((8, 128), lambda i, table: (i, 0))
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[tabled if side == "in" else plain],
        out_specs=plain if side == "in" else tabled,
    )
    report = tp.check(pl.pallas_call(_copied, out_shape=X, grid_spec=grid), TABLE, X, target="tpu-v5e")
    assert report.ok, str(report)
    if name in ("read", "divided", "read twice"):
        assert any(item.verdict == "open" and "table" in str(report) for item in report.diagnostics), str(report)
