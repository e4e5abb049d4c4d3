"""Which operations on which element types each compiler refuses: asked one by one, kept as a table.

    python -m benchmarks.operations                  ask about everything, write the table
    python -m benchmarks.operations --check          ask about a sample, compare with the table
    python -m benchmarks.operations --targets h100   some targets; the others' answers are kept

The first target of each machine is asked in full; about what it refuses, the others are asked in fewer forms. An
operation counts as refused only if the compiler refuses it in every form that was tried (shapes; operands loaded
as they are, or converted from 32 bits in the kernel), and takes the same loads, stores and conversions without it.
Answers are cached by the compilers' own cache, so that a run which was stopped goes on where it was.
"""

import argparse
import random
import sys
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

import typedpallas as tp
from typedpallas import chips
from typedpallas.chips import Target
from typedpallas.events import Applied, Backend, Context
from typedpallas.rules import _refused
from typedpallas.tracing import body, jaxapi
from typedpallas.tracing.walk import kernels

TABLE = _refused.path()
TARGETS = ("tpu-v5e", "tpu-v2", "tpu-v3", "tpu-v4", "tpu-v5p", "tpu-v6e", "tpu-7x", "h100", "a100", "b200")
FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz")
INTS = ("int32", "int16", "int8", "int4", "uint32", "uint16", "uint8", "uint4")
FULL = {"tpu": "tpu-v5e", "gpu": "h100"}
_FEW = 2
TYPES = (*FLOATS, *INTS)
SHAPES = ((32, 128), (8, 128), (1024,), (1, 128))
MATRICES = ((32, 128), (8, 128), (16, 256))
GPU_SHAPES = ((32, 128), (128,))
GPU_MATRICES = ((32, 128), (16, 16))

type Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operation:
    """One function of one or two arrays; ``primitive`` is the operation in its trace that is asked about."""

    primitive: str
    function: Callable[..., Any]
    types: tuple[str, ...] = TYPES
    operands: int = 1
    matrices: bool = False
    """Whether it needs two axes."""


def _unary() -> Iterator[Operation]:
    both: dict[str, Any] = {"neg": jnp.negative, "abs": jnp.abs, "sign": jnp.sign, "integer_pow": lambda x: x**3}
    both["square"] = lax.square
    for name, function in both.items():
        yield Operation(name, function)
    floats = "exp exp2 log log1p expm1 sin cos tan tanh logistic rsqrt sqrt cbrt erf erf_inv floor ceil round"
    floats += " is_finite asin acos atan sinh cosh asinh acosh atanh lgamma digamma"
    for name in floats.split():
        yield Operation(name, getattr(lax, name), FLOATS)
    for name, function in (("not", lax.bitwise_not), ("population_count", lax.population_count), ("clz", lax.clz)):
        yield Operation(name, function, INTS)


def _binary() -> Iterator[Operation]:
    for name in ["add", "sub", "mul", "div", "rem", "max", "min", "eq", "ne", "lt", "le", "gt", "ge"]:
        yield Operation(name, getattr(lax, name), TYPES, 2)
    for name in ["pow", "atan2", "nextafter"]:
        yield Operation(name, getattr(lax, name), FLOATS, 2)
    ints = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}
    ints |= {name: name for name in ("shift_left", "shift_right_logical", "shift_right_arithmetic")}
    for name, function in ints.items():
        yield Operation(name, getattr(lax, function), INTS, 2)
    yield Operation(
        "select_n", lambda x, y: jnp.where(lax.broadcasted_iota(jnp.int32, x.shape, 0) > 3, x, y), TYPES, 2
    )
    yield Operation("concatenate", lambda x, y: jnp.concatenate([x, y], 0), TYPES, 2)
    yield Operation("concatenate", lambda x, y: jnp.concatenate([x, y], 1), TYPES, 2, matrices=True)


def _converted(to: str) -> Callable[[Any], Any]:
    return lambda x: x.astype(to)


def _along(name: str, axis: int) -> Callable[[Any], Any]:
    return lambda x: getattr(jnp, name)(x, axis=axis)


def _kept(name: str, axis: int) -> Callable[[Any], Any]:
    return lambda x: getattr(jnp, name)(x, axis=axis, keepdims=True)


