"""What a call of JAX gives: JAX's own abstract evaluation on symbolic dims.

A refusal counts only where it is JAX's word on shapes and element types, for symbols and for numbers alike, and
nothing in the call was unknown. Everything else is open (none).
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Literal

from typedpallas.dims import Facts, Size
from typedpallas.dtypes import DType, Float, Integer, Number
from typedpallas.records import record
from typedpallas_mypy import jaxapi
from typedpallas_mypy.call import Call, Outcome, Refused, Several
from typedpallas_mypy.static import (
    AnyInt,
    Constant,
    Cut,
    DTypeOf,
    Group,
    Leaf,
    Like,
    Named,
    Static,
)
from typedpallas_mypy.symbols import Numbers, Symbols, witnesses
from typedpallas_mypy.value import Value

_CANDIDATES: dict[type[DType], tuple[str, ...]] = {
    Float: ("float32", "bfloat16"),
    Integer: ("int32", "int8"),
    Number: ("float32", "bfloat16", "int32"),
}
_ANY_DTYPE = ("float32", "bfloat16", "int32", "bool")
_MOST_COMBINATIONS = 16
_MESSAGE_LENGTH = 240
_PASSING = (MemoryError, RecursionError, OSError, ImportError)
"""Failures that another run need not have."""


def outcome(
    call: Call, multiples: tuple[tuple[str, int], ...], families: Mapping[str, type[DType] | None]
) -> tuple[Outcome | Refused, bool]:
    """What JAX makes of a call, and whether it would make the same of it another time.

    ``multiples`` has every name that occurs in the call's sizes. Without JAX all is open, until there is one.
    """
    if jaxapi.jax() is None:
        return None, False
    function = callee(call.function)
    if function is None:
        return None, True
    evaluation = _Evaluation(call, function, dict(multiples), dict(families))
    return evaluation.run(), evaluation.lasting


def callee(name: str) -> Callable[..., Any] | None:
    """The function that a `Call` names; none if it is none of JAX's public ones."""
    kind, colon, rest = name.partition(":")
    if not colon:
        return jaxapi.public_function(name)
    if kind == "method":
        return lambda self, *args, **kwargs: getattr(self, rest)(*args, **kwargs)
    if kind == "attribute":
        return lambda self: getattr(self, rest)
    if kind == "index":
        return operator.getitem
    if kind == "portable":
        return jaxapi.portable(rest)
    found: Callable[..., Any] | None = getattr(operator, rest, None) or getattr(math, rest, None)
    return divmod if rest == "divmod" else found


