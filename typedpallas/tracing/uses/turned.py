"""Values that would have to be turned: from columns, where their last axis lies across rows of registers, to lanes.

The last axis of a value lies along the lanes of the vector registers, unless it was the last but one before: a sum
over lanes, or a column taken of a block, leaves it across the rows. Operations on elements keep it there, and bring
what lies along lanes to it. A store, a sum over that axis, or an axis in front of it need it along lanes again.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from typedpallas.events import Turned
from typedpallas.tracing import jaxapi
from typedpallas.tracing.grid import indices as grid_indices
from typedpallas.tracing.located import Located
from typedpallas.tracing.uses import data as uses_data
from typedpallas.tracing.walk import KernelCall

type Lies = Literal["lanes", "column", "anyhow"] | None
"""How the last axis lies; ``anyhow`` where all elements are one number, none where that is not known."""

_REDUCTIONS = frozenset({"reduce_sum", "reduce_max", "reduce_min", "reduce_or", "reduce_and", "argmax", "argmin"})
_ON_ELEMENTS = frozenset(
    {
        *("add", "sub", "mul", "div", "max", "min", "neg", "abs", "exp", "exp2", "log", "tanh", "logistic", "sign"),
        *("sqrt", "rsqrt", "integer_pow", "convert_element_type", "select_n", "square", "floor", "clamp"),
        *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "xor", "stop_gradient", "copy", "log1p", "expm1"),
    }
)
_CALLS = frozenset({"pjit", "jit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint"})
_ROUNDS = 3
"""Walks through a loop's body until what it carries lies the same at its start and its end."""


def events(kernel: KernelCall) -> Iterator[Located]:
    """One event for each operation that needs a value turned."""
    if kernel.backend == "mosaic_tpu":
        yield from _Walk(kernel).run()


class _Walk:
    """A walk through a kernel's body, and what was found on it."""

    def __init__(self, kernel: KernelCall) -> None:
        self._kernel = kernel
        self._found: list[Located] = []
        self._same: dict[Any, Any] = {}
        """The variables outside that parameters of a call stand for."""

    def run(self) -> list[Located]:
        """What is found in the kernel's body."""
        self._body(self._kernel.jaxpr, {})
        return list(dict.fromkeys(self._found))

    def _body(self, jaxpr: Any, lies: dict[Any, Lies]) -> list[Lies]:
        """How the results of a body lie."""
        for eqn in uses_data.needed(jaxpr):
            lies.update(zip(eqn.outvars, self._results(eqn, lies), strict=False))
        return [_of(atom, lies) for atom in jaxpr.outvars]

    def _results(self, eqn: Any, lies: dict[Any, Lies]) -> Sequence[Lies]:
        name = eqn.primitive.name
        if name in _ON_ELEMENTS:
            return (self._of_elements(eqn, lies),)
        if name in _REDUCTIONS:
            return (self._reduced(eqn, lies),)
        if name in ("broadcast_in_dim", "reshape", "squeeze", "expand_dims"):
            return (self._reshaped(eqn, lies),)
        if name == "iota":
            return ("lanes",)
        if name == "get":
            return (_loaded(eqn),)
        if name == "dot_general" and _is_vector(eqn):
            return ("column",)
        if name == "slice":
            return ("lanes" if _of(eqn.invars[0], lies) == "lanes" else None,)
        if name in ("swap", "addupdate"):
            self._stored(eqn, lies)
            return ()
        return self._inside(eqn, lies)

    def _inside(self, eqn: Any, lies: dict[Any, Lies]) -> Sequence[Lies]:
        """Calls, branches and loops; of anything else nothing is known."""
        name = eqn.primitive.name
        inner = list(jaxapi.inner_jaxprs(eqn))
        given = [_of(atom, lies) for atom in eqn.invars]
        if name in _CALLS and len(inner) == 1 and len(inner[0].invars) == len(given):
            pairs = zip(inner[0].invars, eqn.invars, strict=True)
            self._same |= {own: self._same.get(a, a) for own, a in pairs if not jaxapi.is_literal(a)}
            return self._body(inner[0], dict(zip(inner[0].invars, given, strict=True)))
        if name == "cond":
            made = [self._body(one, dict(zip(one.invars, given[1:], strict=False))) for one in inner]
            return [way[0] if len(set(way)) == 1 else None for way in zip(*made, strict=True)]
        if name == "scan" and len(inner) == 1:
            return self._scanned(eqn, inner[0], given)
        for one in inner:
            self._body(one, {})
        return ()

    def _scanned(self, eqn: Any, inner: Any, given: list[Lies]) -> Sequence[Lies]:
        first, count = jaxapi.scan_counts(eqn)
        carried = given[first : first + count]
        seen = len(self._found)
        for _ in range(_ROUNDS):
            del self._found[seen:]
            made = self._body(inner, dict(zip(inner.invars, [*given[:first], *carried], strict=False)))[:count]
            if made == carried:
                return carried
            carried = [_joined(old, new) for old, new in zip(carried, made, strict=True)]
        del self._found[seen:]
        return ()

    def _of_elements(self, eqn: Any, lies: dict[Any, Lies]) -> Lies:
        given = eqn.invars[1:] if eqn.primitive.name == "select_n" else eqn.invars
        if self._are_one(given):
            return _of(given[0], lies)  # compilers see that nothing is chosen
        long = [atom for atom in eqn.invars if _is_long(atom)]
        ways = [_of(atom, lies) for atom in long]
        if "column" not in ways:
            return None if None in ways else "lanes" if "lanes" in ways else "anyhow"
        masks = [way for atom, way in zip(long, ways, strict=True) if jaxapi.dtype_name(atom.aval) == "bool"]
        if eqn.primitive.name == "select_n" and masks and masks[0] == "lanes":
            self._turned(eqn, long[ways.index("column")], "column")
            return None
        return None if None in ways or "lanes" in masks else "column"

    def _are_one(self, atoms: Sequence[Any]) -> bool:
        if len(atoms) < 2 or any(jaxapi.is_literal(atom) for atom in atoms):
            return False
        return len({self._same.get(atom, atom) for atom in atoms}) == 1

    def _reduced(self, eqn: Any, lies: dict[Any, Lies]) -> Lies:
        atom, axes = eqn.invars[0], eqn.params["axes"]
        last = len(_shape(atom)) - 1
        way = _of(atom, lies)
        if way == "column" and last in axes:
            self._turned(eqn, atom, "column")
            return None
        if way != "lanes" or last not in axes:
            return way
        return None if last - 1 in axes else "column"

    def _reshaped(self, eqn: Any, lies: dict[Any, Lies]) -> Lies:
        """Axes of size 1 that come and go, rows and columns that are spread; of other reshapes nothing is said."""
        atom, made = eqn.invars[0], eqn.outvars[0]
        way = _of(atom, lies)
        moved = _moved(eqn, _shape(atom), _shape(made))
        if moved is None or way in (None, "anyhow"):
            return None if moved is None else way
        before, after = len(_shape(atom)) - 1, len(_shape(made)) - 1
        if not _is_long(atom):
            return "column" if _is_long(made) and moved.get(before - 1) == after else "lanes"
        if way == "column":
            if moved[before] == after:
                self._turned(eqn, atom, "column")
            return "lanes" if moved[before] == after - 1 else None
        if moved[before] < after and jaxapi.dtype_name(atom.aval) == "bool":
            self._turned(eqn, atom, "mask")
            return None
        return "lanes"

    def _stored(self, eqn: Any, lies: dict[Any, Lies]) -> None:
        value = jaxapi.accessed(eqn)[1]
        if value is None or not _is_long(value) or _of(value, lies) != "column":
            return
        index = grid_indices.rectangle(eqn)
        if index is not None and index[-1][1] == _shape(value)[-1]:
            self._turned(eqn, value, "column")

    def _turned(self, eqn: Any, atom: Any, what: Literal["column", "mask"]) -> None:
        shape = tuple(int(extent) for extent in _shape(atom))
        event = Turned(primitive=eqn.primitive.name, what=what, dtype=jaxapi.dtype_name(atom.aval) or "", shape=shape)
        self._found.append(Located(event, jaxapi.place(eqn), self._kernel.name))


