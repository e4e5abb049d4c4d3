"""What arrays around a kernel hold, where that follows from constants and from arguments that were given.

The common operations are done in numpy, which starts at once; JAX does the others, on this machine's CPU.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from typedpallas.tracing import jaxapi
from typedpallas.tracing.outer import operations as outer_numpy
from typedpallas.tracing.outer import scopes as outer_scopes
from typedpallas.tracing.outer.scopes import Scope

type Array = np.ndarray[Any, Any]

_MOST_ELEMENTS = 1 << 20
"""Larger arrays are no tables; nothing is worked out with them."""
_MOST_WORK = 1 << 24
"""Nor is a product or a loop of more steps than this, by the elements of its operands."""
_MOST_TURNS = 64
"""Longer loops are left to JAX."""
_LEFT_TO_JAX = frozenset(
    {
        *("argmax", "argmin", "argsort", "bitcast_convert_type", "clamp", "concatenate", "cumlogsumexp", "cummax"),
        *("cummin", "cumprod", "cumsum", "dot_general", "dynamic_slice", "dynamic_update_slice", "floor", "gather"),
        *(
            "ceil",
            "round",
            "iota",
            "pad",
            "pow",
            "integer_pow",
            "reduce_and",
            "reduce_max",
            "reduce_min",
            "reduce_or",
        ),
        *("reduce_prod", "reduce_sum", "rev", "scatter", "scatter-add", "scatter-max", "scatter-min", "scatter_add"),
        *(
            "shift_left",
            "shift_right_arithmetic",
            "shift_right_logical",
            "sort",
            "split",
            "stack",
            "top_k",
            "unstack",
        ),
        *("population_count", "clz", "is_finite", "exp2", "exp", "log", "sqrt", "square", "tile", "scan"),
        *("nextafter", "le_to", "lt_to", "eq_to", "reduce_xor", "scatter-mul", "scatter_mul", "scatter_max"),
        *("scatter_min", "cond"),
    }
)


class Values:
    """The contents of variables, each worked out once."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, Any], Array | None] = {}
        self._kept: list[Scope] = []
        self.used: set[Any] = set()
        """The variables whose contents were taken as known."""

    def of(self, scope: Scope, atom: Any) -> Array | None:
        """The array that an operand stands for in a scope; none where that is not known."""
        if jaxapi.is_literal(atom):
            return _array(atom.val, atom.aval)
        key = (id(scope), atom)
        if key not in self._found:
            self._kept.append(scope)
            self._found[key] = self._looked_up(scope, atom) if _is_small(atom.aval) else None
        return self._found[key]

    def _looked_up(self, scope: Scope, atom: Any) -> Array | None:
        if atom in scope.known:
            self.used.add(atom)
            return _array(scope.known[atom], atom.aval)
        if atom in scope.bound:
            outer = scope.bound[atom]
            return self.of(outer.scope, outer.atom) if outer.part == "whole" else None
        made = scope.made.get(atom)
        return None if made is None else self._result(scope, *made)

    def _result(self, scope: Scope, eqn: Any, number: int) -> Array | None:
        inside = outer_scopes.called(scope, eqn)
        if inside is not None:
            return self.of(inside, inside.jaxpr.outvars[number])
        name = eqn.primitive.name
        if name == "optimization_barrier":
            return self.of(scope, eqn.invars[number])
        function = outer_numpy.FUNCTIONS.get(name)
        if (function is None and name not in _LEFT_TO_JAX and name != "unstack") or eqn.effects:
            return None
        operands = []
        for atom in eqn.invars:
            operand = self.of(scope, atom)
            if operand is None:
                return None
            operands.append(operand)
        results = _results(eqn, operands)
        if results is None:
            return None
        for var, result in zip(eqn.outvars, results, strict=True):
            self._found[(id(scope), var)] = result
        return results[number]


def _results(eqn: Any, operands: Sequence[Array]) -> list[Array | None] | None:
    """What an equation makes of these arrays; none where that is not worked out."""
    name = eqn.primitive.name
    with np.errstate(all="ignore"):
        if name in outer_numpy.FUNCTIONS:
            result = outer_numpy.FUNCTIONS[name](eqn.params, *operands)
            if result is not None:
                return [_array(result, eqn.outvars[0].aval)]
        if name == "unstack":
            parts = np.moveaxis(operands[0], eqn.params["axis"], 0)
            return [_array(part, var.aval) for part, var in zip(parts, eqn.outvars, strict=True)]
        if name == "scan":
            found = _looped(eqn, operands)
            if found is not None:
                return found
    if name not in _LEFT_TO_JAX or _work(eqn, operands) > _MOST_WORK:
        return None
    try:
        results = jaxapi.computed(eqn, operands)
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return None  # no CPU to do it on, or nothing that runs outside of its program
    return [_array(result, var.aval) for result, var in zip(results, eqn.outvars, strict=True)]


def _looped(eqn: Any, operands: Sequence[Array]) -> list[Array | None] | None:
    """The results of a short loop that only carries something, such as a search."""
    fixed, carried = jaxapi.scan_counts(eqn)
    if len(operands) != fixed + carried or len(eqn.outvars) != carried or eqn.params["length"] > _MOST_TURNS:
        return None
    inner = next(iter(jaxapi.inner_jaxprs(eqn)))
    known = jaxapi.constants_inside(eqn)
    state: list[Array | None] = list(operands[fixed:])
    for _ in range(eqn.params["length"]):
        values = Values()
        scope = Scope(inner, known | dict(zip(inner.invars, [*operands[:fixed], *state], strict=True)))
        state = [values.of(scope, atom) for atom in inner.outvars]
        if any(value is None for value in state):
            return None
    return state


def _work(eqn: Any, operands: Sequence[Array]) -> int:
    """About how many steps an equation takes."""
    if eqn.primitive.name == "scan":
        return int(eqn.params["length"] * sum(operand.size for operand in operands))
    if eqn.primitive.name == "dot_general":
        return math.prod(operand.size for operand in operands)
    return sum(operand.size for operand in operands)


def _is_small(aval: Any) -> bool:
    shape = jaxapi.shape_of(aval)
    return shape is not None and None not in shape and math.prod(d or 0 for d in shape) <= _MOST_ELEMENTS


def _array(value: Any, aval: Any) -> Array | None:
    if not _is_small(aval) or jaxapi.concrete(value) is None:
        return None
    return np.asarray(value, dtype=aval.dtype)
