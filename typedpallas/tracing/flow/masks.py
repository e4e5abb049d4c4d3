"""Whole numbers and truth values in arrays that follow from program ids: masks, positions.

A span is a pair of arrays, the least and the most that each element may be, both included; none where nothing is
known. Its arrays have the rank of what they describe, with 1 along every axis on which they are the same. They are
worked out only when something asks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow.numbers import Number
from typedpallas.tracing.flow.spans import ONE_BY_ONE, Array, Span

_MOST = 1 << 20
"""Elements; larger spans are not kept."""
_EXACT = {"float32": 1 << 24, "float64": 1 << 53, "float16": 1 << 11, "bfloat16": 1 << 8}
"""Whole numbers up to these are exact in an element type."""
_CALLS = frozenset(["jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call"])


type Made = Mapping[Any, Any]
"""The equation that makes each variable of a jaxpr."""
type Kind = Literal["memory", "truth", "padding", "nan"]
"""Unwritten memory; what a test says of padding; padding; padding that interpret modes fill with NaN."""


@dataclass(frozen=True)
class Facts:
    """What is known around an equation. ``which``: a select's condition, if one number; ``span`` reads operands."""

    made: Made
    which: Number = None
    kind: Kind = "memory"
    span: Callable[[Any], Span] = lambda _: None


@dataclass
class Scope:
    """The variables of a jaxpr. ``given``: spans of those that come from outside, or that are scalars."""

    made: Mapping[Any, Any]
    given: Callable[[Any], Span]
    memo: dict[Any, Span] = field(default_factory=dict)

    def of(self, atom: Any) -> Span:
        """What is known of an operand's elements."""
        if jaxapi.is_literal(atom):
            return exactly(np.asarray(atom.val))
        if atom not in self.memo:
            found = self.given(atom)
            if found is None and atom in self.made:
                found = self._from(self.made[atom], atom)
            self.memo[atom] = _any_truth(atom) if found is None else found
        return self.memo[atom]

    def _from(self, eqn: Any, atom: Any) -> Span:
        name = eqn.primitive.name
        if name in _CALLS:
            return self._called(eqn, atom)
        function = _SHAPED.get(name)
        if function is None and name not in ONE_BY_ONE:
            return None
        parts = [self.of(operand) for operand in eqn.invars]
        found = function(eqn, parts) if function is not None else _one_by_one(eqn, parts)
        return found if found is not None and _fits(found, eqn.outvars[0].aval) else None

    def _called(self, eqn: Any, atom: Any) -> Span:
        inner = next(iter(jaxapi.inner_jaxprs(eqn)), None)
        if inner is None or len(inner.invars) != len(eqn.invars) or len(inner.outvars) != len(eqn.outvars):
            return None
        outer = dict(zip(inner.invars, eqn.invars, strict=True))
        made = {var: made for made in inner.eqns for var in made.outvars}
        scope = Scope(made, lambda var: self.of(outer[var]) if var in outer else None)
        return scope.of(inner.outvars[eqn.outvars.index(atom)])


class Later:
    """A span that is worked out when it is first asked for."""

    def __init__(self, scope: Scope, atom: Any) -> None:
        self._scope, self._atom = scope, atom

    def get(self) -> Span:
        """The span."""
        return self._scope.of(self._atom)


def exactly(values: Array) -> Span:
    """Known values; none if they are no numbers that can be followed."""
    if values.dtype.kind in "iub":
        whole = values.astype(np.int64)
        return whole, whole
    return (values.astype(np.float64),) * 2 if values.dtype.kind == "f" and np.isfinite(values).all() else None


def of_number(number: Number) -> Span:
    """A scalar."""
    return None if number is None else (np.asarray(number[0]), np.asarray(number[1]))


def value(span: Span) -> int | None:
    """The one number that all elements are."""
    if span is None or span[0].size != 1 or span[0].reshape(-1)[0] != span[1].reshape(-1)[0]:
        return None
    return int(span[0].reshape(-1)[0])


def _any_truth(atom: Any) -> Span:
    if getattr(getattr(atom.aval, "dtype", None), "kind", "") != "b":
        return None
    one = (1,) * len(atom.aval.shape)
    return np.zeros(one, np.int64), np.ones(one, np.int64)


