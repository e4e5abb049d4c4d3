"""What changes how fast a kernel runs, and nothing else but last digits."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from typedpallas.launching.errors import LaunchError


@dataclass(frozen=True)
class Tuning:
    """Options of a launch for its backend; one that the backend lacks is refused."""

    stages: int | None = None
    """Buffers of each pipelined input: copies run this many steps ahead, less one."""
    num_warps: int | None = None
    """Triton: warps of one program."""
    approximate: bool = False
    """Mosaic GPU: the hardware's approximations of exponentials, divisions and the like. Others decide themselves."""
    compiler_params: Any | None = None
    """The backend's own `CompilerParams`; what it leaves open the launch fills in."""

    cost: Callable[..., Any] | None = None
    """What a call costs, a `pl.CostEstimate`, of its operands as `jax.ShapeDtypeStruct`. Mosaic TPU tells XLA, which
    orders other work around the call; the other backends have nobody to tell."""

    def __post_init__(self) -> None:
        for name in ("stages", "num_warps"):
            number = getattr(self, name)
            if number is not None and (not isinstance(number, int) or number < 1):
                raise LaunchError(f"`{name}`: expected a whole number of at least 1, found {number!r}")

    def params(self, kind: type[Any], defaults: Mapping[str, Any]) -> Any:
        """An object of the backend's class: the user's, with defaults for what was not set.

        Raises:
            LaunchError: the user's object belongs to another backend.
        """
        if self.compiler_params is None:
            return kind(**defaults)
        if not isinstance(self.compiler_params, kind):
            raise LaunchError(
                f"`compiler_params`: expected `{kind.__module__}.{kind.__qualname__}` for this backend, found "
                f"{type(self.compiler_params).__module__}.{type(self.compiler_params).__qualname__}"
            )
        unset = {
            field.name: defaults[field.name]
            for field in dataclasses.fields(kind)
            if field.name in defaults and getattr(self.compiler_params, field.name) == _default(field)
        }
        return dataclasses.replace(self.compiler_params, **unset)


def _default(field: "dataclasses.Field[Any]") -> Any:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
