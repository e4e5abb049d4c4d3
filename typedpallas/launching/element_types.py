"""Element types of a launch: what arrays have, what the kernel's annotations say, and type parameters between."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import jax.numpy as jnp

from typedpallas.dtypes import DType, from_jax_name
from typedpallas.launching.errors import LaunchError
from typedpallas.launching.signature import Signature


def bind(signature: Signature, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The element type of every kernel parameter that holds data, by the parameter's name.

    Raises:
        LaunchError: an array has another type than its annotation, two arrays disagree on a type parameter, a
            type is outside of its parameter's bound, or nothing fixes a type parameter.
    """
    kernel = signature.kernel.name
    found: dict[str, tuple[Any, str]] = {}
    for name, given in named.items():
        if name not in signature.kernel.dtypes:
            known = ", ".join(f"`{known}`" for known in signature.kernel.dtypes) or "none"
            raise LaunchError(f"`{kernel}` has no element type parameter `{name}` (it has {known})")
        found[name] = as_dtype(given), f"`dtypes={{'{name}': ...}}`"
    for slot, array in zip(signature.inputs, arrays, strict=True):
        _match(found, slot.ref.dtype, jnp.dtype(array.dtype), f"`{slot.name}` of `{kernel}`")
    for name, parameter in signature.kernel.dtypes.items():
        if name not in found:
            expected = f"`dtypes={{'{name}': ...}}`"
            raise LaunchError(f"nothing fixes element type `{name}` of `{kernel}`: expected {expected}")
        _check_bound(parameter, found[name][0], found[name][1])
    result = {}
    for parameter_ in signature.kernel.parameters:
        dtype = parameter_.type.dtype if parameter_.type is not None else None
        if isinstance(dtype, TypeVar):
            result[parameter_.name] = found[dtype.__name__][0]
        elif dtype is not None:
            result[parameter_.name] = jnp.dtype(dtype.jax_name)
    return result


def as_dtype(given: Any) -> Any:
    """A typedpallas marker, or anything that JAX takes for a dtype, as JAX's dtype."""
    return jnp.dtype(given.jax_name if isinstance(given, type) and issubclass(given, DType) else given)


def _shown(dtype: Any) -> str:
    marker = from_jax_name(jnp.dtype(dtype).name)
    return marker.__name__ if marker is not None else jnp.dtype(dtype).name


def _match(found: dict[str, tuple[Any, str]], annotated: Any, dtype: Any, where: str) -> None:
    if isinstance(annotated, TypeVar):
        earlier, origin = found.setdefault(annotated.__name__, (dtype, where))
        if earlier != dtype:
            raise LaunchError(
                f"element type `{annotated.__name__}`: expected one type, found {_shown(earlier)} by {origin} "
                f"and {_shown(dtype)} by {where}"
            )
    elif annotated is not None and jnp.dtype(annotated.jax_name) != dtype:
        raise LaunchError(f"{where}: expected an array of {annotated.__name__}, found {_shown(dtype)}")


def _check_bound(parameter: TypeVar, dtype: Any, origin: str) -> None:
    allowed = parameter.__constraints__ or (parameter.__bound__,)
    marker = from_jax_name(jnp.dtype(dtype).name)
    if marker is None or not any(isinstance(b, type) and issubclass(marker, b) for b in allowed):
        names = " or ".join(getattr(bound, "__name__", str(bound)) for bound in allowed)
        raise LaunchError(f"element type `{parameter.__name__}`: expected {names}, found {_shown(dtype)} ({origin})")
