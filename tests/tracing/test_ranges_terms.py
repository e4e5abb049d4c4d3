"""Ranges and proofs of integer terms, held against what the terms come to at every point."""

import itertools
from collections.abc import Sequence

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from typedpallas.starts.bounds import Range, bounds, join, widened
from typedpallas.starts.proofs import proves
from typedpallas.starts.terms import OPERATIONS, Leaf, Term, Terms, leaves
from typedpallas.tracing.ranges.points import Condition, Path, comes, find

LEAVES = (Leaf("program_id(0)", 0, 3, known=True), Leaf("program_id(1)", 0, 2, known=True))
BINARY = ("add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "lt", "le", "eq", "ne", "gt", "ge")


@st.composite
def terms(draw: st.DrawFn, depth: int = 4) -> tuple[Terms, Term]:
    """A term over two program ids, built as a kernel would."""
    made = Terms()

    def build(left: int) -> Term:
        kind = draw(st.integers(0, 9)) if left else draw(st.integers(0, 3))
        if kind < 2:
            return made.leaf(LEAVES[kind])
        if kind < 4:
            return made.const(draw(st.sampled_from((0, 1, 2, 3, 4, 7, 8, 12, 16, 128, -1, -8))))
        if kind == 4:
            return made.apply("select", build(left - 1), build(left - 1), build(left - 1))
        if kind == 5:
            return made.apply("abs", build(left - 1))
        return made.apply(draw(st.sampled_from(BINARY)), build(left - 1), build(left - 1))

    return made, build(depth)


def values(term: Term) -> list[int | None]:
    """What the term comes to at each point; none where it divides by zero."""
    return [_value(term, point) for point in itertools.product(range(4), range(3))]


def _value(term: Term, point: Sequence[int]) -> int | None:
    if term.leaf is not None:
        return point[LEAVES.index(term.leaf)]
    if term.op == "const":
        return term.value
    if term.op == "select":
        which, otherwise, chosen = (_value(arg, point) for arg in term.args)
        return None if which is None else chosen if which else otherwise
    args = [_value(arg, point) for arg in term.args]
    if None in args:
        return None
    if term.op in ("multiple", "opaque", "joined"):
        return args[0]
    found = OPERATIONS[term.op](*args)
    return None if found is None else int(found)


@given(terms())
def test_a_range_covers_every_value(made: tuple[Terms, Term]) -> None:
    term = made[1]
    found = bounds(term, {})
    for value in values(term):
        if value is not None:
            assert found.low is None or found.low <= value
            assert found.high is None or value <= found.high
            assert (value - found.rest) % found.step == 0 if found.step else value == found.rest


@given(terms(), st.sampled_from((2, 4, 8, 16, 128)))
def test_what_the_compiler_proves_is_true(made: tuple[Terms, Term], divisor: int) -> None:
    if proves(divisor, made[1]) == "yes":
        assert all(value % divisor == 0 for value in values(made[1]) if value is not None)


@given(terms(), st.integers(-20, 200))
def test_a_witness_is_found_where_there_is_one(made: tuple[Terms, Term], limit: int) -> None:
    term = made[1]
    every = values(term)
    if None in every:
        return
    found = find(term, Path(), lambda value: value > limit)
    assert (found is not None) == any(value is not None and value > limit for value in every)
    if found is not None:
        point = [found.at.get(leaf.label, 0) for leaf in LEAVES]
        assert found.value == _value(term, point) and found.value > limit


@given(terms())
def test_a_number_for_a_program_id(made: tuple[Terms, Term]) -> None:
    fresh = Terms()
    fixed = fresh.replaced(made[1], LEAVES[0], 2)
    assert LEAVES[0] not in leaves(fixed)
    for second in range(3):
        before, after = _value(made[1], (2, second)), _value(fixed, (2, second))
        assert before is None or before == after


def test_equal_terms_are_one_object() -> None:
    made = Terms()
    leaf = made.leaf(LEAVES[0])
    eight = made.const(8)
    assert made.apply("mul", leaf, eight) is made.apply("mul", eight, leaf)
    assert made.apply("sub", made.apply("add", leaf, eight), leaf).const == 8
    assert made.apply("sub", made.apply("add", leaf, made.const(4)), made.const(4)) is leaf


def test_a_promise_counts_for_both() -> None:
    made = Terms()
    promised = made.multiple(made.data(), 8)
    assert bounds(promised, {}).multiple == 8
    assert proves(8, promised) == "yes"
    assert proves(16, promised) == "no"
    assert proves(8, made.unknown()) == "unknown"


def test_what_the_compiler_does_not_see() -> None:
    """True multiples of 8 by operations that it does not follow; each was asked of libtpu."""
    made = Terms()
    i = made.leaf(LEAVES[0])
    eight, times = made.const(8), made.apply("mul", i, made.const(8))
    for term in (
        made.apply("max", times, eight),
        made.apply("shift_left", i, made.const(3)),
        made.apply("and", i, made.const(-8)),
        made.apply("abs", times),
        made.opaque(times),
    ):
        assert bounds(term, {}).multiple % 8 == 0
        assert proves(8, term) == "no"


def test_sums_of_many_terms_are_given_up() -> None:
    made = Terms()
    total = made.apply("mul", made.data(), made.const(8))
    for count in range(1, 8):
        total = made.apply("add", total, made.apply("mul", made.data(), made.const(8)))
        assert proves(8, total) == ("yes" if count < 6 else "no")


def test_joining_and_widening() -> None:
    assert join(Range.of(8), Range.of(24)) == Range(8, 24, 16, 8)
    assert widened(Range(0, 8, 8, 0), Range(8, 16, 8, 0)) == Range(0, None, 8, 0)
    assert widened(Range(0, 8, 8, 0), Range(0, 8, 8, 0)) == Range(0, 8, 8, 0)


def test_a_path_that_depends_on_data_is_not_known_to_be_taken() -> None:
    made = Terms()
    first = made.apply("eq", made.leaf(LEAVES[0]), made.const(0))
    assert comes(Path((Condition(first, 1, 1),)))
    assert not comes(Path((Condition(made.apply("lt", made.leaf(LEAVES[0]), made.const(0)), 1, 1),)))
    assert not comes(Path((Condition(made.data(), 1, 1),)))
    assert not comes(Path(certain=False))


def test_large_grids_are_sampled_at_their_ends() -> None:
    made = Terms()
    leaf = Leaf("program_id(0)", 0, 10_000_000, known=True)
    found = find(made.leaf(leaf), Path(), lambda value: np.asarray(value > 9_999_999))
    assert found is not None and found.value == 10_000_000
