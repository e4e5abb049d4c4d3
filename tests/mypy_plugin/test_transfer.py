"""JAX's abstract evaluation: what is refused, what is open, and what happens without JAX."""

import subprocess
import sys

import pytest

from typedpallas.dims import Facts, Size
from typedpallas.dtypes import Float
from typedpallas_mypy import evaluation, written
from typedpallas_mypy.call import Call, Refused
from typedpallas_mypy.static import NOTHING, AnyInt, Constant, Group
from typedpallas_mypy.transfer import evaluate
from typedpallas_mypy.value import Value

FACTS = Facts(multiples={"M": 8})


def _value(dtype, *dims):
    return Value(dtype, tuple(None if dim is None else Size.of(dim) for dim in dims))


def _of(function, *arguments, families=None):
    return evaluate(Call(function, arguments), FACTS, lambda call: families or {})


X, Y = _value("float32", "M", "N"), _value("float32", "N", "M")


@pytest.mark.parametrize("function", sorted(written.BLIND))
def test_the_number_in_a_call_does_not_matter(function):
    """Calls that differ only in a small number have one text, because JAX gives them one type."""
    for dtype in ("float32", "bfloat16", "int8", "uint8", "bool"):
        x = _value(dtype, "M", "N")
        for numbers in ((0, 1, 127), (0.0, -1.5, 1e300, float("inf"))):
            arguments = [
                (X, x, Constant.of(n)) if function.endswith("where") else (x, Constant.of(n)) for n in numbers
            ]
            calls = [Call(function, given) for given in arguments]
            assert len({written.call_text(call) for call in calls}) == 1
            outcomes = [evaluation.outcome(call, (("M", 8), ("N", 1)), {}) for call in calls]
            assert all(outcome == outcomes[0] for outcome in outcomes), (dtype, numbers)
    assert written.call_text(Call(function, (X, Constant.of(128)))) != written.call_text(
        Call(function, (X, Constant.of(1)))
    )


def test_refusal_is_in_the_users_names():
    refused = _of("operator:add", X, Y)
    assert isinstance(refused, Refused) and refused.kind == "shape"
    assert "(M, N)" in refused.message and "(N, M)" in refused.message


def test_element_types_are_told_from_shapes():
    refused = _of("jax._src.lax.lax.add", X, _value("int32", "M", "N"))
    assert isinstance(refused, Refused) and refused.kind == "dtype"


@pytest.mark.parametrize(
    "arguments",
    [
        ("operator:add", X, _value("float32", None, "N")),
        ("operator:add", X, Value("float32", None)),
        ("operator:add", X, NOTHING),
        ("jax.numpy.split", X, Constant.of(3)),
        ("jax.numpy.reshape", X, Group("tuple", (AnyInt(), Constant.of(7)))),
        ("jax.numpy.nonzero", X),
        ("jax.numpy.no_such_function", X),
        ("jax._src.core.Tracer", X),
        ("method:item", X),
        ("jax.numpy.arange", Value("int", (), weak=True)),
    ],
    ids=str,
)
def test_what_is_not_known_is_open(arguments):
    """No refusal, no guess: a dim, a shape or an argument is unknown, or sizes may grant what these do not."""
    outcome = _of(*arguments)
    assert outcome is None or getattr(outcome, "shape", None) is None or None in outcome.shape


def test_weak_results_have_no_element_type():
    """``jnp.where(flag, 0.0, 1.0)`` takes the element type of what it meets next."""
    flag = _value("bool", "M")
    outcome = _of("jax.numpy.where", flag, Constant.of(0.0), Constant.of(1.0))
    assert outcome == Value(None, (Size.of("M"),))


def test_a_parameter_stays_one():
    class Parameter:
        name = "T"

    parameter = Parameter()
    value = Value(None, (Size.of("M"),), parameter=parameter)
    assert _of("operator:mul", value, Constant.of(2.0), families={"T": Float}) == value
    compared = _of("operator:gt", value, Constant.of(2.0), families={"T": Float})
    assert compared == Value("bool", (Size.of("M"),))


def test_multiples_are_used():
    """``M // 8`` rows of 8 are known to be all of M."""
    shape = Group("tuple", (Size.of("M") // 8, Constant.of(8), Size.of("N")))
    assert _of("jax.numpy.reshape", X, shape) == _value("float32", Size.of("M") // 8, 8, "N")


def test_without_jax_all_is_open():
    code = """
import sys
sys.modules["jax"] = None
from typedpallas.dims import Facts, Size
from typedpallas_mypy.call import Call
from typedpallas_mypy.value import Value
from typedpallas_mypy.transfer import evaluate
x = Value("float32", (Size.of("M"),))
assert evaluate(Call("operator:add", (x, x)), Facts(), lambda call: {}) is None
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