def _shape(atom: Any) -> tuple[int, ...]:
    """In elements; empty for one number, and where an extent is not known."""
    shape = None if jaxapi.is_literal(atom) or jaxapi.is_ref(atom.aval) else jaxapi.shape_of(atom.aval)
    return tuple(extent or 0 for extent in shape) if shape is not None and None not in shape else ()


def _is_long(atom: Any) -> bool:
    """Whether its last axis has more than one element, so that it matters how it lies."""
    return _shape(atom)[-1:] > (1,)


def _of(atom: Any, lies: dict[Any, Lies]) -> Lies:
    if not any(extent > 1 for extent in _shape(atom)):
        return "anyhow"
    return lies.get(atom) if _is_long(atom) else "lanes"


def _joined(old: Lies, new: Lies) -> Lies:
    """How a value lies that starts as one and goes on as the other."""
    return new if old in ("anyhow", new) else old if new == "anyhow" else None


def _moved(eqn: Any, before: tuple[int, ...], after: tuple[int, ...]) -> dict[int, int] | None:
    """Where each axis goes; axes of size 1 are left out where they go, none where elements change their order."""
    if eqn.primitive.name == "broadcast_in_dim":
        return dict(enumerate(eqn.params["broadcast_dimensions"]))
    froms = [axis for axis, extent in enumerate(before) if extent != 1]
    tos = [axis for axis, extent in enumerate(after) if extent != 1]
    if [before[axis] for axis in froms] != [after[axis] for axis in tos]:
        return None
    return dict(zip(froms, tos, strict=True))


def _loaded(eqn: Any) -> Lies:
    index, shape = grid_indices.rectangle(eqn), _shape(eqn.outvars[0])
    if index is None or not shape:
        return None
    sizes = [size for _, size in index]
    if sizes[-1] == shape[-1]:
        return "lanes"
    return "column" if sizes[-1] == 1 and sizes[-2:-1] == [shape[-1]] else None


def _is_vector(eqn: Any) -> bool:
    """Whether a matrix is multiplied by a vector, which sums over lanes."""
    ((left, right), batch) = eqn.params["dimension_numbers"]
    ranks = [len(_shape(atom)) for atom in eqn.invars]
    return ranks == [2, 1] and tuple(left) == (1,) and tuple(right) == (0,) and batch == ((), ())
