"""Buffers in a GPU's shared memory where they are asked for: tiles and swizzle against shape and element type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mypy import nodes as n
from mypy.plugin import MethodContext
from mypy.types import Type

from typedpallas.events import BufferLayout
from typedpallas_mypy import report, scope
from typedpallas_mypy.facts import Types
from typedpallas_mypy.handlers import specs
from typedpallas_mypy.handlers.calls_source import Source, arguments, function_name
from typedpallas_mypy.hooks import Hooks


def _made(context: MethodContext) -> Type:
    """``plgpu.SMEM(shape, dtype, transforms=...)``, where all of it is there to read."""
    call = context.context
    if isinstance(call, n.CallExpr) and scope.concerned(context.api):
        source = Source(context.api, Types(context.api))
        event = _layout(source, arguments(call, ("shape", "dtype")) or {})
        if event is not None:
            report.judge(context.api, event, source.types.facts, {"": call})
    return context.default_return_type


def _layout(source: Source, given: Mapping[str, n.Expression]) -> BufferLayout | None:
    dims = specs.dims(source, given["shape"]) if "shape" in given else None
    dtype = specs.dtype(source, given["dtype"]) if "dtype" in given else None
    transforms = source.items(given["transforms"]) if "transforms" in given else None
    sizes = [dim.size.const for dim in dims or () if dim.size is not None]
    shape = tuple(size for size in sizes if size is not None)
    if not transforms or dims is None or dtype is None or len(shape) < len(dims):
        return None
    tile: tuple[int, ...] | None = None
    swizzle: int | None = None
    for transform in map(source.definition, transforms):
        name = function_name(transform).rpartition(".")[2]
        numbers = _tuple(source, transform.args) if isinstance(transform, n.CallExpr) else None
        if numbers is None:
            return None
        if name == "TilingTransform" and tile is None:
            tile = numbers
        elif name == "SwizzleTransform" and swizzle is None and len(numbers) == 1:
            swizzle = numbers[0]
        else:
            return None
    return BufferLayout(shape=shape, dtype=dtype, tile=tile, swizzle=swizzle)


def _tuple(source: Source, args: Sequence[n.Expression]) -> tuple[int, ...] | None:
    """The numbers of the one argument of a transform: a tuple of them, or one."""
    if len(args) != 1:
        return None
    items = source.items(args[0])
    sizes = [source.size(item) for item in (items if items is not None else args)]
    numbers = [size.const for size in sizes if size is not None and size.const is not None]
    return tuple(numbers) if len(numbers) == len(sizes) else None


HOOKS: Hooks = Hooks(methods={"jax._src.pallas.mosaic_gpu.core.MemorySpace.__call__": _made})
