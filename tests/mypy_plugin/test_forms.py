"""Numbers as level 1 reads them against the same numbers as JAX traces them: both prove the same divisors."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from typedpallas.dims import Size
from typedpallas.starts import proofs
from typedpallas.starts.bounds import bounds
from typedpallas.tracing.ranges.slices import by_part
from typedpallas.tracing.walk import kernels
from typedpallas_mypy.forms import Case, Form, NeverRuns

S = jax.ShapeDtypeStruct
DIVISORS = (2, 3, 4, 8, 16, 32, 128)
DATA = Form("data", name="s[0]")
LIMIT = Form("data", name="s[1]")
PROGRAM = Form("program", name="program_id(0)")
OPERATIONS = {
    "add": (2, lambda a, b: a + b),
    "sub": (2, lambda a, b: a - b),
    "mul": (2, lambda a, b: a * b),
    "floor": (2, lambda a, b: a // b),
    "mod": (2, lambda a, b: a % b),
    "cdiv": (2, pl.cdiv),
    "min": (2, jnp.minimum),
    "max": (2, jnp.maximum),
    "clip": (3, jnp.clip),
    "where": (3, lambda which, a, b: jnp.where(which != 0, a, b)),
    "shift_left": (2, lambda a, b: a << b),
    "shift_right_arithmetic": (2, lambda a, b: a >> b),
    "and": (2, lambda a, b: a & b),
    "abs": (1, abs),
}
NUMBERS = st.sampled_from([0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 64, 128])
LEAVES = st.sampled_from([PROGRAM, PROGRAM, DATA, "turn"])


def _applied(parts):
    """Operations with the second operand a constant as often as not: that is how people write starts."""
    operand = st.one_of(parts, NUMBERS.map(Form.of))
    pairs = st.tuples(st.sampled_from(["add", "sub", "mul", "min", "max", "and"]), parts, operand)
    by_number = st.tuples(st.sampled_from(["floor", "mod", "cdiv"]), parts, NUMBERS.filter(bool).map(Form.of))
    shifts = st.tuples(
        st.sampled_from(["shift_left", "shift_right_arithmetic"]), parts, st.integers(0, 4).map(Form.of)
    )
    three = st.tuples(st.sampled_from(["clip", "where"]), parts, operand, operand)
    promised = st.tuples(st.just("multiple"), parts, st.sampled_from([2, 8, 16, 128]))
    return st.one_of(pairs, by_number, shifts, three, promised, st.tuples(st.just("abs"), parts))


FORMS = st.recursive(LEAVES, _applied, max_leaves=6)


def _form(tree, turn):
    if tree == "turn":
        return turn
    if isinstance(tree, Form):
        return tree
    op, *args = tree
    if op == "multiple":
        return Form("multiple", (_form(args[0], turn),), Size.of(args[1]))
    if op == "where":
        which = Form("ne", (_form(args[0], turn), Form.of(0)))
        return Form("where", (which, *(_form(arg, turn) for arg in args[1:])))
    return Form(op, tuple(_form(arg, turn) for arg in args))


def _value(tree, i, k, data):
    if isinstance(tree, Form):
        return {"program": i, "data": data}.get(tree.op) if tree.size is None else tree.size.const
    if tree == "turn":
        return k
    op, *args = tree
    if op == "multiple":
        return pl.multiple_of(_value(args[0], i, k, data), args[1])
    return OPERATIONS[op][1](*(_value(arg, i, k, data) for arg in args))


def _traced(tree, lower, upper):
    """The start of a slice of a ref as the trace sees it; none where it is a number that Python knows."""

    def kernel(s, x, o):
        def turn(k, carry):
            start = _value(tree, pl.program_id(0), k, s[0])
            o[...] = x[pl.ds(start, 8), :]
            return carry

        lax.fori_loop(lower, s[1] if upper is None else upper, turn, None)

    def run(s, x):
        scalars, whole = pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)
        shape = S((8, 256), jnp.float32)
        return pl.pallas_call(kernel, shape, grid=(4,), in_specs=[scalars, whole], out_specs=whole)(s, x)

    jaxpr = jax.make_jaxpr(run)(S((2,), jnp.int32), S((4096, 256), jnp.float32))
    (found,) = kernels(jaxpr, "mosaic_tpu")
    return next(parts[0].start for use, parts, _ in by_part(found) if use.buffer.name == "x")


@settings(max_examples=150, deadline=None)
@given(FORMS, st.sampled_from([(0, 4), (3, 7), (2, 3), (0, None)]))
def test_both_prove_the_same(tree, loop):
    lower, upper = loop
    turn = Form("turn", (Form.of(lower), LIMIT if upper is None else Form.of(upper)), name="the turn")
    form = _form(tree, turn)
    try:
        ours = Case({}).term(form)
    except (ZeroDivisionError, NeverRuns):
        return
    theirs = _traced(tree, lower, upper)
    assert ours.const == theirs.const
    for divisor in DIVISORS:
        assert proofs.proves(divisor, ours) == proofs.proves(divisor, theirs), divisor
    known = bounds(theirs, {}).multiple  # the trace knows how many steps there are, too
    assert known == 0 or known % (bounds(ours, {}).multiple or known + 1) == 0


def test_a_loop_without_turns_never_runs():
    with pytest.raises(NeverRuns):
        Case({"N": 2}).term(Form("turn", (Form.of(2), Form.of(Size.of("N"))), name="the turn"))


def test_dims_become_numbers():
    start = Form("mul", (PROGRAM, Form.of(Size.of("BM"))))
    found = {size: proofs.proves(8, Case({"BM": size}).term(start)) for size in (4, 8, 12, 16)}
    assert found == {4: "no", 8: "yes", 12: "no", 16: "yes"}
