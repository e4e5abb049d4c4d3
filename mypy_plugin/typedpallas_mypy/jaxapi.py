"""Every use of JAX in the plugin. It is imported once, when a kernel is really checked, and on the CPU alone."""

from __future__ import annotations

import functools
import importlib
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

_PUBLIC = ("jax.numpy", "jax.lax", "jax.nn", "jax.numpy.linalg", "jax.numpy.fft", "jax.scipy.special")


@functools.cache
def jax() -> Any:
    """The `jax` module, or none if it can't be imported: then everything is open."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    try:
        module = importlib.import_module("jax")
        for name in ("jax.numpy", "jax.export", *_PUBLIC):
            importlib.import_module(name)
    except Exception:
        return None
    return module


@functools.cache
def resolve(fullname: str) -> Any:
    """The object of this full name, found by importing as much of it as is a module; none if there is none."""
    if jax() is None:
        return None
    parts = fullname.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part, None)
        return found
    return None


@functools.cache
def _public() -> frozenset[int]:
    """The identities of everything that the public modules offer."""
    modules = [importlib.import_module(name) for name in _PUBLIC]
    return frozenset(id(value) for module in modules for value in vars(module).values() if callable(value))


def public_function(fullname: str) -> Callable[..., Any] | None:
    """The function of `jax.numpy`, `jax.lax`, `jax.nn` and their like that mypy calls by this name."""
    found = resolve(fullname)
    return found if found is not None and id(found) in _public() else None


def portable(name: str) -> Callable[..., Any] | None:
    """What a portable operation computes, whatever the backend."""
    module = importlib.import_module("typedpallas.portable")
    if name == "broadcast_rows":
        return lambda vector, shape: jax().lax.broadcast_in_dim(vector, shape, (0,))
    if name != "dot":
        return None

    def dot(x: Any, y: Any, transpose_x: bool = False, transpose_y: bool = False) -> Any:
        return module.contract(x, y, transpose_x, transpose_y, module.product_dtype(x.dtype))

    return dot


def symbols(names: Sequence[str]) -> list[Any]:
    """One symbolic dim for each name, all of one scope."""
    return list(jax().export.symbolic_shape(", ".join(names))) if names else []


def struct(shape: tuple[Any, ...], dtype: str, *, weak: bool = False) -> Any:
    """An abstract array. ``shape`` in elements; dims may be symbolic."""
    return jax().ShapeDtypeStruct(shape, jax().numpy.dtype(dtype), weak_type=weak)


def is_struct(item: object) -> bool:
    """Whether this is an abstract array."""
    return isinstance(item, jax().ShapeDtypeStruct)


def eval_shape(function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """What the function gives for abstract arrays, abstractly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return jax().eval_shape(function, *operands)


def is_refusal(error: Exception) -> bool:
    """Whether an exception is JAX's verdict on shapes or element types, not a limit of abstract evaluation."""
    errors = jax().errors
    limits = (
        errors.ConcretizationTypeError,
        errors.TracerArrayConversionError,
        errors.TracerIntegerConversionError,
        errors.NonConcreteBooleanIndexError,
        errors.UnexpectedTracerError,
        errors.InconclusiveDimensionOperation,
    )
    return isinstance(error, TypeError | ValueError) and not isinstance(error, limits)