class _Evaluation:
    """One evaluation of one call, under every element type that its unknown ones may be."""

    def __init__(
        self,
        call: Call,
        function: Callable[..., Any],
        multiples: Mapping[str, int],
        families: Mapping[str, type[DType] | None],
    ) -> None:
        self.call = call
        self.function = function
        self.facts = Facts(multiples=multiples)
        self.names = list(multiples)
        self.families = families
        self.open_dtypes = self._open_dtypes()
        self.unknown = sum(_unknown_dims(leaf) for leaf in call.leaves)
        """How many dims or numbers are unknown: then no refusal is final."""
        self.lasting = True
        """Whether nothing went wrong that has to do with this moment, not with the call."""

    def _open_dtypes(self) -> list[str]:
        """The keys of the element types to try: a parameter's name, or ``?0``, ``?1`` for unknown ones."""
        keys: dict[str, None] = {}
        for leaf in self.call.leaves:
            value = leaf.value if isinstance(leaf, Like | DTypeOf) else leaf
            if isinstance(value, Value) and value.dtype is None:
                keys[_key(value)] = None
        return list(keys)

    def run(self) -> Outcome | Refused:
        """The outcome that holds for every element type."""
        if any(isinstance(leaf, Value | Like) and _value(leaf).shape is None for leaf in self.call.leaves):
            return None
        choices = [_candidates(key, self.families.get(key)) for key in self.open_dtypes]
        if math.prod(map(len, choices)) > _MOST_COMBINATIONS:
            return None
        results: list[tuple[dict[str, str], Outcome]] = []
        refusals: list[Refused] = []
        for combination in itertools.product(*choices):
            dtypes = dict(zip(self.open_dtypes, combination, strict=True))
            outcome = self._once(dtypes)
            if outcome is None:
                return None
            if isinstance(outcome, Refused):
                refusals.append(outcome)
            else:
                results.append((dtypes, outcome))
        if not results:
            return refusals[0] if refusals and not self.unknown else None
        return self._merged(results)

    def _once(self, dtypes: Mapping[str, str]) -> Outcome | Refused:
        symbols = Symbols(self.names, self.facts, self.unknown)
        try:
            return _outcome(self._apply(symbols, dtypes), symbols)
        except Exception as error:
            self.lasting = self.lasting and not isinstance(error, _PASSING)
            if not jaxapi.is_refusal(error):
                return None
            message = symbols.text(_first_sentence(error))
            return Refused(message, "shape") if self.unknown else self._confirmed(message, dtypes)

    def _confirmed(self, message: str, dtypes: Mapping[str, str]) -> Refused | None:
        """A refusal of symbols, if numbers are refused too; the kind is ``dtype`` if equal element types are not."""
        trials = [Numbers(values) for values in witnesses(self.names, self.facts)]
        if not trials or not all(self._refuses(numbers, dtypes) for numbers in trials):
            return None
        same = self._refuses(trials[0], dtypes, instead="float32")
        return Refused(message, "shape" if same else "dtype")

    def _refuses(self, numbers: Numbers, dtypes: Mapping[str, str], instead: str | None = None) -> bool:
        try:
            self._apply(numbers, dtypes, instead)
        except Exception as error:
            self.lasting = self.lasting and not isinstance(error, _PASSING)
            return jaxapi.is_refusal(error)
        return False

    def _apply(self, dims: Symbols | Numbers, dtypes: Mapping[str, str], instead: str | None = None) -> Any:
        """Evaluate once; ``instead`` replaces the element type of every operand."""
        operands: list[Any] = []

        def prepared(item: Static) -> Any:
            if isinstance(item, Group):
                parts = [prepared(part) for part in item.items]
                if item.kind == "dict":
                    return dict(zip(item.keys, parts, strict=True))
                return parts if item.kind == "list" else tuple(parts)
            if isinstance(item, Cut):
                return slice(prepared(item.start), prepared(item.stop), prepared(item.step))
            if isinstance(item, Value):
                operands.append(self._struct(item, dims, dtypes, instead))
                return _Slot(len(operands) - 1)
            return self._fixed(item, dims, dtypes, instead)

        arguments = [prepared(argument) for argument in self.call.arguments]
        keywords = {name: prepared(value) for name, value in self.call.keywords}

        def traced(*arrays: Any) -> Any:
            filled = {name: _filled(value, arrays) for name, value in keywords.items()}
            return self.function(*(_filled(argument, arrays) for argument in arguments), **filled)

        return jaxapi.eval_shape(traced, operands)

    def _fixed(self, item: Static, dims: Symbols | Numbers, dtypes: Mapping[str, str], instead: str | None) -> Any:
        """What is no array for JAX: numbers, names, element types."""
        if isinstance(item, Constant):
            return item.value
        if isinstance(item, Size):
            return dims.dim(item)
        if isinstance(item, AnyInt):
            return dims.unknown()
        if isinstance(item, Named):
            return jaxapi.resolve(item.fullname)
        if isinstance(item, DTypeOf):
            return jaxapi.jax().numpy.dtype(item.value.dtype or dtypes[_key(item.value)])
        assert isinstance(item, Like), item
        return self._struct(item.value, dims, dtypes, instead)

    def _struct(self, value: Value, dims: Symbols | Numbers, dtypes: Mapping[str, str], instead: str | None) -> Any:
        assert value.shape is not None
        shape = tuple(dims.unknown() if size is None else dims.dim(size) for size in value.shape)
        if value.weak:
            weak = {"int": "int32", "float": "float32", "complex": "complex64"}[value.dtype or "float"]
            return jaxapi.struct((), weak, weak=True)
        return jaxapi.struct(shape, instead or value.dtype or dtypes[_key(value)])

    def _merged(self, results: list[tuple[dict[str, str], Outcome]]) -> Outcome:
        first = results[0][1]
        if isinstance(first, Several):
            rows = [outcome for _, outcome in results]
            if not all(isinstance(row, Several) and len(row.items) == len(first.items) for row in rows):
                return None
            columns = [[(d, row.items[i]) for d, row in results] for i in range(len(first.items))]  # type: ignore[union-attr]
            return Several(first.kind, tuple(self._merged(column) for column in columns))
        values = [(dtypes, value) for dtypes, value in results if isinstance(value, Value)]
        if first is None or len(values) < len(results):
            return None
        shapes = {value.shape for _, value in values}
        return self._with_dtype(shapes.pop() if len(shapes) == 1 else None, values)

    def _with_dtype(self, shape: Any, values: list[tuple[dict[str, str], Value]]) -> Value:
        """The element type that all agree on: the same for all, or always that of one parameter."""
        found = {(value.dtype, value.weak) for _, value in values}
        if len(found) == 1:
            dtype, weak = found.pop()
            return Value(None if weak else dtype, shape)
        for key in self.open_dtypes:
            if not key.startswith("?") and all(not v.weak and v.dtype == dtypes[key] for dtypes, v in values):
                return Value(None, shape, parameter=self._parameter(key))
        return Value(None, shape)

    def _parameter(self, key: str) -> Any:
        values = [_value(leaf) for leaf in self.call.leaves if isinstance(leaf, Value | Like | DTypeOf)]
        return next(value.parameter for value in values if value.parameter is not None and _key(value) == key)


