"""What every type checker sees of a launch.

The arguments of `Launch` are for the mypy plugin, which puts there the kernel's type, the pattern, the grid and what
else the launch was told: so they reach every call, in other modules and through mypy's caches too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic

from typing_extensions import TypeVar

from typedpallas.events import Backend
from typedpallas.launching.signature import Spec
from typedpallas.launching.tuning import Tuning
from typedpallas.tracing import Report

_Kernel = TypeVar("_Kernel", covariant=True, default=Any)
_Pattern = TypeVar("_Pattern", covariant=True, default=Any)
_Grid = TypeVar("_Grid", covariant=True, default=Any)
_Told = TypeVar("_Told", covariant=True, default=Any)

type _Place = tuple[Any, ...]
# One callable for each number of grid axes, so that the parameters of a lambda have a type.
type _IndexMap = (
    Callable[[], _Place]
    | Callable[[Any], _Place]
    | Callable[[Any, Any], _Place]
    | Callable[[Any, Any, Any], _Place]
    | Callable[[Any, Any, Any, Any], _Place]
    | Callable[[Any, Any, Any, Any, Any], _Place]
    | Callable[[Any, Any, Any, Any, Any, Any], _Place]
    | Callable[[Any, Any, Any, Any, Any, Any, Any], _Place]
    | Callable[[Any, Any, Any, Any, Any, Any, Any, Any], _Place]
)

class Launch(Generic[_Kernel, _Pattern, _Grid, _Told]):
    @property
    def __name__(self) -> str: ...
    def __call__(self, *arrays: Any, **sizes: int) -> Any: ...
    def bind(self, *, tuning: Tuning | None = ..., **sizes: int) -> Launch[_Kernel, _Pattern, _Grid, Any]: ...
    def spec(self, *avals: Any, target: str | None = ..., **sizes: int) -> Any: ...
    def check(self, *avals: Any, target: str | Sequence[str] | None = ..., **sizes: int) -> Report: ...
    def compile(self, *avals: Any, target: str, **sizes: int) -> Any: ...
    def lower(self, *avals: Any, target: str | None = ..., **sizes: int) -> Any: ...

def launch(
    kernel: Callable[..., None],
    pattern: str | Sequence[str | Spec],
    *,
    grid: str = ...,
    ragged: str | Sequence[str] = ...,
    parallel: str | Sequence[str] | None = ...,
    dims: Mapping[str, int] | None = ...,
    dtypes: Mapping[str, Any] | None = ...,
    backend: Backend | None = ...,
    interpret: Any = ...,
    tuning: Tuning | None = ...,
) -> Launch: ...
def spec(
    text: str,
    *,
    index: _IndexMap | None = ...,
    offset: _IndexMap | None = ...,
) -> Spec: ...
def pallas_call(
    kernel: Callable[..., None],
    out_shape: Any,
    *,
    grid_spec: Any = ...,
    grid: Any = ...,
    in_specs: Any = ...,
    out_specs: Any = ...,
    scratch_shapes: Any = ...,
    input_output_aliases: Mapping[int, int] = ...,
    debug: bool = ...,
    interpret: Any = ...,
    name: str | None = ...,
    compiler_params: Any = ...,
    cost_estimate: Any = ...,
    metadata: dict[str, str] | None = ...,
) -> Callable[..., Any]: ...
