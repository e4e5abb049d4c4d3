"""Where the copies of a Mosaic GPU kernel start in global memory, in numbers and as its lowering sees them."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from typedpallas.events import Known, SlicePart, Step
from typedpallas.starts.bounds import Bounds, bounds
from typedpallas.starts.terms import Leaf
from typedpallas.tracing.gpu import proofs as gpu_proofs
from typedpallas.tracing.gpu import refs as gpu_refs
from typedpallas.tracing.ranges import devices as ranges_devices
from typedpallas.tracing.ranges import walk as ranges_walk
from typedpallas.tracing.ranges.frames import Frame, Part, Walk, handles
from typedpallas.tracing.ranges.points import Path, find
from typedpallas.tracing.walk import KernelCall

_GRID_AXES = 3
"""Of a GPU. The lowering computes the numbers of more axes from one of these, and folds those of one step."""

type Ways = Mapping[int, Sequence[tuple[SlicePart, ...]]]
"""By the `id` of a copy's equation: the parts of the array that it copies, for each way to come there."""


def starts(kernel: KernelCall) -> Ways:
    """Of every copy whose array is indexed once; a part with neither start nor proof is not followed."""
    mesh = kernel.mesh
    extents = zip((*mesh.grid_names, *mesh.cluster_names), (*mesh.grid, *mesh.cluster), strict=False)
    axes = {name: extent for name, extent in extents if isinstance(name, str) and isinstance(extent, int)}
    if mesh.thread_name is not None and mesh.num_threads:
        axes[mesh.thread_name] = mesh.num_threads
    walk = Walk((), kernel.backend, axes={**ranges_devices.mesh_axes(kernel), **axes})
    walk.run(kernel.jaxpr, Frame({}, {}, Path()))
    known: Bounds = {}
    kept = [walk.places[name] for name in axes if name in walk.places and len(mesh.grid) <= _GRID_AXES]
    found: dict[int, list[tuple[SlicePart, ...]]] = defaultdict(list)
    for eqn, parts, path in walk.bulk:
        found[id(eqn)].append(tuple(_measured(axis, part, path, known, kept) for axis, part in enumerate(parts)))
    return found


@handles("copy_gmem_to_smem", "copy_smem_to_gmem")
def _copy(walk: Walk, eqn: Any, frame: Frame) -> None:
    array = gpu_refs.operands(eqn).get("src" if eqn.primitive.name == "copy_gmem_to_smem" else "dst")
    if walk.silent or array is None or len(array.indexers) != 1:
        return
    [parts] = ranges_walk.taken(walk, frame, array.indexers)
    walk.bulk.append((eqn, parts, frame.path))


def _measured(axis: int, part: Part, path: Path, known: Bounds, indices: Collection[Leaf]) -> SlicePart:
    term, extent = part.start, part.extent or 0
    if term is None or part.stride != 1:
        return SlicePart(axis=axis, extent=extent, start=None, size=part.size, squeezed=part.squeezed)

    def proves(divisor: int) -> Known:
        return gpu_proofs.proves(divisor, term, path, indices)

    def breaks(divisor: int) -> Step | None:
        found = find(term, path, lambda values: values % divisor != 0)
        return None if found is None else Step(at=found.at, start=found.value)

    return SlicePart(
        axis=axis,
        extent=extent,
        start=term.const,
        size=part.size,
        squeezed=part.squeezed,
        multiple=bounds(term, known).multiple,
        proves=proves,
        breaks=breaks,
    )
