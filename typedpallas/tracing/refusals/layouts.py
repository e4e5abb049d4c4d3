"""JAX's refusals to lay out a buffer in a GPU's shared memory, read off the buffer that it was making."""

from typing import Any

from typedpallas.events import BufferLayout
from typedpallas.tracing import jaxapi


def event(error: BaseException) -> BufferLayout | None:
    """The layout that a kernel asked for, where JAX raised while it made the buffer; none where it did not.

    A tiling that does not divide its buffer is an assertion without words there.
    """
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code.co_name == "get_ref_aval" and hasattr(frame.f_locals.get("self"), "transforms"):
            return _layout(frame.f_locals["self"])
        traceback = traceback.tb_next
    return None


def _layout(buffer: Any) -> BufferLayout | None:
    shape = jaxapi.shape_of(buffer.inner_aval)
    dtype = jaxapi.dtype_name(buffer.inner_aval)
    if shape is None or dtype is None or any(dim is None for dim in shape):
        return None
    tile: tuple[int, ...] | None = None
    swizzle: int | None = None
    for transform in buffer.transforms:
        if hasattr(transform, "tiling"):
            tile = tuple(transform.tiling)
        elif hasattr(transform, "swizzle"):
            swizzle = int(transform.swizzle)
        else:
            return None
    return BufferLayout(shape=tuple(int(dim or 0) for dim in shape), dtype=dtype, tile=tile, swizzle=swizzle)