def _structural() -> Iterator[Operation]:
    for to in TYPES:
        yield Operation("convert_element_type", _converted(to), tuple(t for t in TYPES if t != to))
    for axis in (0, 1):
        for name, function in (("sum", "reduce_sum"), ("max", "reduce_max"), ("min", "reduce_min")):
            yield Operation(function, _kept(name, axis), matrices=True)
        yield Operation("reduce_prod", _kept("prod", axis), ("float32", "int32", "bfloat16"), matrices=True)
        for name in ("argmax", "argmin"):
            yield Operation(name, _argument(name, axis), matrices=True)
        for name in ("cumsum", "cumprod", "cummax"):
            yield Operation(name, _scan(name, axis), ("float32", "bfloat16", "int32"), matrices=True)
        yield Operation("cumlogsumexp", _scan("cumlogsumexp", axis), ("float32",), matrices=True)
        yield Operation("sort", _along("sort", axis), ("float32", "int32"), matrices=True)
        yield Operation("rev", _flipped(axis), ("float32", "bfloat16", "int32", "int8"), matrices=True)
        yield Operation("gather", _looked_up(axis), ("float32", "bfloat16", "int32", "int8"), matrices=True)
    yield Operation("transpose", jnp.transpose, matrices=True)
    yield Operation("slice", lambda x: x[:8], matrices=True)


def _argument(name: str, axis: int) -> Callable[[Any], Any]:
    return lambda x: jnp.expand_dims(getattr(lax, name)(x, axis, jnp.int32), axis)


def _scan(name: str, axis: int) -> Callable[[Any], Any]:
    return lambda x: getattr(lax, name)(x, axis)


def _flipped(axis: int) -> Callable[[Any], Any]:
    return lambda x: lax.rev(x, (axis,))


def _looked_up(axis: int) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        rows = lax.broadcasted_iota(jnp.int32, x.shape, 1 - axis) % x.shape[axis]
        return jnp.take_along_axis(x, rows, axis, mode="promise_in_bounds")

    return function


OPERATIONS = (*_unary(), *_binary(), *_structural())


@dataclass(frozen=True)
class Form:
    """One kernel: an operation (none: only its loads, conversions and stores) at one shape."""

    operation: Operation | None
    dtype: str
    shape: Shape
    converted: bool
    """Whether the operands come from 32 bits, and the result goes back to them, in the kernel."""
    operands: int = 1

    def call(self) -> tuple[Callable[..., Any], tuple[jax.ShapeDtypeStruct, ...]]:
        """The function that launches it, and its arguments."""
        wide = _wide(self.dtype) if self.converted else self.dtype
        args = tuple(jax.ShapeDtypeStruct(self.shape, jnp.dtype(wide)) for _ in range(self.operands))
        made = jax.eval_shape(self._value, *args)

        def kernel(*refs: Any) -> None:
            refs[-1][...] = self._value(*(ref[...] for ref in refs[:-1]))

        return pl.pallas_call(kernel, out_shape=made), args

    def _value(self, *loaded: Any) -> Any:
        values = [value.astype(self.dtype) for value in loaded]
        result = values[0] if self.operation is None else self.operation.function(*values)
        if result.dtype == bool:
            return jnp.where(result, 1, 0).astype(jnp.int32)
        return result.astype(_wide(str(result.dtype))) if self.converted else result


def _wide(dtype: str) -> str:
    return "float32" if "float" in dtype else "int32"


def refusal(form: Form, target: Target) -> str:
    """The compiler's words, or JAX's; empty if it takes the kernel."""
    try:
        run, args = form.call()
        tp.compile(run, *args, target=target, deadline=60.0)
    except tp.CompileError as error:
        return "" if error.kind in ("timeout", "unavailable") else error.reason or error.kind
    except (TypeError, ValueError, NotImplementedError) as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""


def key(form: Form, backend: Backend) -> str | None:
    """What the rules call the operation; none if it is not in the trace."""
    assert form.operation is not None
    run, args = form.call()
    found = [
        event
        for call in kernels(jaxapi.trace(run, args), backend)
        for located in body.events(call, Context(backend=backend))
        if isinstance(event := located.event, Applied)
        and event.primitive == form.operation.primitive
        and any(operand.dtype == form.dtype for operand in event.operands)
    ]
    return _refused.key(found[0]) if found else None


def forms(operation: Operation, dtype: str, target: Target) -> Iterator[Form]:
    """The kernels that decide about an operation."""
    shapes: tuple[Shape, ...] = GPU_MATRICES if operation.matrices else GPU_SHAPES
    if target.machine == "tpu":
        shapes = MATRICES if operation.matrices else SHAPES
    wide = dtype == _wide(dtype)
    for converted in (False,) if wide else (False, True):
        for shape in shapes:
            yield Form(operation, dtype, shape, converted, operation.operands)


