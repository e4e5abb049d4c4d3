"""What surrounds a kernel in its program: whether arrays come in and results go out as they are."""

import math
from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.walk import KernelCall

_WHOLE = (
    "add_any",
    "abs",
    "copy",
    "convert_element_type",
    "cos",
    "erf",
    "exp",
    "integer_pow",
    "log",
    "logistic",
    "neg",
    "reshape",
    "rsqrt",
    "sin",
    "sqrt",
    "square",
    "tanh",
    "transpose",
)
"""Functions of one array that keep every element of it."""
_CALLS = ("pjit", "jit", "closed_call", "custom_jvp_call", "custom_vjp_call")


def result_is_whole(kernel: KernelCall, output: int) -> bool | None:
    """Whether every element of a result reaches the program's results; false where nobody uses the result at all.

    None where that is not known: a caller that slices a padded result never sees what a kernel leaves out.
    """
    if not kernel.path:
        return None
    var = kernel.eqn.outvars[output]
    own = kernel.path[-1][0]
    if not any(atom is var for atom in (*own.outvars, *(atom for eqn in own.eqns for atom in eqn.invars))):
        return False
    for level in range(len(kernel.path) - 1, -1, -1):
        jaxpr = kernel.path[level][0]
        positions = _whole_in(jaxpr, var)
        if not positions:
            return None
        if level == 0:
            return True
        outer = kernel.path[level - 1][1]
        if outer.primitive.name not in _CALLS or len(positions) != 1 or len(outer.outvars) != len(jaxpr.outvars):
            return None
        var = outer.outvars[positions[0]]
    return None


def _whole_in(jaxpr: Any, var: Any) -> list[int] | None:
    """The results of a jaxpr that hold all of ``var``; none if it is used in any other way."""
    held = {var}
    for eqn in jaxpr.eqns:
        if any(not jaxapi.is_literal(atom) and atom in held for atom in eqn.invars):
            if eqn.primitive.name not in _WHOLE:
                return None
            held.update(eqn.outvars)
    return [i for i, atom in enumerate(jaxpr.outvars) if not jaxapi.is_literal(atom) and atom in held]


def is_argument(kernel: KernelCall, position: int) -> bool:
    """Whether an operand of the kernel's equation is an argument of the program, untouched."""
    if not kernel.path:
        return False
    atom = kernel.eqn.invars[position]
    for level in range(len(kernel.path) - 1, -1, -1):
        jaxpr = kernel.path[level][0]
        if jaxapi.is_literal(atom) or atom not in jaxpr.invars:
            return False
        if level == 0:
            return True
        outer = kernel.path[level - 1][1]
        if outer.primitive.name not in _CALLS or len(outer.invars) != len(jaxpr.invars):
            return False
        atom = outer.invars[jaxpr.invars.index(atom)]
    return False


def is_result(kernel: KernelCall, output: int) -> bool:
    """Whether a result of the kernel's equation is a result of the program, untouched and used nowhere else."""
    if not kernel.path:
        return False
    var = kernel.eqn.outvars[output]
    for level in range(len(kernel.path) - 1, -1, -1):
        jaxpr = kernel.path[level][0]
        if any(atom is var for eqn in jaxpr.eqns for atom in eqn.invars) or var not in jaxpr.outvars:
            return False
        if level == 0:
            return True
        outer = kernel.path[level - 1][1]
        if outer.primitive.name not in _CALLS or len(outer.outvars) != len(jaxpr.outvars):
            return False
        var = outer.outvars[jaxpr.outvars.index(var)]
    return False


_LITTLE = 1 << 16
"""Elements: work on less than this leaves no time to move anything meanwhile."""


def _size(aval: Any) -> int:
    """Elements of an array; none where its extents are not known, or it is no array."""
    return math.prod(extent or 0 for extent in jaxapi.shape_of(aval) or (0,))


def comes_first(kernel: KernelCall) -> bool:
    """Whether nothing of weight runs before a kernel, during which its operands could be moved."""
    for jaxpr, eqn in kernel.path:
        if eqn.primitive.name not in (*_CALLS, "pallas_call"):
            return False
        for earlier in jaxpr.eqns:
            if earlier is eqn:
                break
            if any(_size(atom.aval) > _LITTLE for atom in (*earlier.invars, *earlier.outvars)):
                return False
    return bool(kernel.path)
