"""What arrays around a kernel hold, where that follows from constants and from arguments that were given.

The common operations are done in numpy, which starts at once; JAX does the others, on this machine's CPU.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from typedpallas.tracing import jaxapi, outer_scopes
from typedpallas.tracing.outer_scopes import Scope

type Array = np.ndarray[Any, Any]

_MOST_ELEMENTS = 1 << 20
"""Larger arrays are no tables; nothing is worked out with them."""
_MOST_WORK = 1 << 24
"""Nor is a product or a loop of more steps than this, by the elements of its operands."""
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
        function = _FUNCTIONS.get(name)
        if (function is None and name not in _LEFT_TO_JAX) or eqn.effects:
            return None
        operands = []
        for atom in eqn.invars:
            operand = self.of(scope, atom)
            if operand is None:
                return None
            operands.append(operand)
        if function is not None:
            with np.errstate(all="ignore"):
                return _array(function(eqn.params, *operands), eqn.outvars[number].aval)
        if _work(eqn, operands) > _MOST_WORK:
            return None
        try:
            results = jaxapi.computed(eqn, operands)
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            return None  # no CPU to do it on, or nothing that runs outside of its program
        for var, result in zip(eqn.outvars, results, strict=True):
            self._found[(id(scope), var)] = _array(result, var.aval)
        return _array(results[number], eqn.outvars[number].aval)


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


def _divided(left: Array, right: Array) -> Array:
    if left.dtype.kind not in "iu":
        return np.asarray(left / right)
    safe = np.where(right == 0, 1, right)
    return np.asarray(np.sign(left) * np.sign(right) * (np.abs(left) // np.abs(safe)))


def _spread(params: Mapping[str, Any], operand: Array) -> Array:
    shape = [1] * len(params["shape"])
    for axis, size in zip(params["broadcast_dimensions"], operand.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(operand.reshape(shape), params["shape"])


def _sliced(params: Mapping[str, Any], operand: Array) -> Array:
    strides = params["strides"] or (1,) * operand.ndim
    parts = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return np.asarray(operand[tuple(slice(*part) for part in parts)])


def _chosen(params: Mapping[str, Any], which: Array, *cases: Array) -> Array:
    picked = cases[0].copy()
    for number, case in enumerate(cases):
        picked = np.where(which == number, case, picked)
    return picked


def _plain(function: Callable[..., Any]) -> Callable[..., Array]:
    def apply(params: Mapping[str, Any], *operands: Array) -> Array:
        return np.asarray(function(*operands))

    return apply


def _same(params: Mapping[str, Any], operand: Array, *rest: Array) -> Array:
    return operand


def _reshaped(params: Mapping[str, Any], operand: Array) -> Array:
    return operand.reshape(params["new_sizes"])


_FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "add": _plain(np.add),
    "sub": _plain(np.subtract),
    "mul": _plain(np.multiply),
    "div": _plain(_divided),
    "rem": _plain(np.fmod),
    "neg": _plain(np.negative),
    "abs": _plain(np.abs),
    "sign": _plain(np.sign),
    "max": _plain(np.maximum),
    "min": _plain(np.minimum),
    "eq": _plain(np.equal),
    "ne": _plain(np.not_equal),
    "lt": _plain(np.less),
    "le": _plain(np.less_equal),
    "gt": _plain(np.greater),
    "ge": _plain(np.greater_equal),
    "and": _plain(np.bitwise_and),
    "or": _plain(np.bitwise_or),
    "xor": _plain(np.bitwise_xor),
    "not": _plain(np.invert),
    "select_n": _chosen,
    "convert_element_type": _same,
    "copy": _same,
    "stop_gradient": _same,
    "sharding_constraint": _same,
    "reshard": _same,
    "reshape": _reshaped,
    "squeeze": lambda params, operand: np.squeeze(operand, axis=tuple(params["dimensions"])),
    "expand_dims": lambda params, operand: np.expand_dims(operand, tuple(params["dimensions"])),
    "transpose": lambda params, operand: np.transpose(operand, params["permutation"]),
    "broadcast_in_dim": _spread,
    "slice": _sliced,
}
"""In numpy, from the equation's parameters and its operands; the result's type is the equation's."""
