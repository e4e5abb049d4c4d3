"""Sizes are polynomials: whatever is done to them, they evaluate to what plain integers give."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from typedpallas.dims import Facts, Size, known_divisor, span

NAMES = ("BM", "BN", "K")


@dataclass(frozen=True)
class Made:
    """A size with the same arithmetic written as Python text."""

    size: Size
    text: str

    def value(self, names: Mapping[str, int]) -> int:
        found: int = eval(self.text, {"cdiv": lambda a, b: -(-a // b)}, dict(names))
        return found


def _combine(children: st.SearchStrategy[Made]) -> st.SearchStrategy[Made]:
    pairs = st.tuples(children, children)
    by, names = st.integers(1, 9), st.sampled_from(NAMES)
    return st.one_of(
        pairs.map(lambda p: Made(p[0].size + p[1].size, f"({p[0].text} + {p[1].text})")),
        pairs.map(lambda p: Made(p[0].size - p[1].size, f"({p[0].text} - {p[1].text})")),
        pairs.map(lambda p: Made(p[0].size * p[1].size, f"({p[0].text} * {p[1].text})")),
        st.tuples(children, by).map(lambda p: Made(p[0].size // p[1], f"({p[0].text} // {p[1]})")),
        st.tuples(children, by).map(lambda p: Made(p[0].size.cdiv(p[1]), f"cdiv({p[0].text}, {p[1]})")),
        st.tuples(children, names).map(lambda p: Made(p[0].size // p[1], f"({p[0].text} // {p[1]})")),
    )


leaves = st.one_of(
    st.integers(-5, 12).map(lambda n: Made(Size.of(n), f"({n})")),
    st.sampled_from(NAMES).map(lambda n: Made(Size.of(n), n)),
)
sizes = st.recursive(leaves, _combine, max_leaves=6)
values = st.fixed_dictionaries({name: st.integers(1, 40) for name in NAMES})


@given(made=sizes, names=values)
def test_evaluates_like_integers(made: Made, names: dict[str, int]) -> None:
    assert made.size.evaluate(names) == made.value(names)


@given(made=sizes, names=values)
def test_what_is_printed_is_the_same_arithmetic(made: Made, names: dict[str, int]) -> None:
    assert Made(made.size, str(made.size)).value(names) == made.value(names)


@given(made=sizes, names=values, part=st.sampled_from(NAMES))
def test_substituting_numbers_and_then_evaluating_agree(made: Made, names: dict[str, int], part: str) -> None:
    substituted = made.size.substitute({part: names[part]})
    assert part not in substituted.names
    assert substituted.evaluate(names) == made.value(names)
    assert made.size.substitute(names).const == made.value(names)


@given(made=sizes, other=sizes, names=values)
def test_substituting_a_size_is_composition(made: Made, other: Made, names: dict[str, int]) -> None:
    inner = other.size.evaluate(names)
    if inner < 1:  # dims are at least 1: a quotient by less means nothing
        return
    assert made.size.substitute({"K": other.size}).evaluate(names) == made.value({**names, "K": inner})


@given(a=sizes, b=sizes, c=sizes)
def test_one_form_for_one_polynomial(a: Made, b: Made, c: Made) -> None:
    x, y, z = a.size, b.size, c.size
    assert x + y == y + x and x * y == y * x
    assert (x + y) + z == x + (y + z) and (x * y) * z == x * (y * z)
    assert x * (y + z) == x * y + x * z
    assert (x - x).terms == () and x + 0 == x == x * 1 and (x * 0).const == 0


@given(made=sizes, by=sizes, names=values)
def test_exact_division_is_exact(made: Made, by: Made, names: dict[str, int]) -> None:
    quotient = (made.size * by.size).exactly_over(by.size)
    if quotient is not None and by.value(names):
        assert quotient.evaluate(names) * by.value(names) == made.value(names) * by.value(names)


multiples = st.fixed_dictionaries({name: st.sampled_from([1, 2, 3, 8, 128]) for name in NAMES})
steps = st.fixed_dictionaries({name: st.integers(1, 12) for name in NAMES})


@given(made=sizes, by=multiples, steps=steps)
def test_a_known_divisor_divides_every_value(made: Made, by: dict[str, int], steps: dict[str, int]) -> None:
    value = made.value({name: by[name] * steps[name] for name in NAMES})
    divisor = known_divisor(made.size, Facts(multiples=by))
    assert value % divisor == 0 if divisor else value == 0


@given(made=sizes, by=multiples, steps=steps, lows=steps, high=st.integers(0, 8))
def test_a_span_holds_every_value(
    made: Made, by: dict[str, int], steps: dict[str, int], lows: dict[str, int], high: int
) -> None:
    names = {name: by[name] * steps[name] for name in NAMES}
    highs = {name: names[name] + high for name in NAMES}
    facts = Facts(multiples=by, lows={n: min(lows[n], names[n]) for n in NAMES}, highs=highs)
    low, top = span(made.size, facts)
    value = made.value(names)
    assert (low is None or low <= value) and (top is None or value <= top)


@given(by=st.sampled_from([1, 3, 8]), low=st.integers(-20, 20), room=st.integers(0, 60))
def test_facts_list_the_values_that_they_allow(by: int, low: int, room: int) -> None:
    facts = Facts(multiples={"n": by}, lows={"n": low}, highs={"n": low + room})
    assert list(facts.values("n", 100)) == [n for n in range(low, low + room + 1) if n % by == 0][:100]


def test_dims_are_at_least_one() -> None:
    assert Facts().bounds("BM") == (1, None)
    assert Facts(multiples={"BM": 8}).bounds("BM") == (8, None)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (Size.of(0), "0"),
        (Size.of("BM") * 2 + 1, "2*BM + 1"),
        (Size.of("BM") * Size.of("BN") - Size.of("BN"), "BM*BN - BN"),
        ((Size.of("BM") + 1) // 8 * 2, "2*((BM + 1)//8)"),
        (Size.of("K").cdiv("BM"), "cdiv(K, BM)"),
        (Size.of("BM") * 16 // 8, "2*BM"),
        (-Size.of("BM"), "-BM"),
    ],
)
def test_how_sizes_are_written(size: Size, text: str) -> None:
    assert str(size) == text


def test_division_by_zero_and_missing_names_are_errors() -> None:
    with pytest.raises(ZeroDivisionError, match="BM divided by zero"):
        Size.of("BM") // 0
    with pytest.raises(KeyError, match="BM"):
        Size.of("BM").evaluate({})


def test_greatest_common_divisor_of_terms() -> None:
    facts = Facts(multiples={"BM": 8, "BN": 12})
    assert known_divisor(Size.of("BM") + Size.of("BN"), facts) == math.gcd(8, 12)
    assert known_divisor(Size.of("BM") * Size.of("BN"), facts) == 96
    assert known_divisor(Size.of("BM") * 3 // 4, facts) == 6
    assert known_divisor(Size.of(0), facts) == 0
