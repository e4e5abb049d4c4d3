"""Annotations at run time: what they parse to, and one clear error for each kind of nonsense."""

from __future__ import annotations

import functools
from typing import Any, TypeVar
from typing import Literal as L

import pytest

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
    InOut,
    Mul,
    Multiple,
    Out,
    Ref,
    Scratch,
    bf16,
    f32,
    gpu,
    tpu,
)
from typedpallas.annotations import AnnotationError
from typedpallas.dims import Size
from typedpallas.types import KernelType, RefType, kernel_type, multiple_of

BM = TypeVar("BM", bound=Multiple[L[8]])
N = TypeVar("N")
T = TypeVar("T", bound=Float)
VMEM = tpu.VMEM


def kernel(  # noqa: UP047
    x: In[VMEM, bf16, BM, L[128]],
    y: In[tp.BLOCK, T, Mul[L[2], BM], Add[N, L[1]]],
    o: Out[VMEM, f32, FloorDiv[BM, L[3]], CDiv[N, L[4]]],
    acc: Scratch[VMEM, f32, BM, L[128]],
    sem: Scratch[tpu.DMA, L[2]],
    *,
    flag: bool = False,
) -> None: ...


def parameterized[M: Multiple[L[16]], E: Float](x: In[VMEM, E, M], o: Out[VMEM, E, M]) -> None: ...


class Kernels[K: Multiple[L[32]]]:
    def method(self, x: In[VMEM, f32, K], o: Out[VMEM, f32, K]) -> None: ...

    def __call__(self, x: InOut[VMEM, f32, K]) -> None: ...


def shapes(found: KernelType) -> list[str]:
    return [str(p.type) for p in found.parameters]


def test_a_signature_becomes_types_dims_and_facts() -> None:
    found = kernel_type(kernel)
    assert found.name == "kernel"
    assert shapes(found) == [
        "In[VMEM, bf16, BM, L[128]]",
        "In[BLOCK, T, 2*BM, N + 1]",
        "Out[VMEM, f32, (BM//3), cdiv(N, 4)]",
        "Scratch[VMEM, f32, BM, L[128]]",
        "Scratch[DMA, L[2]]",
    ]
    assert set(found.dims) == {"BM", "N"} and set(found.dtypes) == {"T"}
    assert found.facts.multiples == {"BM": 8, "N": 1}
    assert [p.name for p in found.of("scratch")] == ["acc", "sem"]
    assert found.parameters[4].type is not None and found.parameters[4].type.dtype is None


def test_type_parameters_of_functions_and_classes_are_found_in_strings() -> None:
    found = kernel_type(parameterized)
    assert shapes(found) == ["In[VMEM, E, M]", "Out[VMEM, E, M]"]
    assert found.facts.multiples == {"M": 16}
    assert shapes(kernel_type(Kernels().method)) == ["In[VMEM, f32, K]", "Out[VMEM, f32, K]"]


def test_callable_objects_partials_and_decorated_functions_are_looked_through() -> None:
    made = Kernels[Any]()
    assert shapes(kernel_type(made)) == ["InOut[VMEM, f32, K]"]
    assert kernel_type(made).name == "Kernels"

    @functools.wraps(parameterized)
    def decorated(*refs: Any) -> None:
        parameterized(*refs)

    partial = functools.partial(functools.partial(kernel, flag=True))
    assert [p.name for p in kernel_type(partial).parameters] == ["x", "y", "o", "acc", "sem"]
    assert kernel_type(partial).name == "kernel"
    assert shapes(kernel_type(decorated)) == ["In[VMEM, E, M]", "Out[VMEM, E, M]"]
    assert shapes(kernel_type(functools.partial(made.method))) == ["In[VMEM, f32, K]", "Out[VMEM, f32, K]"]


def test_closures_are_found_in_strings() -> None:
    size = L[64]

    def inner(x: In[VMEM, f32, size]) -> int:
        return len(str(size)) + len(x)

    assert shapes(kernel_type(inner)) == ["In[VMEM, f32, L[64]]"]


def test_parameters_without_a_ref_have_no_type() -> None:
    def mixed(x: In[VMEM, f32, L[8]], y: int, z, given: int = 3) -> None: ...  # type: ignore[no-untyped-def]

    assert [(p.name, p.type is None) for p in kernel_type(mixed).parameters] == [
        ("x", False),
        ("y", True),
        ("z", True),
    ]


def test_any_rank() -> None:
    def of_any_rank[*S](x: Ref[VMEM, f32, *S], y: Ref[VMEM, f32, BM, ...]) -> None: ...  # type: ignore[type-arg]

    first, second = kernel_type(of_any_rank).parameters
    assert first.type is not None and first.type.shape is None
    assert second.type is not None and second.type.shape is None and second.type.parameters == (BM,)


def test_values_and_unions() -> None:
    block = Block[f32, BM, L[4]]
    assert str(block) == "Block[f32, BM, L[4]]"
    assert str(Array[f32, L[4]]) == "Array[f32, L[4]]"
    assert str(Block[f32]) == "Block[f32]"
    assert type(None) in (block | None).__args__ and type(None) in (None | block).__args__


