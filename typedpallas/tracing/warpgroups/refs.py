"""What JAX's types and parameters tell of Mosaic GPU's refs and meshes."""

import math
from typing import Any

from typedpallas.tracing import jaxapi


def barrier_arrivals(aval: Any) -> int | None:
    """How many arrivals end a phase of a ref of barriers; none if it is no such ref.

    Of a barrier of a cluster those of one block count: every block arrives at the barriers of all.
    """
    return getattr(getattr(getattr(aval, "inner_aval", None), "dtype", None), "num_arrivals", None)


def gpu_memory(aval: Any) -> str:
    """``smem``, ``tmem``, ``acc`` (a sum in registers), or ``elsewhere``."""
    if type(aval).__name__ == "WGMMAAbstractAccumulatorRef":
        return "acc"
    space = jaxapi.memory_space(aval)
    name = str(getattr(space, "value", space))
    return name if name in ("smem", "tmem") else "elsewhere"


def is_fence(eqn: Any) -> bool:
    """Whether inlined code is one of JAX's own fences, which wait for nobody."""
    function = eqn.params.get("mgpu_fn")
    module = str(getattr(function, "__module__", ""))
    return not eqn.invars and not eqn.outvars and module.partition(".")[0] == "jax"


def axes(mesh: Any) -> tuple[dict[Any, int], dict[Any, int], Any, int] | None:
    """The axes of grid and cluster with their sizes, the threads' axis and number; none if it is no such mesh."""
    if not hasattr(mesh, "num_threads") or not hasattr(mesh, "grid_names"):
        return None
    grid = dict(zip(mesh.grid_names, mesh.grid, strict=True))
    cluster = dict(zip(mesh.cluster_names, mesh.cluster, strict=True))
    if not all(isinstance(size, int) for size in (*grid.values(), *cluster.values())):
        return None
    return grid, cluster, mesh.thread_name, mesh.num_threads or 1


def last(grid: dict[Any, int]) -> tuple[int, ...]:
    """The last point of a grid."""
    return tuple(size - 1 for size in grid.values())


def count(grid: dict[Any, int]) -> int:
    """How many points a grid has."""
    return math.prod(grid.values())
