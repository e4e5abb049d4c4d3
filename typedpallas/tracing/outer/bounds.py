"""What the elements of integer arrays around a kernel are sure to lie between, whatever the data.

Each array stands as the term of any one of its elements. Elementwise operations are those of the terms; what moves
elements about makes a new term within the same bounds.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from typedpallas.starts.terms import Leaf, Term, Terms
from typedpallas.tracing import jaxapi
from typedpallas.tracing.outer import scopes as outer_scopes
from typedpallas.tracing.outer.scopes import Scope
from typedpallas.tracing.outer.values import Values
from typedpallas.tracing.ranges import guarded as guarded_bounds
from typedpallas.tracing.ranges import numbers as ranges_numbers

type Ends = tuple[int, int]

_WORD = 4
_MOVES = frozenset(
    {
        *("broadcast_in_dim", "copy", "dynamic_slice", "expand_dims", "reshape", "rev", "sharding_constraint"),
        *("slice", "squeeze", "stop_gradient", "tile", "transpose", "unstack", "split", "reduce_max", "reduce_min"),
        *("cummax", "cummin", "reshard"),
    }
)
"""Operations whose results are elements of the first operand."""
_EXACT = frozenset({"convert_element_type", "and"})
"""Operations that mean the same on a word without a sign and on one with it."""


class Elements:
    """Terms of arrays' elements, each made once."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._terms = Terms()
        self._found: dict[tuple[int, Any], Term] = {}
        self._kept: list[Scope] = []

    def ends(self, scope: Scope, atom: Any) -> Ends:
        """The lowest and the highest that an element of an integer array may be."""
        return self._ends(self.of(scope, atom))

    def of(self, scope: Scope, atom: Any) -> Term:
        """The term of any element of an array."""
        if not jaxapi.is_literal(atom) and (id(scope), atom) in self._found:
            return self._found[id(scope), atom]
        term = self._known(scope, atom) or self._looked_up(scope, atom) or self._unknown(atom.aval)
        if not jaxapi.is_literal(atom):
            self._kept.append(scope)
            self._found[id(scope), atom] = term
        return term

    def _known(self, scope: Scope, atom: Any) -> Term | None:
        value = self._values.of(scope, atom)
        if value is None or value.dtype.kind not in "iub" or not value.size:
            return None
        return self._within(int(value.min()), int(value.max()))

    def _looked_up(self, scope: Scope, atom: Any) -> Term | None:
        if jaxapi.is_literal(atom) or not _is_word(atom.aval):
            return None
        if atom in scope.bound:
            outer = scope.bound[atom]
            found = self.of(outer.scope, outer.atom)
            return found if outer.part == "whole" else self._within(*self._ends(found))
        made = scope.made.get(atom)
        return None if made is None else self._result(scope, *made)

    def _result(self, scope: Scope, eqn: Any, number: int) -> Term | None:
        inside = outer_scopes.called(scope, eqn)
        if inside is not None:
            return self.of(inside, inside.jaxpr.outvars[number])
        name, first = eqn.primitive.name, eqn.invars[0] if eqn.invars else None
        if name in _SPECIAL:
            ends = _SPECIAL[name](self, scope, eqn, number)
            found = None if ends is None else self._within(*ends)
            return None if found is None or self._wraps(found, eqn.outvars[number]) else found
        if name in _MOVES and first is not None and _is_word(first.aval):
            found = self.of(scope, first)
            return found if first.aval.size == 1 else self._within(*self._ends(found))
        shapes = {getattr(atom.aval, "shape", None) for atom in eqn.invars if getattr(atom.aval, "size", 0) != 1}
        if len(eqn.outvars) != 1 or len(shapes) > 1 or not all(_is_word(atom.aval) for atom in eqn.invars):
            return None
        operands = [self.of(scope, atom) for atom in eqn.invars]
        if name not in _EXACT and any(self._wraps(t, a) for t, a in zip(operands, eqn.invars, strict=True)):
            return None
        found = ranges_numbers.elementwise(self._terms, eqn, operands)
        return None if found is None or self._wraps(found, eqn.outvars[0]) else found

    def _wraps(self, term: Term, atom: Any) -> bool:
        """Whether a value may leave its type, where that is not the word that terms are made for."""
        dtype = np.dtype(atom.aval.dtype)
        if dtype.kind == "b" or dtype == np.int32:
            return False
        low, high = self._ends(term)
        return low < np.iinfo(dtype).min or high > np.iinfo(dtype).max

    def _ends(self, term: Term) -> Ends:
        low, high = guarded_bounds.Bounds({}, {}).of(term)
        return int(np.min(low)), int(np.max(high))

    def _within(self, low: int, high: int) -> Term:
        return self._terms.const(low) if low == high else Term("leaf", leaf=Leaf("element", low, high))

    def _unknown(self, aval: Any) -> Term:
        dtype = np.dtype(aval.dtype) if _is_word(aval) else None
        if dtype is None or dtype == np.uint32:
            return Term("leaf", leaf=Leaf("element"))
        return self._within(*((0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))))

    def total(self, scope: Scope, atom: Any) -> Ends:
        """What the sum of any of an array's elements lies between."""
        size = math.prod(atom.aval.shape)
        value = self._values.of(scope, atom)
        if value is not None:
            wide = value.astype(np.int64)
            return int(wide[wide < 0].sum()), int(wide[wide > 0].sum())
        if not jaxapi.is_literal(atom) and atom in scope.bound and scope.bound[atom].part == "whole":
            return self.total(scope.bound[atom].scope, scope.bound[atom].atom)
        made = None if jaxapi.is_literal(atom) else scope.made.get(atom)
        inside = None if made is None else outer_scopes.called(scope, made[0])
        if made is not None and inside is not None:
            return self.total(inside, inside.jaxpr.outvars[made[1]])
        if made is not None and made[0].primitive.name in ("scatter-add", "scatter_add"):
            operand, _, updates = made[0].invars
            (a, b), (c, d) = self.total(scope, operand), self.total(scope, updates)
            return a + c, b + d
        low, high = self.ends(scope, atom)
        return min(low, 0) * size, max(high, 0) * size