@record(frozen=True)
class _Slot:
    """The place of an operand among the arguments."""

    index: int


def _filled(item: Any, arrays: tuple[Any, ...]) -> Any:
    if isinstance(item, _Slot):
        return arrays[item.index]
    if isinstance(item, dict):
        return {name: _filled(part, arrays) for name, part in item.items()}
    if isinstance(item, tuple | list):
        return type(item)(_filled(part, arrays) for part in item)
    if isinstance(item, slice):
        return slice(_filled(item.start, arrays), _filled(item.stop, arrays), _filled(item.step, arrays))
    return item


def _value(leaf: Value | Like | DTypeOf) -> Value:
    return leaf if isinstance(leaf, Value) else leaf.value


def _key(value: Value) -> str:
    return value.parameter.name if value.parameter is not None else "?"


def _candidates(key: str, family: type[DType] | None) -> tuple[str, ...]:
    return _ANY_DTYPE if family is None or key == "?" else _CANDIDATES.get(family, _ANY_DTYPE)


def _unknown_dims(leaf: Leaf) -> int:
    if isinstance(leaf, AnyInt):
        return 1
    if isinstance(leaf, Value) and leaf.weak:
        return int(leaf.dtype == "int")
    return sum(size is None for size in _value(leaf).shape or ()) if isinstance(leaf, Value | Like) else 0


def _outcome(result: Any, symbols: Symbols) -> Outcome:
    if jaxapi.is_struct(result):
        shape = tuple(symbols.size(dim) for dim in result.shape)
        return Value(str(result.dtype), shape, weak=bool(result.weak_type))
    if type(result) in (tuple, list):
        kind: Literal["tuple", "list"] = "tuple" if isinstance(result, tuple) else "list"
        return Several(kind, tuple(_outcome(item, symbols) for item in result))
    return None


def _first_sentence(error: Exception) -> str:
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return text if len(text) <= _MESSAGE_LENGTH else text[: _MESSAGE_LENGTH - 3] + "..."
