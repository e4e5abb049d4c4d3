"""What an access of a kernel's body indexes: start and size along each axis."""

from collections.abc import Mapping, Sequence
from typing import Any

from typedpallas.tracing import jaxapi


def is_vector(atom: Any) -> bool:
    """Whether it has one axis."""
    return len(getattr(getattr(atom, "aval", None), "shape", ())) == 1


def is_masked(eqn: Any) -> bool:
    """Whether an access has a mask, and so may take less than its index says."""
    if "args_tree" not in eqn.params:
        return False
    parts = eqn.params["args_tree"].unflatten(eqn.invars)
    return parts[3 if eqn.primitive.name == "masked_swap" else 2] is not None


def _transforms(eqn: Any) -> Any:
    if "args_tree" in eqn.params:
        return eqn.params["args_tree"].unflatten(eqn.invars)[1]
    first = {"get": 1, "swap": 2, "addupdate": 2}[eqn.primitive.name]
    return eqn.params["tree"].unflatten(eqn.invars[first:])


def indexed(eqn: Any, runs: Mapping[Any, Any]) -> list[tuple[Any, int]] | None:
    """As `rectangle`, of masked accesses too, and by one vector of elements that follow each other.

    ``runs`` has the vectors that are known to be such.
    """
    transforms = _transforms(eqn)
    if len(transforms) == 1 and hasattr(transforms[0], "indices"):
        index = transforms[0].indices
        if len(index) == 1 and is_vector(index[0]) and index[0] in runs:
            return [(index[0], index[0].aval.shape[0])]
    return _of_transforms(transforms, eqn)


def rectangle(eqn: Any) -> list[tuple[Any, int]] | None:
    """Start and size along each axis of an unmasked access; none where it is no plain rectangle."""
    return None if is_masked(eqn) else _of_transforms(_transforms(eqn), eqn)


def _of_transforms(transforms: Any, eqn: Any) -> list[tuple[Any, int]] | None:
    if not transforms:
        return [(0, extent) for extent in jaxapi.accessed(eqn)[0].aval.shape]
    if len(transforms) != 1 or not hasattr(transforms[0], "indices"):
        return None
    return _plain(transforms[0].indices)


def _plain(indices: Sequence[Any]) -> list[tuple[Any, int]] | None:
    found: list[tuple[Any, int]] = []
    for index in indices:
        if hasattr(index, "start"):
            if index.stride != 1 or not isinstance(index.size, int):
                return None
            found.append((index.start, index.size))
        elif isinstance(index, int) or getattr(getattr(index, "aval", None), "shape", None) == ():
            found.append((index, 1))
        else:
            return None
    return found
