"""Calls and outcomes as text: the question to the store is a line, the answer is JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from typedpallas.dims import Atom, Quotient, Size
from typedpallas.dtypes import DType
from typedpallas_mypy.call import Call, Outcome, Refused, Several
from typedpallas_mypy.static import AnyInt, Constant, Cut, DTypeOf, Group, Like, Named, Static, UnknownType, Window
from typedpallas_mypy.value import Value

_PLAIN = (int, float, complex, bool, str, bytes, type(None), type(...))


BLIND = frozenset(
    [f"operator:{name}" for name in ("add", "sub", "mul", "truediv", "lt", "le", "eq", "ne", "gt", "ge")]
    + [f"jax.numpy.{name}" for name in ("maximum", "minimum", "where")]
)
"""Calls whose result has the same type whatever the number is: only whether it is an int or a float counts."""
_SMALL = range(128)
"""Whole numbers that every element type takes."""


class Unwritable(Exception):
    """There is no text for this."""


class Unknown(Exception):
    """A part of a call is not known at all."""


def call_text(call: Call) -> str:
    """The one text of a call; it has neither tabs nor line ends.

    Raises:
        Unwritable: a literal of the call has no text.
        Unknown: an argument, or a part of one, is not known.
    """
    item = _operand if call.function in BLIND else _item
    arguments = ",".join([item(argument) for argument in call.arguments])
    keywords = ",".join([f"{name}={item(value)}" for name, value in call.keywords]) if call.keywords else ""
    return f"{call.function}({arguments};{keywords})"


def question(text: str, multiples: tuple[tuple[str, int], ...], families: Mapping[str, type[DType] | None]) -> str:
    """The text of a call with what is known of the names in it."""
    bounds = [(name, family and family.__name__) for name, family in sorted(families.items())] if families else ""
    return f"{text}{multiples}{bounds}"


def _operand(item: Static) -> str:
    if isinstance(item, Constant) and (item.kind is float or (item.kind is int and item.value in _SMALL)):
        return f"c{item.kind.__name__}"
    return _item(item)


def _item(item: Static) -> str:
    if isinstance(item, Value):
        return item.text
    if isinstance(item, Constant):
        if item.kind not in _PLAIN:
            raise Unwritable(repr(item.value))
        return f"c{item.kind.__name__}:{item.value!r}"
    if isinstance(item, Size):
        return f"s{item.terms}"
    if isinstance(item, Named):
        return f"n:{item.fullname}"
    if isinstance(item, Like | DTypeOf):
        return f"{'l' if isinstance(item, Like) else 'd'}({_item(item.value)})"
    if isinstance(item, Group):
        return f"g{item.kind}{item.keys}({','.join(map(_item, item.items))})"
    if isinstance(item, Cut):
        return f"x({_item(item.start)}:{_item(item.stop)}:{_item(item.step)})"
    if isinstance(item, AnyInt):
        return "i"
    if isinstance(item, UnknownType | Window):
        raise Unknown
    raise Unwritable(repr(item))


def answer(outcome: Outcome | Refused) -> str:
    """An outcome as text; a type parameter by its name."""
    return json.dumps(_written(outcome))


def _written(outcome: Outcome | Refused) -> Any:
    if isinstance(outcome, Value):
        shape = None if outcome.shape is None else [None if s is None else _size(s) for s in outcome.shape]
        return ["value", outcome.dtype, shape, outcome.weak, outcome.parameter and outcome.parameter.name]
    if isinstance(outcome, Several):
        return ["several", outcome.kind, [_written(item) for item in outcome.items]]
    if isinstance(outcome, Refused):
        return ["refused", outcome.message, outcome.kind]
    return None


def _size(size: Size) -> Any:
    return [[[_atom(atom) for atom in monomial], count] for monomial, count in size.terms]


def _atom(atom: Atom) -> Any:
    return [_size(atom.numerator), _size(atom.denominator), atom.up] if isinstance(atom, Quotient) else atom


def read(text: str, parameters: Mapping[str, Any]) -> Outcome | Refused:
    """The outcome of a text; ``parameters`` are the type parameters of the call by name.

    Raises:
        ValueError, TypeError, KeyError: the text is no answer.
    """
    outcome: Outcome | Refused = _read(json.loads(text), parameters)
    return outcome


def _read(found: Any, parameters: Mapping[str, Any]) -> Any:
    if found is None:
        return None
    kind, *parts = found
    if kind == "refused":
        message, what = parts
        return Refused(message, what)
    if kind == "several":
        container, items = parts
        return Several(container, tuple(_read(item, parameters) for item in items))
    dtype, shape, weak, parameter = parts
    sizes = None if shape is None else tuple(None if size is None else _read_size(size) for size in shape)
    value = Value(dtype, sizes, weak=weak)
    return value if parameter is None else replace(value, parameter=parameters[parameter])


def _read_size(found: Any) -> Size:
    return Size(tuple((tuple(map(_read_atom, monomial)), count) for monomial, count in found))


def _read_atom(found: Any) -> Atom:
    return found if isinstance(found, str) else Quotient(_read_size(found[0]), _read_size(found[1]), found[2])
