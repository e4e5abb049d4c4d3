"""Sizes through JAX's symbols and back, and what an index selects, against numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typedpallas.dims import Facts, Size
from typedpallas_mypy.canonical import simplified
from typedpallas_mypy.index import TooManyIndices, selected
from typedpallas_mypy.static import Constant, Cut, Group, Window
from typedpallas_mypy.symbols import Symbols, witnesses

FACTS = Facts(multiples={"M": 8, "N": 1, "K": 128})
NAMES = ["K", "M", "N"]

leaves = st.one_of(st.sampled_from(NAMES).map(Size.of), st.integers(1, 20).map(Size.of))


def _combined(parts):
    return st.one_of(
        st.tuples(parts, parts).map(lambda pair: pair[0] + pair[1]),
        st.tuples(parts, parts).map(lambda pair: pair[0] * pair[1]),
        st.tuples(parts, st.sampled_from([2, 3, 8])).map(lambda pair: pair[0] // Size.of(pair[1])),
    )


sizes = st.recursive(leaves, _combined, max_leaves=4)


@settings(max_examples=80, deadline=None)
@given(sizes)
def test_size_survives_jax(size):
    """What comes back from JAX is the same number for all numbers of the names."""
    symbols = Symbols(NAMES, FACTS, 0)
    back = symbols.size(symbols.dim(size))
    assert back is not None
    for values in witnesses(NAMES, FACTS):
        assert back.evaluate(values) == size.evaluate(values)


@settings(max_examples=150, deadline=None)
@given(sizes, sizes)
def test_simplified_is_the_same_number(left, right):
    size = left - right
    for values in witnesses(NAMES, FACTS):
        assert simplified(size, FACTS).evaluate(values) == size.evaluate(values)


def test_multiples_are_exact():
    """``8*k`` and ``k`` of a symbol that stands for an eighth of M."""
    symbols = Symbols(NAMES, FACTS, 1)
    m = symbols.dim(Size.of("M"))
    assert symbols.size(m) == Size.of("M")
    assert symbols.size(m // 8) == Size.of("M") // 8
    assert symbols.size(m // 2 + m // 2) == Size.of("M")
    assert symbols.size(symbols.unknown() + m) is None
    assert symbols.text(f"got ({m}, {m // 8}, {3 * m})") == "got (M, (M//8), 3*M)"


ends = st.one_of(st.none(), st.integers(-9, 9))
numbers = st.one_of(
    st.integers(-3, 2),
    st.builds(slice, ends, ends, st.sampled_from([None, 1, 2, 3])),
    st.just(slice(None)),
)
indices = st.lists(numbers, min_size=1, max_size=3)


def _static(item):
    if isinstance(item, slice):
        return Cut(*(Constant.of(part) for part in (item.start, item.stop, item.step)))
    return Constant.of(item)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(3, 12), min_size=3, max_size=3), indices, st.booleans(), st.integers(0, 3))
def test_index_selects_what_numpy_selects(shape, index, dots, at):
    """For numbers the answer is exact; for names it is right wherever it is given."""
    items = [_static(item) for item in index]
    key = list(index)
    if dots:
        items.insert(min(at, len(items)), Constant.of(...))
        key.insert(min(at, len(key)), ...)
    true = np.zeros(shape)[tuple(key)].shape
    group = Group("tuple", tuple(items))
    assert selected(tuple(map(Size.of, shape)), group, Facts()) == tuple(map(Size.of, true))
    names = dict(zip("ABC", shape, strict=True))
    symbolic = selected(tuple(map(Size.of, names)), group, Facts())
    assert symbolic is not None and len(symbolic) == len(true)
    for size, want in zip(symbolic, true, strict=True):
        assert size is None or size.evaluate(names) == want


def test_symbolic_slices():
    facts = Facts(multiples={"M": 8})
    shape = (Size.of("M"), Size.of("N"))
    half = Size.of("M") // 2
    assert selected(shape, Cut(half, Constant.of(None), Constant.of(None)), facts) == (half, Size.of("N"))
    assert selected(shape, Cut(Constant.of(None), half, Constant.of(None)), facts) == (half, Size.of("N"))
    eight = Cut(Constant.of(None), Constant.of(8), Constant.of(None))
    assert selected(shape, eight, facts) == (Size.of(8), Size.of("N"))
    assert selected(shape, eight, Facts()) == (None, Size.of("N"))
    assert selected(shape, Window(Size.of("N")), facts) == (Size.of("N"), Size.of("N"))
    assert selected(None, eight, facts) is None


def test_too_many_indices():
    with pytest.raises(TooManyIndices):
        selected((Size.of(8),), Group("tuple", (Constant.of(0), Constant.of(0))), Facts())
