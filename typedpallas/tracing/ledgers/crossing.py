"""What has to be kept while a TPU kernel reduces, multiplies or moves values.

Operations on elements pass over a value tile by tile, so a chain of them holds one tile at a time. What is needed
again after a reduction, a product or a move has to wait for it as a whole, and a product's or a move's own result may
be whole before anything uses it. Values that have nothing to do with each other may be under way together, but for
loops and branches, which come one after another. A product passes over what waits for it, as the gradients of
attention show, and both take little more than the larger.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from typedpallas.tracing import jaxapi

_LOADED = frozenset({"get", "masked_load", "iota", "program_id", "num_programs"})
_SPREAD = frozenset({"broadcast_in_dim", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "xor"})
"""Cheap to do again wherever the result is needed."""
_KEPT_FORM = frozenset({"convert_element_type", "squeeze", "expand_dims", "reshape"})
_REDUCING = frozenset(
    {
        *("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "argmax", "argmin"),
        *("cumsum", "cummax", "cummin", "cumprod", "cumlogsumexp", "sort"),
    }
)
_MOVING = frozenset(
    {
        *("transpose", "concatenate", "roll", "gather", "dynamic_slice", "slice", "rev", "split", "pad", "reshape"),
        *("bitcast_convert_type", "bitcast", "unstack", "stack", "unpack_elementwise", "pack_elementwise"),
    }
)
_BARRIERS = _REDUCING | _MOVING | {"dot_general"}
_FLOW = frozenset({"scan", "while", "cond"})


def barriers(jaxpr: Any) -> int:
    """Reductions, products and moves in a body, with what it calls but without its loops and branches, at most."""
    own, most_inside = 0, 0
    for eqn in jaxpr.eqns:
        inner = [barriers(opened) for opened in jaxapi.inner_jaxprs(eqn)]
        if eqn.primitive.name in _FLOW:
            most_inside = max(most_inside, *inner, 0)
        else:
            own += sum(inner) + (eqn.primitive.name in _BARRIERS)
    return max(own, most_inside)


def stands_up(jaxpr: Any) -> bool:
    """Whether a body makes a column of a computed row: what is computed of large values then may wait for it."""
    body = jaxapi.open_jaxpr(jaxpr)
    loaded: set[Any] = set()
    rows: set[Any] = set()
    for eqn in body.eqns:
        name = eqn.primitive.name
        if name in _LOADED or (name in _KEPT_FORM and loaded.issuperset(_variables(eqn.invars))):
            loaded.update(eqn.outvars)
        elif name not in _REDUCING and all(len(_shape(var)) == 1 for var in eqn.outvars):
            rows.update(eqn.outvars)
    return any(
        (eqn.primitive.name == "broadcast_in_dim" and _is_column(eqn) and not rows.isdisjoint(_variables(eqn.invars)))
        or any(stands_up(inner) for inner in jaxapi.inner_jaxprs(eqn))
        for eqn in body.eqns
    )


def _is_column(eqn: Any) -> bool:
    return tuple(eqn.params["broadcast_dimensions"]) != (len(_shape(eqn.outvars[0])) - 1,)


def most(jaxpr: Any, size: Any) -> int:
    """Bytes of what waits at one time, at most. ``size``: the bytes of a variable's value in whole tiles."""
    body = _Body(jaxapi.open_jaxpr(jaxpr), size)
    flow, chains = 0, dict[int, int]()
    for step, eqn in enumerate(body.eqns):
        own = body.own(eqn)
        if own is None:
            continue
        chain = body.chain(eqn)
        if eqn.primitive.name in _FLOW:
            flow = max(flow, own + body.over(step))
        else:
            over = body.over(step, chain)
            both = max(own, over) + min(own, over) // 4 if eqn.primitive.name == "dot_general" else own + over
            chains[chain] = max(chains.get(chain, 0), both)
    return max(flow, sum(chains.values()))


class _Body:
    """A jaxpr whose values are sorted into chains: those that are made of each other."""

    def __init__(self, jaxpr: Any, size: Any) -> None:
        """``size`` as in `most`."""
        self.eqns = jaxpr.eqns
        self._size = size
        self._made = {var: step for step, eqn in enumerate(self.eqns) for var in eqn.outvars}
        self._last = {atom: step for step, eqn in enumerate(self.eqns) for atom in _variables(eqn.invars)}
        self._last |= {atom: len(self.eqns) for atom in _variables(jaxpr.outvars)}
        self._uses = Counter(atom for eqn in self.eqns for atom in set(_variables(eqn.invars)))
        self._cheap: set[Any] = set()
        self._parents: dict[Any, Any] = {}
        for eqn in self.eqns:
            if self._is_cheap(eqn):
                self._cheap.update(eqn.outvars)
        self._sizes = {var: found for var in self._last if (found := self._bytes(var))}
        for eqn in self.eqns:
            self._join([var for var in (*_variables(eqn.invars), *eqn.outvars) if var in self._sizes])

    def own(self, eqn: Any) -> int | None:
        """What an equation itself may hold as a whole; none if it passes over its operands tile by tile."""
        name = eqn.primitive.name
        inner = [most(jaxpr, self._size) for jaxpr in jaxapi.inner_jaxprs(eqn)]
        if inner:
            return max(inner) * (int(eqn.params["unroll"]) if name == "scan" else 1)
        if name == "dot_general" or name in _MOVING:
            return sum(self._sizes.get(var, 0) for var in eqn.outvars)
        return 0 if name in _REDUCING else None

    def over(self, step: int, chain: int | None = None) -> int:
        """Bytes made before an equation and used after it: of one chain, or of all."""
        return sum(
            size
            for var, size in self._sizes.items()
            if self._made.get(var, -1) < step < self._last[var] and chain in (None, self._chain(var))
        )

    def chain(self, eqn: Any) -> int:
        """The chain that an equation belongs to."""
        own = [var for var in (*_variables(eqn.invars), *eqn.outvars) if var in self._sizes]
        return self._chain(own[0]) if own else id(eqn)

    def _is_cheap(self, eqn: Any) -> bool:
        name = eqn.primitive.name
        if name in _LOADED or name in _SPREAD:
            return True
        if name not in _KEPT_FORM or not all(atom in self._cheap for atom in _variables(eqn.invars)):
            return False
        return name != "convert_element_type" or self._uses[eqn.outvars[0]] < 2  # what many need is converted once

    def _bytes(self, var: Any) -> int:
        return 0 if var in self._cheap or jaxapi.dtype_name(var.aval) == "bool" else int(self._size(var))

    def _chain(self, var: Any) -> int:
        while (parent := self._parents.get(var, var)) is not var:
            var = parent
        return id(var)

    def _join(self, together: list[Any]) -> None:
        roots = []
        for var in together:
            while (parent := self._parents.get(var, var)) is not var:
                var = parent
            roots.append(var)
        for root in roots[1:]:
            if root is not roots[0]:
                self._parents[root] = roots[0]


def _shape(var: Any) -> tuple[int | None, ...]:
    return jaxapi.shape_of(var.aval) or ()


def _variables(atoms: Iterable[Any]) -> Iterator[Any]:
    return (atom for atom in atoms if not jaxapi.is_literal(atom))
