"""`tp.typed`: helpers held against their annotations while they are traced."""

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar
from typing import Literal as L

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import (
    Add,
    Array,
    Block,
    CDiv,
    Dim,
    Float,
    FloorDiv,
    In,
    Mul,
    Multiple,
    Ref,
    SignatureError,
    bf16,
    f32,
    gpu,
    i32,
    tpu,
)
from typedpallas.annotations import AnnotationError

VMEM = tpu.VMEM


def aval(*shape: int, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


def refused(call: Callable[[], Any]) -> SignatureError:
    with pytest.raises(SignatureError) as caught:
        call()
    return caught.value


def in_kernel(body: Callable[..., None], *, spaces: tuple[Any, ...] = (), scratch: tuple[Any, ...] = ()) -> None:
    """Trace a kernel whose body gets an (8, 128) float32 ref for each space, an output, and scratch."""
    specs = [pl.BlockSpec(memory_space=space) for space in spaces]

    def kernel(*refs: Any) -> None:
        refs[len(spaces)][...] = jnp.zeros((8, 128), jnp.float32)
        body(*refs)

    call = pl.pallas_call(kernel, out_shape=aval(8, 128), in_specs=specs, scratch_shapes=scratch)
    jax.make_jaxpr(call)(*[aval(8, 128)] * len(spaces))


@tp.typed
def halves[M: Multiple[L[8]], N: Dim](x: Block[f32, M, N], scale: float = 1.0) -> Block[f32, M, FloorDiv[N, L[2]]]:
    return x[:, : x.shape[1] // 2] * scale


@tp.typed
def loaded[M: Dim, N: Dim](x: Ref[VMEM, f32, M, N]) -> Block[f32, M, N]:
    return x[...]


def test_what_fits_passes_on_arrays_and_tracers() -> None:
    assert halves(jnp.ones((8, 6))).shape == (8, 3)
    assert jax.eval_shape(halves, aval(16, 6)).shape == (16, 3)
    assert jax.vmap(halves)(jnp.ones((2, 8, 4))).shape == (2, 8, 2)
    assert jax.grad(lambda x: halves(x).sum())(jnp.ones((8, 4))).shape == (8, 4)
    assert halves.__name__ == "halves"


def test_nothing_is_added_to_what_is_traced() -> None:
    def plain(x: jax.Array, scale: float = 1.0) -> jax.Array:
        return x[:, : x.shape[1] // 2] * scale

    assert str(jax.make_jaxpr(halves)(aval(8, 4))) == str(jax.make_jaxpr(plain)(aval(8, 4)))


def test_an_error_names_function_parameter_expected_and_found() -> None:
    error = refused(lambda: halves(aval(8, 4, dtype=jnp.bfloat16)))
    assert (error.function, error.parameter, error.expected, error.found) == ("halves", "x", "`f32`", "`bf16`")
    assert str(error) == "halves: argument `x` is no `Block[f32, M, N]`: expected `f32`, found `bf16`"


@tp.typed
def fixed(x: Block[f32, L[8], L[128]]) -> None: ...


@tp.typed
def pair[M: Dim](x: Block[f32, M], y: Block[f32, Mul[L[2], M]]) -> None: ...


@tp.typed
def reversed_pair[M: Dim](y: Block[f32, Mul[L[2], M]], x: Block[f32, M] | None = None) -> None: ...


@tp.typed
def aligned[M: Multiple[L[8]]](x: Block[f32, M]) -> None: ...


@tp.typed
def floats[E: Float](x: Block[E, ...], y: Block[E, ...] | None = None) -> None: ...  # type: ignore[type-arg]


REFUSALS: list[tuple[str, Callable[[], Any], str, str]] = [
    ("rank", lambda: fixed(aval(8)), "2 dims", "1: [8]"),
    ("literal", lambda: fixed(aval(8, 64)), "128 on axis 1", "64"),
    ("bound by another", lambda: pair(aval(4), aval(9)), "2*M = 8 on axis 0 with M = 4 (axis 0 of `x`)", "9"),
    ("solved", lambda: reversed_pair(aval(8), aval(5)), "2*M = 10 on axis 0 with M = 5 (axis 0 of `x`)", "8"),
    ("no solution", lambda: reversed_pair(aval(7)), "2*M on axis 0", "7, which no M makes"),
    ("multiple", lambda: aligned(aval(12)), "M a multiple of 8 on axis 0", "12 (8 and 16 are the nearest)"),
    ("small multiple", lambda: aligned(aval(3)), "M a multiple of 8 on axis 0", "3 (8 is the smallest)"),
    ("family", lambda: floats(aval(3, dtype=jnp.int32)), "an element type of `Float`", "`i32`"),
    ("one dtype", lambda: floats(aval(3), aval(3, dtype=jnp.float16)), "E = `f32` (of `x`)", "`f16`"),
    ("no array", lambda: fixed(3), "a value", "`int`"),
    ("key", lambda: floats(jax.random.key(0)), "an element type of `Float`", "`key<fry>`"),
]


@pytest.mark.parametrize(
    ("call", "expected", "found"), [pytest.param(call, e, f, id=name) for name, call, e, f in REFUSALS]
)
def test_refusals(call: Callable[[], Any], expected: str, found: str) -> None:
    error = refused(call)
    assert (error.expected, error.found) == (expected, found)


def test_a_computed_dim_may_come_before_its_name() -> None:
    reversed_pair(aval(8), aval(4))
    reversed_pair(aval(8))


def test_return_values_share_the_dims_of_the_arguments() -> None:
    @tp.typed
    def doubles[M: Dim](x: Block[f32, M]) -> Block[f32, Mul[L[2], M]]:
        return x

    error = refused(lambda: doubles(jnp.ones(3)))
    assert str(error) == (
        "doubles: the return value is no `Block[f32, 2*M]`: expected 2*M = 6 on axis 0 with M = 3 (axis 0 of `x`), "
        "found 3"
    )


def test_arguments_that_are_dims() -> None:
    @tp.typed
    def cut[M: Dim](x: Block[f32, M], m: M) -> Block[f32, M]:
        return x[:m]

    assert cut(jnp.ones(4), 4).shape == (4,)
    assert refused(lambda: cut(jnp.ones(4), 5)).expected == "M = 4 (axis 0 of `x`)"
    assert refused(lambda: cut(jnp.ones(4), "4")).found == "`str`"


def test_tuples_lists_stars_and_unions() -> None:
    @tp.typed
    def several[M: Dim](
        first: tuple[Block[f32, M], Block[i32, M]],
        more: list[Block[f32, M]],
        *rest: Block[f32, M],
        either: Block[f32, M] | Block[bf16, M] | float = 0.0,
        **named: Block[f32, M],
    ) -> tuple[Block[f32, M], ...]:
        return (first[0], *more, *rest)

    one, index = jnp.ones(4), jnp.ones(4, jnp.int32)
    assert len(several((one, index), [one, one], one, one, either=jnp.ones(4, jnp.bfloat16), z=one)) == 5
    several((one, index), [], either=1.0)
    cases = {
        "first": lambda: several((one,), []),
        "first[1]": lambda: several((one, one), []),
        "more": lambda: several((one, index), one),
        "more[1]": lambda: several((one, index), [one, jnp.ones(5)]),
        "rest[0]": lambda: several((one, index), [], jnp.ones(5)),
        "either": lambda: several((one, index), [], either=index),
        "z": lambda: several((one, index), [], z=index),
    }
    for parameter, call in cases.items():
        assert refused(call).parameter == parameter


@pytest.mark.parametrize("make", [jnp.ones, lambda shape: np.ones(shape, np.float32), lambda shape: aval(*shape)])
def test_every_kind_of_value(make: Callable[[tuple[int, ...]], Any]) -> None:
    @tp.typed
    def taken(x: Array[f32, L[8], L[4]]) -> None: ...

    taken(make((8, 4)))
    assert refused(lambda: taken(make((4, 8)))).found == "4"


def test_methods_and_statics() -> None:
    class Helper:
        @tp.typed
        def method[M: Dim](self, x: Block[f32, M], y: Block[f32, M]) -> None: ...

        @tp.typed
        @staticmethod
        def static(x: Block[f32, L[4]]) -> None: ...

        @classmethod
        @tp.typed
        def of_class(cls, x: Block[f32, L[4]]) -> None: ...

        @tp.typed
        def __call__(self, x: Block[f32, L[4]]) -> None: ...

    helper = Helper()
    helper.method(aval(4), aval(4))
    for call in (helper.static, Helper.static, helper.of_class, helper):
        call(aval(4))
        assert refused(functools.partial(call, aval(5))).parameter == "x"
    assert refused(lambda: helper.method(aval(4), aval(5))).parameter == "y"


def test_classic_type_variables() -> None:
    dim = TypeVar("dim", bound=Multiple[L[4]])

    @tp.typed
    def classic(x: Block[f32, dim], y: Block[f32, Add[dim, L[1]]]) -> None: ...  # type: ignore[valid-type]

    classic(aval(4), aval(5))
    assert refused(lambda: classic(aval(4), aval(4))).parameter == "y"
    assert "multiple of 4" in refused(lambda: classic(aval(6), aval(7))).expected


def test_annotations_that_mean_nothing_are_refused_when_decorated() -> None:
    with pytest.raises(AnnotationError, match=r"`x: Ref` says too little"):

        @tp.typed
        def bare(x: Ref) -> None: ...  # type: ignore[type-arg]

    with pytest.raises(AnnotationError, match=r"expected `Dim` or `Multiple\[L\[8\]\]`, found `str`"):

        @tp.typed
        def bad_bound[M: str](x: Block[f32, M]) -> None: ...  # type: ignore[type-var]


def test_names_that_come_later_are_read_at_the_first_call() -> None:
    source = (
        "import typedpallas as tp\n"
        "@tp.typed\n"
        "def early(x: 'Later') -> None: ...\n"
        "Later = tp.Block[tp.f32, 4]\n"
        "@tp.typed\n"
        "def never(x: 'Nowhere') -> None: ...\n"
    )
    module: dict[str, Any] = {"__name__": "later"}
    exec(source, module)
    module["early"](aval(4))
    assert refused(lambda: module["early"](aval(5))).parameter == "x"
    with pytest.raises(AnnotationError, match="`never` says `Nowhere`"):
        module["never"](aval(4))


def test_the_rest_of_the_signature_is_checked_by_beartype() -> None:
    beartype = pytest.importorskip("beartype")
    with pytest.raises(beartype.roar.BeartypeCallHintParamViolation):
        halves(aval(8, 4), scale="large")

    @tp.typed
    def counted[M: Multiple[L[8]]](x: Block[f32, M], rows: Multiple[L[8]], columns: Dim) -> int:
        return "many"  # type: ignore[return-value]

    with pytest.raises(beartype.roar.BeartypeCallHintParamViolation):
        counted(aval(8), "8", 1)
    with pytest.raises(beartype.roar.BeartypeCallHintReturnViolation):
        counted(aval(8), 8, 1)


def test_without_beartype_the_rest_is_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "beartype", None)

    @tp.typed
    def scaled(x: Block[f32, L[4]], scale: float) -> Block[f32, L[4]]:
        return x

    scaled(jnp.ones(4), "large")  # type: ignore[arg-type]
    assert refused(lambda: scaled(aval(5), 1.0)).parameter == "x"


def test_refs_and_views_inside_a_kernel() -> None:
    def body(x: Any, o: Any, table: Any) -> None:
        assert loaded(x).shape == (8, 128)
        assert loaded(x.at[pl.ds(0, 4)]).shape == (4, 128)
        loaded(o)
        assert refused(lambda: loaded(x.at[0])).found == "1: [128]"
        assert refused(lambda: loaded(x[...])).found == "a value f32[8, 128]; pass the ref, not what it holds"
        assert refused(lambda: loaded(table)).expected == "`tpu.VMEM`"
        assert refused(lambda: loaded(table)).found == "`tpu.SMEM`"
        assert refused(lambda: halves(x)).found.startswith("a ref f32[8, 128]")

    in_kernel(body, spaces=(pltpu.VMEM,), scratch=(pltpu.SMEM((4, 4), jnp.float32),))


def test_spaces_inside_a_kernel() -> None:
    @tp.typed
    def far(x: In[tpu.HBM, f32, ...]) -> None: ...  # type: ignore[type-arg]

    @tp.typed
    def block(x: In[tp.BLOCK, f32, ...]) -> None: ...  # type: ignore[type-arg]

    @tp.typed
    def shared(x: In[gpu.SMEM, f32, ...]) -> None: ...  # type: ignore[type-arg]

    @tp.typed
    def anything(x: In[tpu.TpuSpace, f32, ...]) -> None: ...  # type: ignore[type-arg]

    @tp.typed
    def waits(sem: Ref[tpu.DMA, L[2]]) -> None: ...

    def body(default: Any, near: Any, hbm: Any, anywhere: Any, o: Any, sems: Any) -> None:
        for fits in (block, shared, loaded, anything):
            fits(default)
        for fits in (block, loaded, anything):
            fits(near)
        for fits in (far, anything):
            fits(hbm)
        far(anywhere)
        waits(sems)
        assert refused(lambda: far(default)).found == "Pallas's default space, on TPU `tpu.VMEM`"
        assert refused(lambda: far(near)).found == "`tpu.VMEM`"
        assert refused(lambda: block(hbm)).found == "`tpu.HBM`"
        assert refused(lambda: shared(near)).found == "`tpu.VMEM`"
        assert refused(lambda: loaded(hbm)).expected == "`tpu.VMEM`"
        assert refused(lambda: waits(sems.at[0])).expected == "1 dims"
        assert refused(lambda: waits(near)).expected == "`tpu.DMA`"

    in_kernel(body, spaces=(None, pltpu.VMEM, pltpu.HBM, pl.ANY), scratch=(pltpu.SemaphoreType.DMA((2,)),))


def test_spaces_of_a_gpu() -> None:
    plgpu = pytest.importorskip("jax.experimental.pallas.mosaic_gpu")

    @tp.typed
    def moves(
        x: Ref[gpu.GMEM, f32, L[64], L[64]],
        s: Ref[gpu.SMEM, f32, L[64], L[64]],
        acc: Ref[gpu.ACC, f32, L[64], L[64]],
        full: Ref[gpu.Barrier, L[2]],
    ) -> None: ...

    @tp.typed
    def tensor(t: Ref[gpu.TMEM, f32, ...], block: Ref[tp.BLOCK, f32, ...]) -> None: ...  # type: ignore[type-arg]

    def kernel(x: Any, o: Any, s: Any, t: Any, full: Any) -> None:
        def body(acc: Any) -> None:
            moves(x, s, acc, full)
            tensor(t, s)
            wrong = {"x": (s, s, acc, full), "s": (x, x, acc, full), "acc": (x, s, s, full), "full": (x, s, acc, s)}
            for parameter, values in wrong.items():
                assert refused(functools.partial(moves, *values)).parameter == parameter
            assert refused(lambda: tensor(s, s)).found == "`gpu.SMEM`"
            assert refused(lambda: loaded(s)).found == "`gpu.SMEM`"

        pl.run_scoped(body, plgpu.ACC((64, 64), jnp.float32))
        o[...] = s[...]

    scratch = [plgpu.SMEM((64, 64), jnp.float32), plgpu.TMEM((64, 64), jnp.float32), plgpu.Barrier(num_barriers=2)]
    everywhere = pl.BlockSpec(memory_space=plgpu.GMEM)
    call = pl.pallas_call(
        kernel, out_shape=aval(64, 64), in_specs=[everywhere], out_specs=everywhere, scratch_shapes=scratch
    )
    jax.make_jaxpr(call)(aval(64, 64))


sizes = st.integers(1, 6)


@given(m=sizes, n=sizes, a=sizes, b=sizes, c=sizes)
def test_a_call_fits_exactly_when_the_arithmetic_holds(m: int, n: int, a: int, b: int, c: int) -> None:
    @tp.typed
    def stacked[M: Dim, N: Dim](
        x: Block[f32, Mul[L[2], M], N],
        y: Block[f32, Add[M, N], CDiv[N, L[2]]],
        z: Block[f32, FloorDiv[Mul[M, N], L[3]]],
    ) -> None: ...

    right = (2 * m, n), (m + n, -(-n // 2)), (m * n // 3,)
    stacked(*(aval(*shape) for shape in right))
    asked = (2 * m, n), (a, b), (c,)
    if asked == right:
        stacked(*(aval(*shape) for shape in asked))
    else:
        refused(lambda: stacked(*(aval(*shape) for shape in asked)))
