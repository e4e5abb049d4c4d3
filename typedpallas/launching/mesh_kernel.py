"""`tp.kernel`: a typed body for a mesh of blocks and warpgroups becomes a plain function of arrays.

Where `tp.launch` cuts operands by a pattern, here the body sees whole arrays in global memory and moves the
data itself. Its annotations say everything that `plgpu.kernel` must be given: the operands, the results and the
scratch memory, barriers included.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.pallas import mosaic_gpu as plgpu

from typedpallas.launching import checks, choose, jaxapi, mesh_types
from typedpallas.launching.errors import LaunchError
from typedpallas.types import KernelType, kernel_type


@dataclass(frozen=True)
class Mesh:
    """What runs at once: blocks, clusters of them, and the warpgroups of one block. Sizes by axis name."""

    grid: Mapping[str, int]
    cluster: Mapping[str, int] = field(default_factory=dict)
    threads: Mapping[str, int] = field(default_factory=dict)
    """One axis at most: the warpgroups of a block (128 threads each)."""

    def __post_init__(self) -> None:
        if len(self.threads) > 1:
            raise LaunchError(f"`threads`: expected one axis at most, found {', '.join(self.threads)}")
        for what in ("grid", "cluster", "threads"):
            for axis, size in getattr(self, what).items():
                if not isinstance(size, int) or size < 1:
                    raise LaunchError(
                        f"`{what}`: axis `{axis}`: expected a whole number of at least 1, found {size!r}"
                    )

    def options(self) -> dict[str, Any]:
        """The arguments of `plgpu.kernel` that say it."""
        found: dict[str, Any] = {"grid": tuple(self.grid.values()), "grid_names": tuple(self.grid)}
        if self.cluster:
            found |= {"cluster": tuple(self.cluster.values()), "cluster_names": tuple(self.cluster)}
        for name, count in self.threads.items():
            found |= {"num_threads": count, "thread_name": name}
        return found


def kernel(
    body: Callable[..., None],
    mesh: Mesh,
    *,
    dims: Mapping[str, int] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    arrivals: Mapping[str, int] | None = None,
    compiler_params: Any | None = None,
    interpret: bool | Any | None = None,
) -> "MeshKernel":
    """Make a plain function of arrays out of a typed body for Mosaic GPU.

    Args:
        body: its parameters are annotated ``In[gpu.GMEM, ...]`` and then ``InOut[gpu.GMEM, ...]`` (one for each
            array), then ``Out[gpu.GMEM, ...]``, then ``Scratch[...]`` in `gpu.SMEM`, `gpu.Barrier` or
            `gpu.ClusterBarrier`. Scratch belongs to the whole block, to every warpgroup of it.
        mesh: what runs at once.
        dims: sizes that no array gives, in elements (or barriers).
        dtypes: element types by type parameter, where no input fixes them.
        arrivals: by the name of a barrier parameter, how many arrivals complete its phase; 1 unless given. For a
            `gpu.ClusterBarrier`: how many of each block.
        compiler_params: `plgpu.CompilerParams`.
        interpret: as `tp.launch` takes it.

    Raises:
        AnnotationError: an annotation means nothing by itself.
        LaunchError: a parameter has no place here, or an option names none.
    """
    kind = kernel_type(body)
    mesh_types.check(kind, arrivals or {})
    return MeshKernel(body, kind, mesh, dims or {}, dtypes or {}, arrivals or {}, compiler_params, interpret)


@dataclass(frozen=True, eq=False)
class MeshKernel:
    """A typed body on its mesh: call it with arrays. It jits and runs inside `jax.shard_map`."""

    body: Callable[..., None]
    type: KernelType
    mesh: Mesh
    dims: Mapping[str, int]
    dtypes: Mapping[str, Any]
    arrivals: Mapping[str, int]
    compiler_params: Any
    interpret: Any
    _compiled: dict[Any, Callable[..., Any]] = field(default_factory=dict, repr=False)

    @property
    def __name__(self) -> str:
        return self.type.name

    def bind(self, **dims: int) -> "MeshKernel":
        """The same kernel with more sizes given; a size that is given already is replaced."""
        return replace(self, dims={**self.dims, **dims}, _compiled={})

    def __call__(self, *arrays: Any) -> Any:
        """Run the kernel.

        Returns:
            The result, or a tuple of them if there are several: ``InOut`` parameters as the kernel leaves them, then
            ``Out`` parameters.

        Raises:
            SignatureError: an array does not fit its annotation.
            LaunchError: the number of arrays is another, or a size is missing.
            PlacementError: a rule is broken.
        """
        arrays = tuple(x if isinstance(x, jax.Array) else jnp.asarray(x) for x in arrays)
        way = choose.choices("mosaic_gpu", self.interpret)[0]
        key = (tuple((a.shape, a.dtype) for a in arrays), way, checks.wanted())
        if key not in self._compiled:
            self._compiled[key] = jax.jit(functools.partial(self._run, way, checks.wanted()), inline=True)
        return self._compiled[key](*arrays)

    def call(self, arrays: tuple[Any, ...], *, interpret: bool = False) -> Callable[..., Any]:
        """What Pallas is given for arrays like these: `plgpu.kernel` with everything that it takes."""
        bound = mesh_types.bind(self.type, arrays, self.dims, self.dtypes)
        interpreter: Any = None
        if interpret:
            interpreter = plgpu.InterpretGPUParams() if self.interpret in (None, True) else self.interpret
        called: Callable[..., Any] = plgpu.kernel(
            _named(self.body, self.type.name),
            out_type=tuple(jaxapi.result_type(shape, dtype, arrays) for shape, dtype in bound.outputs),
            scratch_types=mesh_types.scratch_types(bound, self.arrivals, tuple(self.mesh.cluster)),
            compiler_params=self.compiler_params,
            interpret=interpreter,
            **self.mesh.options(),
        )
        changed = len(self.type.of("inout"))

        def run(*arrays: Any) -> tuple[Any, ...]:
            kept, starts = arrays[: len(arrays) - changed], arrays[len(arrays) - changed :]
            refs = [jax.new_ref(start) for start in starts]
            outputs = called(*kept, *refs)
            return *(jax.freeze(ref) for ref in refs), *outputs

        return run if changed else called

    def _run(self, way: choose.Choice, checked: bool, *arrays: Any) -> Any:
        called = self.call(arrays, interpret=way.interpret)
        if not checked:
            results = called(*arrays)
        else:
            traced = jax.make_jaxpr(called)(*arrays)
            checks.check_traced(self.body, traced, None if way.interpret else way.target)
            results = jaxapi.evaluate(jaxapi.inner(traced), [*traced.consts, *arrays])
        return results[0] if len(results) == 1 else tuple(results)


def _named(body: Callable[..., None], name: str) -> Callable[..., None]:
    """The body under its own name, which Pallas gives the kernel; a partial has none.

    JAX reads the parameters' names and the place of the source through ``__wrapped__``.
    """

    def run(*refs: Any) -> None:
        body(*refs)

    run.__name__ = name
    run.__wrapped__ = body  # type: ignore[attr-defined]
    return run
