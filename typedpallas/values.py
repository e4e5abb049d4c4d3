"""What a value is at run time, in the words of annotations: ref or array, memory space, element type, shape.

Reads JAX's tracers, arrays, refs and views of refs, `jax.ShapeDtypeStruct`s and NumPy arrays.
"""

from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np

from typedpallas import dtypes, spaces, tpu
from typedpallas.spaces import BLOCK, MemorySpace, Portable
from typedpallas.tracing import jaxapi

type Kind = Literal["ref", "value", "either"]


@dataclass(frozen=True)
class Value:
    """``space`` is none where it is unknown; ``dtype`` is JAX's name; ``shape`` in elements."""

    kind: Kind
    space: type[MemorySpace] | None
    dtype: str
    shape: tuple[Any, ...]

    def __str__(self) -> str:
        shown = f"{dtypes.short(self.dtype)}[{', '.join(map(str, self.shape))}]"
        if self.kind != "ref":
            return f"a value {shown}"
        return f"a ref {shown}" + (f" in `{spaces.name(self.space)}`" if self.space else "")


def read(value: Any) -> Value | None:
    """What ``value`` is, or none if it is neither a ref nor an array."""
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        return None
    base = value
    while hasattr(base, "ref") and hasattr(base, "transforms"):  # a view of a ref
        base = base.ref
    dtype, shape = str(getattr(value.dtype, "name", value.dtype)), tuple(value.shape)
    if base is not value or _is_ref_type(getattr(base, "aval", None)):
        aval = getattr(base, "aval", None)
        return Value("ref", None if aval is None else jaxapi.space_of(aval, None), dtype, shape)
    known = isinstance(value, jax.Array | jax.ShapeDtypeStruct | np.ndarray | np.generic)
    return Value("value" if known else "either", None, dtype, shape)


def _is_ref_type(aval: Any) -> bool:
    return isinstance(aval, jax.ref.AbstractRef)


def fits_space(declared: type[MemorySpace], found: type[MemorySpace] | None) -> bool:
    """Whether a ref in ``found`` may be passed where ``declared`` is wanted; true where that is unknown.

    `BLOCK` is found where Pallas says "default": on a TPU that is VMEM, on a GPU what the backend picks.
    """
    if found is None or issubclass(found, declared):
        return True
    if found is BLOCK:
        return declared.machine != "tpu" or issubclass(tpu.VMEM, declared)
    if issubclass(declared, Portable):
        return found.data and (found.loads == "vector" or found.machine == "gpu")
    return {declared, found} == {tpu.HBM, tpu.ANY}
