"""What operations around a kernel make of arrays, in numpy: it starts at once, where JAX would compile each first.

A function takes the equation's parameters and its operands, and gives its only result, or none where it does not do
what the parameters ask for. The result is cast to the equation's type by the caller.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

type Array = np.ndarray[Any, Any]
type Function = Callable[..., Array | None]


def _divided(left: Array, right: Array) -> Array:
    if left.dtype.kind not in "iu":
        return np.asarray(left / right)
    safe = np.where(right == 0, 1, right)
    return np.asarray(np.sign(left) * np.sign(right) * (np.abs(left) // np.abs(safe)))


def _before(left: Array, right: Array) -> Array:
    """Less, in the order in which numbers are sorted: what is no number comes last."""
    if left.dtype.kind not in "f":
        return np.asarray(left < right)
    return np.asarray((left < right) | (np.isnan(right) & ~np.isnan(left)))


def _spread(params: Mapping[str, Any], operand: Array) -> Array:
    shape = [1] * len(params["shape"])
    for axis, size in zip(params["broadcast_dimensions"], operand.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(operand.reshape(shape), params["shape"])


def _sliced(params: Mapping[str, Any], operand: Array) -> Array:
    strides = params["strides"] or (1,) * operand.ndim
    parts = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return np.asarray(operand[tuple(slice(*part) for part in parts)])


def _sliced_at(params: Mapping[str, Any], operand: Array, *starts: Array) -> Array:
    sizes = params["slice_sizes"]
    first = [
        int(np.clip(start, 0, extent - size))
        for start, extent, size in zip(starts, operand.shape, sizes, strict=True)
    ]
    return np.asarray(operand[tuple(slice(at, at + size) for at, size in zip(first, sizes, strict=True))])


def _chosen(params: Mapping[str, Any], which: Array, *cases: Array) -> Array:
    picked = cases[0]
    for number, case in enumerate(cases[1:], 1):
        picked = np.where(which == number, case, picked)
    return picked


def _plain(function: Callable[..., Any]) -> Function:
    def apply(params: Mapping[str, Any], *operands: Array) -> Array:
        return np.asarray(function(*operands))

    return apply


def _over_axes(function: Callable[..., Any]) -> Function:
    def apply(params: Mapping[str, Any], operand: Array) -> Array:
        return np.asarray(function(operand, axis=tuple(params["axes"])))

    return apply


def _same(params: Mapping[str, Any], operand: Array, *rest: Array) -> Array:
    return operand


def _summed_up(params: Mapping[str, Any], operand: Array) -> Array | None:
    if params["reverse"]:
        return None
    return np.asarray(np.cumsum(operand, axis=params["axis"], dtype=operand.dtype))


def _counted(params: Mapping[str, Any]) -> Array:
    shape, axis = params["shape"], params["dimension"]
    return np.broadcast_to(np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))]), shape)


def _rows(axes: tuple[int, ...], batching: tuple[int, ...], indices: Array) -> Array | None:
    """The element that each index of a gather or scatter on one axis names; none for any other kind."""
    return None if batching or axes != (0,) or indices.shape[-1:] != (1,) else indices[..., 0].astype(np.int64)


def _gathered(params: Mapping[str, Any], operand: Array, indices: Array) -> Array | None:
    numbers = params["dimension_numbers"]
    at = _rows(tuple(numbers.start_index_map), tuple(numbers.operand_batching_dims), indices)
    if at is None or operand.ndim != 1 or tuple(params["slice_sizes"]) != (1,) or not operand.size:
        return None
    if tuple(numbers.offset_dims) not in ((), (at.ndim,)):
        return None
    found = operand[np.clip(at, 0, len(operand) - 1)]
    if "FILL" in str(params["mode"]):
        fill = params["fill_value"]
        inside = (at >= 0) & (at < len(operand))
        if fill is None and not inside.all():
            return None
        found = np.where(inside, found, 0 if fill is None else fill)
    return found[..., None] if numbers.offset_dims else np.asarray(found)


def _scattered(add: bool) -> Function:
    def apply(params: Mapping[str, Any], operand: Array, indices: Array, updates: Array) -> Array | None:
        numbers = params["dimension_numbers"]
        at = _rows(tuple(numbers.scatter_dims_to_operand_dims), tuple(numbers.operand_batching_dims), indices)
        if at is None or operand.ndim != 1 or updates.shape != at.shape or "CLIP" in str(params["mode"]):
            return None
        inside = (at >= 0) & (at < len(operand))
        made = operand.copy()
        if add:
            np.add.at(made, at[inside], updates[inside])
        else:
            made[at[inside]] = updates[inside]
        return made

    return apply


FUNCTIONS: Mapping[str, Function] = {
    "add": _plain(np.add),
    "sub": _plain(np.subtract),
    "mul": _plain(np.multiply),
    "div": _plain(_divided),
    "rem": _plain(np.fmod),
    "neg": _plain(np.negative),
    "abs": _plain(np.abs),
    "sign": _plain(np.sign),
    "max": _plain(np.maximum),
    "min": _plain(np.minimum),
    "clamp": _plain(lambda low, value, high: np.clip(value, low, high)),
    "eq": _plain(np.equal),
    "ne": _plain(np.not_equal),
    "lt": _plain(np.less),
    "lt_to": _plain(_before),
    "le": _plain(np.less_equal),
    "gt": _plain(np.greater),
    "ge": _plain(np.greater_equal),
    "and": _plain(np.bitwise_and),
    "or": _plain(np.bitwise_or),
    "xor": _plain(np.bitwise_xor),
    "not": _plain(np.invert),
    "select_n": _chosen,
    "convert_element_type": _same,
    "copy": _same,
    "stop_gradient": _same,
    "sharding_constraint": _same,
    "reshard": _same,
    "reshape": lambda params, operand: operand.reshape(params["new_sizes"]),
    "squeeze": lambda params, operand: np.squeeze(operand, axis=tuple(params["dimensions"])),
    "expand_dims": lambda params, operand: np.expand_dims(operand, tuple(params["dimensions"])),
    "transpose": lambda params, operand: np.transpose(operand, params["permutation"]),
    "rev": lambda params, operand: np.flip(operand, tuple(params["dimensions"])),
    "broadcast_in_dim": _spread,
    "slice": _sliced,
    "dynamic_slice": _sliced_at,
    "concatenate": lambda params, *operands: np.concatenate(operands, axis=params["dimension"]),
    "stack": lambda params, *operands: np.stack(operands, axis=params["axis"]),
    "iota": _counted,
    "cumsum": _summed_up,
    "reduce_sum": _over_axes(np.sum),
    "reduce_max": _over_axes(np.max),
    "reduce_min": _over_axes(np.min),
    "reduce_or": _over_axes(np.any),
    "reduce_and": _over_axes(np.all),
    "gather": _gathered,
    "scatter": _scattered(False),
    "scatter-add": _scattered(True),
    "scatter_add": _scattered(True),
}
