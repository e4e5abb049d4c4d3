"""Verdicts: proved holds for every value, refuted comes with numbers that break it, the rest is open."""

import itertools
from collections.abc import Callable, Iterator

from hypothesis import assume, given
from hypothesis import strategies as st

from typedpallas.dims import Facts, Size
from typedpallas.solve import Open, Proved, Refuted, Verdict, at_most, divides, equal

NAMES = ("BM", "BN")


def _polynomial(counts: list[int]) -> Size:
    a, b, c, d, e = counts
    bm, bn = Size.of("BM"), Size.of("BN")
    return bm * a + bn * b + bm * bn * c + d + (bm + e) // 8


polynomials = st.lists(st.integers(-4, 8), min_size=5, max_size=5).map(_polynomial)
linear = st.tuples(st.integers(-8, 16), st.integers(-8, 16)).map(lambda p: Size.of("BM") * p[0] + p[1])
sizes = st.one_of(polynomials, linear, st.integers(-4, 64).map(Size.of))
facts = st.builds(
    lambda m, lows, widths: Facts(
        multiples=m, lows=lows, highs={n: lows.get(n, 1) + w for n, w in widths.items() if w is not None}
    ),
    st.fixed_dictionaries({}, optional={n: st.sampled_from([1, 2, 8, 16]) for n in NAMES}),
    st.fixed_dictionaries({}, optional={n: st.integers(1, 40) for n in NAMES}),
    st.fixed_dictionaries({n: st.one_of(st.none(), st.integers(0, 60)) for n in NAMES}),
)


def assignments(known: Facts) -> Iterator[dict[str, int]]:
    """Small values that the facts allow."""
    for values in itertools.product(*(known.values(name, 12) for name in NAMES)):
        yield dict(zip(NAMES, values, strict=True))


def judge(verdict: Verdict, known: Facts, holds: Callable[[dict[str, int]], bool], *, never: bool) -> None:
    """``never``: refuted means that no value satisfies it, not only that some value breaks it."""
    tried = list(assignments(known))
    assume(tried)
    if isinstance(verdict, Proved):
        assert all(holds(values) for values in tried)
    if isinstance(verdict, Refuted):
        if never:
            assert not any(holds(values) for values in tried)
        witness = {**tried[0], **verdict.witness}
        assert not holds(witness)
        for name, value in verdict.witness.items():
            low, high = known.bounds(name)
            assert value >= low and (high is None or value <= high) and value % known.multiple(name) == 0
    if isinstance(verdict, Open):
        assert verdict.closes


@given(left=sizes, right=sizes, known=facts)
def test_equal(left: Size, right: Size, known: Facts) -> None:
    judge(equal(left, right, known), known, lambda v: left.evaluate(v) == right.evaluate(v), never=False)


@given(divisor=st.sampled_from([1, 2, 3, 8, 128]), size=sizes, known=facts)
def test_divides(divisor: int, size: Size, known: Facts) -> None:
    judge(divides(divisor, size, known), known, lambda v: size.evaluate(v) % divisor == 0, never=True)


@given(size=sizes, limit=sizes, known=facts)
def test_at_most(size: Size, limit: Size, known: Facts) -> None:
    judge(at_most(size, limit, known), known, lambda v: size.evaluate(v) <= limit.evaluate(v), never=True)


BM, BN = Size.of("BM"), Size.of("BN")


def test_what_must_be_decided() -> None:
    eights = Facts(multiples={"BM": 8})
    assert equal(BM * 2, BM + BM, Facts()) == Proved()
    assert isinstance(equal(BM, BM + 1, Facts()), Refuted)
    assert isinstance(equal(BM, BN, Facts()), Refuted)
    assert equal(BM // 8 * 8, BM, eights) == Proved()
    assert isinstance(equal(BM // 8 * 8, BM + 8, eights), Refuted)
    assert not isinstance(equal(BM // 8 * 8, BM, Facts()), Proved)
    assert divides(8, BM * 3, eights) == Proved()
    assert isinstance(divides(8, BM + 4, eights), Refuted)
    assert isinstance(divides(16, BM, eights), Open)
    assert at_most(BM, Size.of(128), Facts(highs={"BM": 128})) == Proved()
    assert isinstance(at_most(BM + 128, Size.of(128), Facts()), Refuted)
    assert isinstance(at_most(BM, Size.of(128), Facts()), Open)


def test_a_witness_prefers_different_numbers_for_different_names() -> None:
    verdict = equal(BM, BN, Facts(multiples={"BM": 8, "BN": 8}))
    assert isinstance(verdict, Refuted) and verdict.witness["BM"] != verdict.witness["BN"]


def test_an_open_verdict_says_what_would_close_it() -> None:
    verdict = divides(16, BM, Facts())
    assert isinstance(verdict, Open) and verdict.closes == "`Multiple[L[16]]` for BM"