def _is_word(aval: Any) -> bool:
    dtype = getattr(aval, "dtype", None)
    try:
        return np.dtype(dtype).kind in "iub" and np.dtype(dtype).itemsize <= _WORD
    except TypeError:
        return False


def _word(ends: Ends) -> Ends | None:
    """Bounds of a sum; none where it may not fit a word."""
    return ends if ends[0] >= guarded_bounds.LOWEST and ends[1] <= guarded_bounds.HIGHEST else None


def _joined(*ends: Ends) -> Ends:
    return min(low for low, _ in ends), max(high for _, high in ends)


def _together(elements: Elements, scope: Scope, eqn: Any, number: int) -> Ends:
    return _joined(*(elements.ends(scope, atom) for atom in eqn.invars))


def _iota(elements: Elements, scope: Scope, eqn: Any, number: int) -> Ends:
    return 0, max(eqn.params["shape"][eqn.params["dimension"]] - 1, 0)


def _sorted(elements: Elements, scope: Scope, eqn: Any, number: int) -> Ends:
    return elements.ends(scope, eqn.invars[number])


def _position(elements: Elements, scope: Scope, eqn: Any, number: int) -> Ends:
    return 0, max(eqn.invars[0].aval.shape[eqn.params["axes"][0]] - 1, 0)


def _best(elements: Elements, scope: Scope, eqn: Any, number: int) -> Ends | None:
    if number:
        return 0, max(eqn.invars[0].aval.shape[eqn.params.get("axis", -1)] - 1, 0)
    return elements.ends(scope, eqn.invars[0]) if _is_word(eqn.invars[0].aval) else None


def _summed(elements: Elements, scope: Scope, eqn: Any, number: int) -> Ends | None:
    """A sum of some elements."""
    return _word(elements.total(scope, eqn.invars[0]))


def _scattered(elements: Elements, scope: Scope, eqn: Any, number: int) -> Ends:
    return _joined(elements.ends(scope, eqn.invars[0]), elements.ends(scope, eqn.invars[2]))


def _added(elements: Elements, scope: Scope, eqn: Any, number: int) -> Ends | None:
    low, high = elements.ends(scope, eqn.invars[0])
    less, more = elements.total(scope, eqn.invars[2])
    return _word((low + less, high + more))


def _gathered(elements: Elements, scope: Scope, eqn: Any, number: int) -> Ends | None:
    """Elements of the operand; where others may be filled in, only if every index is in range."""
    operand, indices = eqn.invars
    found = elements.ends(scope, operand)
    if "FILL" not in str(eqn.params["mode"]):
        return found
    low, high = elements.ends(scope, indices)
    sizes = eqn.params["slice_sizes"]
    room = min((operand.aval.shape[d] - sizes[d] for d in eqn.params["dimension_numbers"].start_index_map), default=0)
    if low >= 0 and high <= room:
        return found
    fill = eqn.params["fill_value"]
    return None if fill is None else _joined(found, (int(fill), int(fill)))


def _branched(elements: Elements, scope: Scope, eqn: Any, number: int) -> Ends | None:
    inside = outer_scopes.branches(scope, eqn)
    if any(len(branch.jaxpr.outvars) != len(eqn.outvars) for branch in inside):
        return None
    return _joined(*(elements.ends(branch, branch.jaxpr.outvars[number]) for branch in inside))


_SPECIAL: Mapping[str, Callable[[Elements, Scope, Any, int], Ends | None]] = {
    "concatenate": _together,
    "stack": _together,
    "pad": _together,
    "iota": _iota,
    "sort": _sorted,
    "optimization_barrier": _sorted,
    "argmax": _position,
    "argmin": _position,
    "top_k": _best,
    "reduce_sum": _summed,
    "cumsum": _summed,
    "gather": _gathered,
    "scatter": _scattered,
    "scatter-add": _added,
    "scatter_add": _added,
    "cond": _branched,
    "dynamic_update_slice": lambda elements, scope, eqn, number: _joined(
        elements.ends(scope, eqn.invars[0]), elements.ends(scope, eqn.invars[1])
    ),
}
"""Bounds of operations that are neither elementwise nor mere moves."""
