"""What every type checker sees of refs, values and dims. At run time `typedpallas.types` reads the same spelling.

A ref is a subclass of JAX's own abstract ref, so that Pallas's functions take it.
"""

from types import EllipsisType
from typing import Any, Generic, Never, SupportsIndex, Unpack, overload

import jax
import numpy as np
from jax.ref import AbstractRef
from jax.typing import ArrayLike
from typing_extensions import TypeVar, TypeVarTuple

from typedpallas.dtypes import DType
from typedpallas.spaces import MemorySpace, Scalars, VectorLoads, VectorStores

type Dim = int
type Multiple[K: int] = int
type Mul[P: int, Q: int] = Any
type Add[P: int, Q: int] = Any
type FloorDiv[P: int, Q: int] = Any
type CDiv[P: int, Q: int] = Any

type Block[BlockD: DType, *BlockSh] = jax.Array
type Array[ArrayD: DType, *ArraySh] = jax.Array

# Semaphores and barriers hold no elements: there the first dim stands in the place of the element type, and mypy
# puts the empty tuple there where no dim is given.
_S = TypeVar("_S", bound=MemorySpace, covariant=True)
_D = TypeVar("_D", bound=DType | int | tuple[()], covariant=True, default=Any)
_Sh = TypeVarTuple("_Sh", default=Unpack[tuple[()]])
_E = TypeVar("_E", bound=DType)
_T = TypeVar("_T")

type _Scalar = SupportsIndex | jax.Array | np.integer[Any]

class _At(Generic[_T]):
    def __getitem__(self, index: Any, /) -> _T: ...

class Ref(AbstractRef, Generic[_S, _D, *_Sh]):
    @property
    def shape(self) -> tuple[*_Sh]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    def __len__(self) -> int: ...
    @property
    def at(self) -> _At[Ref[_S, _D, *tuple[Any, ...]]]: ...
    @property
    def T(self) -> Ref[_S, _D, *tuple[Any, ...]]: ...
    def bitcast(self, dtype: Any) -> Ref[_S, Any, *tuple[Any, ...]]: ...
    def reshape(self, *shape: Any) -> Ref[_S, _D, *tuple[Any, ...]]: ...
    def transpose(self, *permutation: Any) -> Ref[_S, _D, *tuple[Any, ...]]: ...
    @overload
    def __getitem__(self: Ref[VectorLoads, _E, *_Sh], index: EllipsisType, /) -> Block[_E, *_Sh]: ...
    @overload
    def __getitem__(self: Ref[VectorLoads, _E, *_Sh], index: Any, /) -> Block[_E, *tuple[Any, ...]]: ...
    @overload
    def __getitem__(self: Ref[Scalars, _E], index: EllipsisType | tuple[()], /) -> Block[_E]: ...
    @overload
    def __getitem__(self: Ref[Scalars, _E, Any], index: _Scalar | tuple[_Scalar], /) -> Block[_E]: ...
    @overload
    def __getitem__(self: Ref[Scalars, _E, Any, Any], index: tuple[_Scalar, _Scalar], /) -> Block[_E]: ...
    @overload
    def __getitem__(
        self: Ref[Scalars, _E, Any, Any, Any], index: tuple[_Scalar, _Scalar, _Scalar], /
    ) -> Block[_E]: ...
    def __setitem__(self: Ref[VectorStores, _E, *_Sh], index: Any, value: ArrayLike, /) -> None: ...

class In(Ref[_S, _D, *_Sh]):
    def __setitem__(self, index: Never, value: Never, /) -> None: ...

class Out(Ref[_S, _D, *_Sh]): ...
class InOut(Ref[_S, _D, *_Sh]): ...
class Scratch(Ref[_S, _D, *_Sh]): ...