def _fits(span: tuple[Array, Array], aval: Any) -> bool:
    """Whether an element type holds these exactly: past the ends of whole numbers arithmetic wraps around."""
    low, high = span
    if max(low.size, high.size) > _MOST:
        return False
    dtype = aval.dtype
    if dtype.kind == "b":
        return True
    least, most = low.min(initial=0), high.max(initial=0)
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        first, last = (0, (1 << bits) - 1) if dtype.kind == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
        return bool(first <= least and most <= last)
    bound = _EXACT.get(str(dtype), 0)
    return bool(-bound <= least and most <= bound and (low % 1 == 0).all() and (high % 1 == 0).all())


def _one_by_one(eqn: Any, parts: Sequence[Span]) -> Span:
    if any(part is None for part in parts):
        return None
    return ONE_BY_ONE[eqn.primitive.name](*parts)


def _iota(eqn: Any, parts: Sequence[Span]) -> Span:
    shape = [1] * len(eqn.params["shape"])
    axis = eqn.params["dimension"]
    shape[axis] = eqn.params["shape"][axis]
    return exactly(np.arange(shape[axis]).reshape(shape))


def _not(eqn: Any, parts: Sequence[Span]) -> Span:
    (part,) = parts
    if part is None:
        return None
    one = 1 if eqn.outvars[0].aval.dtype.kind == "b" else -1
    return one - part[1], one - part[0]


def _converted(eqn: Any, parts: Sequence[Span]) -> Span:
    (part,) = parts
    if part is None or eqn.outvars[0].aval.dtype.kind != "b" or eqn.invars[0].aval.dtype.kind == "b":
        return part
    zero = np.zeros((1,) * part[0].ndim, np.int64)
    return ONE_BY_ONE["ne"](part, (zero, zero))


def _selected(eqn: Any, parts: Sequence[Span]) -> Span:
    which, *cases = parts
    if which is None or len(cases) != 2 or cases[0] is None or cases[1] is None:
        return None
    no, yes = cases[0], cases[1]
    rank = len(eqn.outvars[0].aval.shape)
    first, second = (part if part.ndim == rank else part.reshape((1,) * rank) for part in which)
    low = np.where(first >= 1, yes[0], np.where(second <= 0, no[0], np.minimum(no[0], yes[0])))
    return low, np.where(first >= 1, yes[1], np.where(second <= 0, no[1], np.maximum(no[1], yes[1])))


def _each(change: Callable[[Any, Array], Array | None]) -> Callable[[Any, Sequence[Span]], Span]:
    """An operation that moves elements of its first operand about."""

    def apply(eqn: Any, parts: Sequence[Span]) -> Span:
        if parts[0] is None:
            return None
        low, high = (change(eqn, part) for part in parts[0])
        return None if low is None or high is None else (low, high)

    return apply


def _broadcast(eqn: Any, part: Array) -> Array:
    sizes = [1] * len(eqn.outvars[0].aval.shape)
    for axis, size in zip(eqn.params["broadcast_dimensions"], part.shape, strict=True):
        sizes[axis] = size
    return part.reshape(sizes)


def _reshaped(eqn: Any, part: Array) -> Array | None:
    shape = eqn.outvars[0].aval.shape
    if part.size == 1:
        return part.reshape((1,) * len(shape))
    whole = eqn.invars[0].aval.shape
    if [size for size in whole if size != 1] == [size for size in shape if size != 1]:
        kept = iter([size for size, extent in zip(part.shape, whole, strict=True) if extent != 1])
        return part.reshape([1 if size == 1 else next(kept) for size in shape])
    return np.broadcast_to(part, whole).reshape(shape) if np.prod(shape) <= _MOST else None


def _transposed(eqn: Any, part: Array) -> Array:
    return part.transpose(eqn.params["permutation"])


def _sliced(eqn: Any, part: Array) -> Array:
    params = eqn.params
    steps = params["strides"] or (1,) * part.ndim
    bounds = zip(params["start_indices"], params["limit_indices"], steps, part.shape, strict=True)
    return part[tuple(slice(None) if size == 1 else slice(a, b, step) for a, b, step, size in bounds)]


_SHAPED: Mapping[str, Callable[[Any, Sequence[Span]], Span]] = {
    "iota": _iota,
    "not": _not,
    "convert_element_type": _converted,
    "select_n": _selected,
    "broadcast_in_dim": _each(_broadcast),
    "reshape": _each(_reshaped),
    "squeeze": _each(_reshaped),
    "expand_dims": _each(_reshaped),
    "transpose": _each(_transposed),
    "slice": _each(_sliced),
}
