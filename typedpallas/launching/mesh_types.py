"""What the annotations of a mesh-style body say: the arrays it takes, its results and its scratch memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import jax.numpy as jnp
from jax.experimental.pallas import mosaic_gpu as plgpu

from typedpallas import gpu, spaces
from typedpallas.dims import Size
from typedpallas.launching.errors import LaunchError
from typedpallas.types import BlockType, KernelType, Parameter, RefType
from typedpallas.unify import Call

_SCRATCH = (gpu.SMEM, gpu.Barrier, gpu.ClusterBarrier)


@dataclass(frozen=True)
class Bound:
    """A body's parameters with numbers: ``outputs`` and ``scratch`` in order, shapes in elements (or barriers)."""

    outputs: tuple[tuple[tuple[int, ...], Any], ...]
    scratch: tuple[tuple[Parameter, tuple[int, ...], Any], ...]


def check(kind: KernelType, arrivals: Mapping[str, int]) -> None:
    """Whether every parameter has a place.

    Raises:
        LaunchError: one has none, they are out of order, or ``arrivals`` names no barrier.
    """
    order = {"in": 0, "inout": 1, "out": 2, "scratch": 3}
    last = 0
    for parameter in kind.parameters:
        ref = parameter.type
        if ref is None or ref.direction not in order:
            raise LaunchError(
                f"`{parameter.name}` of `{kind.name}`: expected `In`, `InOut`, `Out` or `Scratch`, found "
                f"{'no annotation of a ref' if ref is None else f'`{ref}`'}"
            )
        if order[ref.direction] < last:
            raise LaunchError(f"`{parameter.name}` of `{kind.name}`: inputs come first, then outputs, then scratch")
        last = order[ref.direction]
        allowed = _SCRATCH if ref.direction == "scratch" else (gpu.GMEM,)
        if ref.space not in allowed:
            names = " or ".join(f"`{spaces.name(space)}`" for space in allowed)
            raise LaunchError(
                f"`{parameter.name}` of `{kind.name}`: expected {names}, found `{spaces.name(ref.space)}`"
            )
    barriers = [p.name for p in kind.of("scratch") if p.type is not None and not p.type.space.data]
    for name in arrivals:
        if name not in barriers:
            known = ", ".join(f"`{barrier}`" for barrier in barriers) or "none"
            raise LaunchError(f"`arrivals`: `{kind.name}` has no barrier `{name}`; its barriers: {known}")


def bind(kind: KernelType, arrays: Sequence[Any], dims: Mapping[str, int], dtypes: Mapping[str, Any]) -> Bound:
    """The parameters with numbers.

    Raises:
        SignatureError: an array, or a size in ``dims``, does not fit.
        LaunchError: the number of arrays is another, or nothing gives a size or an element type.
    """
    inputs = (*kind.of("in"), *kind.of("inout"))
    if len(arrays) != len(inputs):
        names = ", ".join(f"`{p.name}`" for p in inputs)
        raise LaunchError(f"`{kind.name}`: expected {len(inputs)} arrays ({names}), found {len(arrays)}")
    call = Call(kind.name)
    for name, size in dims.items():
        if name not in kind.dims:
            raise LaunchError(f"`dims`: `{kind.name}` has no dim `{name}`; its dims: {', '.join(kind.dims)}")
        call.check(kind.dims[name], size, name)
    for parameter, array in zip(inputs, arrays, strict=True):
        assert parameter.type is not None
        ref = parameter.type
        assert ref.dtype is not None
        call.check(BlockType(ref.dtype, ref.shape, ref.parameters, "Array"), array, parameter.name)
    call.settle()
    sizes = {name: bound.number for name, bound in call.dims.items()}
    types = {name: found for name, (found, _) in call.dtypes.items()}
    types |= {name: jnp.dtype(given).name for name, given in dtypes.items() if name not in types}
    known = _Known(kind, sizes, types)
    outputs = tuple(known.of(parameter) for parameter in kind.of("out"))
    scratch = tuple((parameter, *known.of(parameter)) for parameter in kind.of("scratch"))
    return Bound(outputs, scratch)


@dataclass(frozen=True)
class _Known:
    kind: KernelType
    sizes: Mapping[str, int]
    types: Mapping[str, str]

    def of(self, parameter: Parameter) -> tuple[tuple[int, ...], Any]:
        """Shape and element type of a parameter."""
        ref = parameter.type
        assert ref is not None
        return tuple(self._size(size, parameter) for size in ref.shape or ()), self._dtype(ref, parameter)

    def _size(self, size: Size, parameter: Parameter) -> int:
        missing = sorted(size.names - set(self.sizes))
        if missing:
            raise LaunchError(
                f"nothing gives `{missing[0]}` of `{parameter.name}` of `{self.kind.name}` a number: expected "
                f"`dims={{'{missing[0]}': ...}}`"
            )
        return size.evaluate(self.sizes)

    def _dtype(self, ref: RefType, parameter: Parameter) -> Any:
        if not isinstance(ref.dtype, TypeVar):
            return None if ref.dtype is None else jnp.dtype(ref.dtype.jax_name)
        name = ref.dtype.__name__
        if name not in self.types:
            raise LaunchError(
                f"nothing gives `{name}` of `{parameter.name}` of `{self.kind.name}` an element type: expected "
                f"`dtypes={{'{name}': ...}}`"
            )
        return jnp.dtype(self.types[name])


def scratch_types(bound: Bound, arrivals: Mapping[str, int], cluster: tuple[str, ...]) -> tuple[Any, ...]:
    """What Pallas allocates, in the order of the parameters. A block without a cluster is alone at its barriers."""
    found: list[Any] = []
    for parameter, shape, dtype in bound.scratch:
        assert parameter.type is not None
        count, space = arrivals.get(parameter.name, 1), parameter.type.space
        if space is gpu.SMEM:
            found.append(plgpu.SMEM(shape, dtype))
        elif space is gpu.ClusterBarrier and cluster:
            found.append(plgpu.ClusterBarrier(collective_axes=cluster, num_arrivals=count, num_barriers=shape))
        else:
            found.append(plgpu.Barrier(num_arrivals=count, num_barriers=shape))
    return tuple(found)
