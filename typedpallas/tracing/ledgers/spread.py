"""What a TPU kernel may put aside while it computes with rows and columns that are spread over a large block.

A chain of operations on elements needs no room, unless several of its operands are a row or a column spread over the
block: the compiler then keeps what it has spread, or computed with it, and runs out of registers. Measured against
libtpu 0.0.48.1 on v4, v5e and 7x, over one to six rows or columns, blocks of 64 to 1024 rows and 512 to 4096 lanes:
nothing to speak of with one, the block with three, up to 1.8 blocks and some of the spread columns beyond.
"""

from collections.abc import Callable, Iterator
from typing import Any

from typedpallas.tracing import jaxapi

_FEWEST = 2
"""Spread operands with which room was needed; a block of counted lanes or rows (``iota``) is one."""
_COLUMNS = 4
"""Rows or columns that were put aside at most, beside 1.75 blocks: in a gradient of a cross entropy."""


def most(jaxpr: Any, size: Callable[[Any], int], registers: int) -> int:
    """Bytes put aside at most; 0 where too little is spread, or a product's own room covers it.

    Args:
        jaxpr: the kernel's body.
        size: the bytes of a variable's value in whole tiles.
        registers: bytes of the chip's vector registers; smaller blocks stay in them.
    """
    eqns = list(_all(jaxpr))
    if any(eqn.primitive.name == "dot_general" for eqn in eqns):
        return 0
    pairs = [(atom, eqn.outvars[0]) for eqn in eqns if len(eqn.outvars) == 1 for atom in eqn.invars]
    large = [(row, whole) for row, whole in pairs if size(whole) >= registers and _is_spread(row, whole)]
    counted = sum(eqn.primitive.name == "iota" and size(eqn.outvars[0]) >= registers for eqn in eqns)
    if not large or len(large) + counted < _FEWEST:
        return 0
    return max(size(whole) for _, whole in large) * 7 // 4 + _COLUMNS * max(size(row) for row, _ in large)


def _is_spread(row: Any, whole: Any) -> bool:
    """Whether it is a row or a column; one number for all elements needs one register.

    Operations on elements spread axes of size 1 by themselves, as does ``broadcast_in_dim``.
    """
    if jaxapi.is_literal(row) or jaxapi.is_ref(row.aval):
        return False
    shape, full = jaxapi.shape_of(row.aval), jaxapi.shape_of(whole.aval)
    if not shape or not full or all(extent == 1 for extent in shape):
        return False
    return shape != full and (len(shape) < len(full) or all(a in (1, b) for a, b in zip(shape, full, strict=False)))


def _all(jaxpr: Any) -> Iterator[Any]:
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jaxapi.inner_jaxprs(eqn):
            yield from _all(inner)