class Asked:
    """The answers of one target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.backend: Backend = "mosaic_tpu" if target.machine == "tpu" else "triton"
        self._controls: dict[Form, bool] = {}

    def answers(self) -> bool:
        """Whether there is a compiler to ask."""
        run, args = Form(None, "float32", (8, 128), False).call()
        try:
            tp.compile(run, *args, target=self.target)
        except tp.CompileError as error:
            return error.kind != "unavailable"
        return True

    def control(self, form: Form) -> bool:
        """Whether the same loads, conversions and stores work without the operation."""
        assert form.operation is not None
        values = [jax.ShapeDtypeStruct(form.shape, jnp.dtype(form.dtype))] * form.operands
        made = jax.eval_shape(form.operation.function, *values)
        result = "int32" if made.dtype == bool else str(made.dtype)
        converted = form.converted and result != _wide(result)
        bare = Form(None, form.dtype, form.shape, form.converted)
        return self._takes(bare) and self._takes(Form(None, result, made.shape, converted))

    def _takes(self, form: Form) -> bool:
        if form not in self._controls:
            self._controls[form] = not refusal(form, self.target)
        return self._controls[form]

    def refused(self, operation: Operation, dtype: str, expected: Container[str] = ()) -> tuple[str, str] | None:
        """The operation's key and the compiler's words if every form is refused; none otherwise.

        Of operations that are ``expected`` to be refused, only the first `_FEW` forms are asked.
        """
        found: tuple[str, str] | None = None
        asked = 0
        for form in forms(operation, dtype, self.target):
            if found is not None and found[0] in expected and asked >= _FEW:
                break
            try:
                name = key(form, self.backend)
                if name is None or not self.control(form):
                    continue
            except (TypeError, ValueError, NotImplementedError):
                continue
            words = refusal(form, self.target)
            asked += 1
            if not words:
                return None
            found = found or (name, words)
        return found

    def loads(self) -> Iterator[tuple[str, str]]:
        """The element types that cannot be loaded at all."""
        shapes: tuple[Shape, ...] = SHAPES if self.target.machine == "tpu" else GPU_SHAPES
        for dtype in TYPES:
            said = [refusal(Form(None, dtype, shape, False), self.target) for shape in shapes]
            if all(said):
                yield f"get {dtype}", said[0]


def ask(target: Target, questions: list[tuple[Operation, str]], expected: Container[str] = ()) -> dict[str, str]:
    """What the target refuses among these: the operation's key to the compiler's words."""
    asked = Asked(target)
    found = dict(asked.loads())
    for count, (operation, dtype) in enumerate(questions):
        if count % 100 == 0:
            print(f"{target.name}: {count} of {len(questions)}", file=sys.stderr, flush=True)
        said = asked.refused(operation, dtype, expected)
        if said is not None:
            found[said[0]] = said[1]
    return found


def questions() -> list[tuple[Operation, str]]:
    """Every operation with each element type that it is asked about."""
    return [(operation, dtype) for operation in OPERATIONS for dtype in operation.types]


def main() -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--check", action="store_true", help="ask about a sample and compare")
    parser.add_argument("--sample", type=int, default=40, help="how many questions --check asks of each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--table", type=Path, default=TABLE)
    given = parser.parse_args()
    rows = _refused.parsed(given.table.read_text()) if given.table.exists() else {}
    wrong = 0
    for name in given.targets.split(","):
        target = chips.get(name)
        asked = questions()
        if given.check:
            asked = random.Random(given.seed).sample(asked, given.sample)
            wrong += _differences(target, asked, rows.get(name, {}))
            continue
        rows[name] = ask(target, asked, rows.get(FULL[target.machine], {}) if name != FULL[target.machine] else ())
        given.table.write_text(_refused.written(rows))
    return 1 if wrong else 0


def _differences(target: Target, questions: list[tuple[Operation, str]], rows: dict[str, str]) -> int:
    """Prints where the compiler and the table disagree; how many."""
    asked, count = Asked(target), 0
    for operation, dtype in questions:
        name = next((k for form in forms(operation, dtype, target) if (k := key(form, asked.backend))), None)
        if name is not None and (asked.refused(operation, dtype) is not None) != (name in rows):
            print(f"{target.name}: `{name}` is {'' if name in rows else 'not '}in the table; the compiler disagrees")
            count += 1
    return count


if __name__ == "__main__":
    sys.exit(main())
