"""What holds around an event, and the buffers that events speak of."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal

from typedpallas.chips import Machine, Target
from typedpallas.dims import Facts, Size
from typedpallas.records import record
from typedpallas.spaces import MemorySpace

if TYPE_CHECKING:
    from typedpallas.types import Direction


type Shape = tuple[Size | None, ...]
type Backend = Literal["mosaic_tpu", "mosaic_gpu", "triton"]


@record(frozen=True, kw_only=True)
class Context:
    """What holds around an event. Without a backend or target only rules that hold everywhere speak."""

    facts: Facts = field(default_factory=Facts)
    backend: Backend | None = None
    target: Target | None = None

    @property
    def machine(self) -> Machine | None:
        """The kind of machine, as far as target or backend tell."""
        if self.target is not None:
            return self.target.machine
        if self.backend is None:
            return None
        return "tpu" if self.backend == "mosaic_tpu" else "gpu"


@record(frozen=True, kw_only=True)
class RefFact:
    """A buffer that the kernel was given or made. ``shape`` in elements; ``dtype`` is JAX's name."""

    name: str
    space: type[MemorySpace] | None
    dtype: str | None
    shape: Shape | None
    direction: Direction | None = None


@record(frozen=True, kw_only=True)
class ArrayType:
    """Shape in elements and JAX's name of the element type."""

    shape: Shape
    dtype: str
