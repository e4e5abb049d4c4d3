"""How messages write the types of arrays."""

from typedpallas import dtypes
from typedpallas.events import Shape


def shown(shape: Shape | None, dtype: str | None) -> str:
    """``f32[8, BM]``; unknown dims are ``?``."""
    name = "?" if dtype is None else dtypes.short(dtype)
    if shape is None:
        return f"{name}[...]"
    return f"{name}[{', '.join('?' if dim is None else str(dim) for dim in shape)}]"