def test_bare_numbers_are_dims_at_run_time() -> None:
    found: RefType = In[VMEM, f32, 128, 0]  # type: ignore[valid-type, assignment]
    assert found.shape == (Size.of(128), Size.of(0))


class Foreign:
    """Stands for something that is no marker."""


def _pallas_space() -> Any:
    from jax.experimental.pallas import tpu as pltpu

    return pltpu.VMEM


def _jax_dtype() -> Any:
    import jax.numpy as jnp

    return jnp.float32


NONSENSE: list[tuple[str, Any, str]] = [
    ("no space", lambda: In[f32, VMEM], "In[...] starts with a memory space such as `tpu.VMEM`, found `f32`"),
    (
        "Pallas's space",
        lambda: In[_pallas_space(), f32],
        "of Pallas: write the space of that name in",
    ),
    ("nothing at all", lambda: Out[()], "Out[...] starts with a memory space such as `tpu.VMEM`, found nothing"),
    ("no element type", lambda: In[VMEM], "In[VMEM, ...] goes on with an element type such as `f32`, found nothing"),
    ("dim for element", lambda: In[VMEM, L[8]], "an element type such as `f32`, found `typing.Literal[8]`"),
    ("JAX's element", lambda: In[VMEM, _jax_dtype(), L[8]], "found `float32`: write `f32`"),
    ("dim parameter for element", lambda: In[VMEM, N, L[8]], "an element type such as `f32`, found `N`"),
    ("element of a semaphore", lambda: Scratch[tpu.DMA, f32], "holds no elements; found `f32`"),
    ("element of a barrier", lambda: Scratch[gpu.Barrier, bf16], "Scratch[Barrier, ...] goes on with dims"),
    ("value without element", lambda: Block[L[8]], "Block[...] starts with an element type such as `f32`"),
    ("empty value", lambda: Array[()], "Array[...] starts with an element type such as `f32`, found nothing"),
    ("negative dim", lambda: In[VMEM, f32, -1], "a dim is at least 0, found -1"),
    ("negative literal", lambda: In[VMEM, f32, L[-8]], "a dim is at least 0, found -8"),
    ("two literals", lambda: In[VMEM, f32, L[8, 16]], "expected a dim"),
    ("text literal", lambda: In[VMEM, f32, L["BM"]], "expected a dim"),
    ("truth value", lambda: In[VMEM, f32, True], "found `True`"),
    ("a float", lambda: In[VMEM, f32, 1.5], "found `1.5`"),
    ("arithmetic in text", lambda: In[VMEM, f32, "2*BM"], "found `'2*BM'`: write `Mul[L[2], BM]` for \"2*BM\""),
    ("a class", lambda: In[VMEM, f32, Foreign], "found `Foreign`"),
    ("element for dim", lambda: In[VMEM, f32, f32], "expected a dim (`L[128]`, a type parameter, or `Mul`"),
    ("element parameter for dim", lambda: In[VMEM, f32, T], "`T` is an element type, found where a dim belongs"),
    ("division by zero", lambda: In[VMEM, f32, FloorDiv[BM, L[0]]], "`FloorDiv` divides BM by zero"),
    ("one operand", lambda: In[VMEM, f32, Mul[BM]], "`Mul` takes two dims, found 1"),
    ("nonsense inside", lambda: In[VMEM, f32, Add[BM, f32]], "expected a dim"),
]


@pytest.mark.parametrize(("make", "message"), [pytest.param(m, t, id=i) for i, m, t in NONSENSE])
def test_nonsense_is_told_apart(make: Any, message: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        (str, "bound of `D`: expected `Dim` or `Multiple[L[8]]`, found `str`"),
        (Multiple[L[0]], "expected `Dim` or `Multiple[L[8]]`"),
        (Multiple[L["x"]], "bound of `D`: expected a dim"),
        (Multiple[L[-8]], "bound of `D`: a dim is at least 0, found -8"),
    ],
)
def test_bounds_that_mean_nothing(bound: Any, message: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        multiple_of(TypeVar("D", bound=bound))  # type: ignore[misc]
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("bound", "divisor"), [(None, 1), (int, 1), (Dim, 1), (Multiple[L[8]], 8), (Multiple[L[1]], 1)]
)
def test_bounds_promise_divisors(bound: Any, divisor: int) -> None:
    assert multiple_of(TypeVar("D", bound=bound)) == divisor  # type: ignore[misc]


def test_a_late_bound_that_names_nothing() -> None:
    def late[D: Multiple[L[Missing]]](x: In[VMEM, f32, D]) -> None: ...  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(AnnotationError, match="an annotation of `late` says `Missing`, which means nothing"):
        kernel_type(late)


def test_a_bare_class_says_too_little() -> None:
    def bare(x: In) -> None: ...  # type: ignore[type-arg]

    with pytest.raises(AnnotationError, match=r"`x: In` says too little: write `In\[...\]`"):
        kernel_type(bare)


def test_a_string_that_names_nothing() -> None:
    def missing(x: In[VMEM, f32, Nowhere]) -> None: ...  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(AnnotationError, match="an annotation of `missing` says `Nowhere`, which means nothing"):
        kernel_type(missing)
