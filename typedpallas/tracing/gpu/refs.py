"""What JAX writes about the refs of Mosaic GPU kernels: names, columns of tensor memory, views and their transforms.

JAX's classes are told apart by name, so that no backend is imported. Checked against JAX 0.11.2 and 0.12.0.1.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from typedpallas import dtypes
from typedpallas.tracing import jaxapi

_SAID = (
    (re.compile(r"scratch\['(\w+)'\]"), r"\1"),
    (re.compile(r"in_smem_refs\[(\d+)\]"), r"pipeline input \1"),
    (re.compile(r"out_smem_refs\[(\d+)\]"), r"pipeline output \1"),
)
"""What JAX's own functions call a buffer, and what people know it by."""


def scoped_names(inner: Any) -> tuple[str, ...]:
    """What the function of a ``run_scoped`` calls its buffers; ``scoped[0]`` and so on where JAX does not say."""
    names = tuple(inner.debug_info.arg_names or ())
    if len(names) != len(inner.invars) or not all(names):
        return tuple(f"scoped[{i}]" for i in range(len(inner.invars)))
    return tuple(_said(name) for name in names)


def _said(name: str) -> str:
    found = ((pattern.fullmatch(name), words) for pattern, words in _SAID)
    return next((match.expand(words) for match, words in found if match), name)


def tensor_columns(aval: Any) -> int | None:
    """Columns (32 bits by 128 rows) of a buffer in tensor memory; none where JAX does not lay it out."""
    shape = jaxapi.shape_of(aval)
    if shape is None or len(shape) != 2 or any(extent is None for extent in shape):
        return None
    if type(aval).__name__ == "AbstractRefUnion":
        return int(shape[1] or 0)
    bits = item_bits(aval)
    layout = getattr(aval, "layout", None)
    if layout is None or bits is None:
        return None
    columns: int = layout.cols_in_shape(shape, bits)
    return columns


def item_bits(aval: Any) -> int | None:
    """Bits of one element in shared and in global memory; none where unknown."""
    name = jaxapi.dtype_name(aval) or ""
    if name == "bool":
        return 8
    marker = dtypes.from_jax_name(name)
    return marker.bits if marker else None


@dataclass(frozen=True)
class View:
    """A part of a buffer as an operation sees it. Sizes in elements."""

    var: Any
    """JAX's variable of the buffer."""
    aval: Any
    """The buffer's own type."""
    shape: tuple[int | None, ...] | None
    """What the operation sees; none where a transform is not understood."""
    sizes: tuple[int | None, ...] = ()
    """One for each dim of the array or block that was indexed last: 1 where it was squeezed."""
    squeezed: tuple[bool, ...] = ()
    indexed: tuple[int | None, ...] = ()
    """The shape that was indexed: of the whole array, or of the whole block without its tiling."""
    tile: tuple[int, ...] | None = None
    """The tiling that the kernel asks for, of the last dims."""
    swizzle: int | None = None
    """The swizzle that the kernel asks for, in bytes."""
    transposed: bool = False
    """Whether its last two dims are swapped."""
    sliced: bool = False
    """Whether it is less than the whole buffer."""
    indexers: tuple[Any, ...] = ()
    """JAX's own account of each index, in turn."""
    dtype: str | None = None
    """JAX's name of the elements that the operation sees; none where a transform is not understood."""


def view(var: Any, transforms: Any) -> View:
    """A ref with the transforms of one operation, outermost last."""
    shape = jaxapi.shape_of(var.aval)
    found = View(var, var.aval, shape, dtype=jaxapi.dtype_name(var.aval))
    for transform in transforms or ():
        found = _transformed(found, transform)
    return found


def _transformed(found: View, transform: Any) -> View:
    kind = type(transform).__name__
    if found.shape is None:
        return found
    if kind == "UnswizzleRef":
        return replace(found, swizzle=int(transform.swizzle))
    if kind in ("UntilingTransform", "UntileRef"):
        tile = tuple(transform.tiling)
        return replace(found, shape=_untiled(found.shape, tile), tile=tile)
    if kind == "ExtractAliasedRef":
        return replace(found, shape=tuple(transform.shape), dtype=str(transform.dtype), sliced=True)
    if kind == "NDIndexer":
        return _indexed(found, transform)
    if kind in ("TransposeTransform", "TransposeRef"):
        return _permuted(found, tuple(transform.permutation))
    return replace(found, shape=None, dtype=None)


def _untiled(shape: tuple[int | None, ...], tile: tuple[int, ...]) -> tuple[int | None, ...] | None:
    rank = len(tile)
    if len(shape) < 2 * rank or tuple(shape[-rank:]) != tile:
        return None
    counts = shape[-2 * rank : -rank]
    whole = tuple(None if n is None else n * t for n, t in zip(counts, tile, strict=True))
    return shape[: -2 * rank] + whole


def _indexed(found: View, indexer: Any) -> View:
    if found.transposed:
        return replace(found, shape=None)
    sizes: list[int | None] = []
    squeezed: list[bool] = []
    for index in indexer.indices:
        if type(index).__name__ == "Slice":
            size, step = index.size, getattr(index, "stride", 1)
            sizes.append(size if isinstance(size, int) and step == 1 else None)
            squeezed.append(False)
        elif not jaxapi.shape_of(getattr(index, "aval", index)):
            sizes.append(1)
            squeezed.append(True)
        else:
            return replace(found, shape=None)
    shape = found.shape or ()
    kept = tuple(size for size, gone in zip(sizes, squeezed, strict=True) if not gone)
    if found.sizes:  # indexed before: the sizes of what was squeezed then stay
        inner = iter(zip(sizes, squeezed, strict=True))
        merged = [(s, q) if q else next(inner) for s, q in zip(found.sizes, found.squeezed, strict=True)]
        sizes, squeezed = [s for s, _ in merged], [q for _, q in merged]
    else:
        found = replace(found, indexed=shape)
    sliced = found.sliced or kept != shape
    found = replace(found, indexers=(*found.indexers, indexer))
    return replace(found, shape=kept, sizes=tuple(sizes), squeezed=tuple(squeezed), sliced=sliced)


def _permuted(found: View, permutation: tuple[int, ...]) -> View:
    shape = found.shape or ()
    rank = len(shape)
    if permutation != (*range(rank - 2), rank - 1, rank - 2):
        return replace(found, shape=shape) if permutation == tuple(range(rank)) else replace(found, shape=None)
    swapped = (*shape[:-2], shape[-1], shape[-2])
    return replace(found, shape=swapped, transposed=not found.transposed)


def operands(eqn: Any) -> dict[str, View]:
    """The refs of a copy or a product with their transforms, by what JAX calls them (``src``, ``dst``, ``acc``).

    Operands that are values, not refs, are left out.
    """
    keys = _TREES[eqn.primitive.name]
    first = _LEAVES[eqn.primitive.name](eqn.params)
    leaves = list(eqn.invars[first:])
    found: dict[str, View] = {}
    for position, (name, key) in enumerate(keys.items()):
        tree = eqn.params[key]
        taken = getattr(tree, "num_leaves", 0)
        mine, leaves = leaves[:taken], leaves[taken:]
        ref = eqn.invars[position]
        if jaxapi.is_ref(ref.aval):
            found[name] = view(ref, tree.unflatten(mine) if tree is not None else ())
    return found


_TREES = {
    "copy_gmem_to_smem": {"src": "src_transforms_treedef", "dst": "dst_transforms_treedef"},
    "copy_smem_to_gmem": {"src": "src_transforms_treedef", "dst": "dst_transforms_treedef"},
    "wgmma_ref": {"acc": "acc_transforms_tree", "a": "a_transforms_tree", "b": "b_transforms_tree"},
    "tcgen05_mma": {"acc": "acc_transforms_tree", "a": "a_transforms_tree", "b": "b_transforms_tree"},
}
"""The trees of transforms by operand, in JAX's order: the refs come first."""
_LEAVES: dict[str, Callable[[Any], int]] = {
    "copy_gmem_to_smem": lambda params: 2 + bool(params["has_barrier"]),
    "copy_smem_to_gmem": lambda params: 2,
    "wgmma_ref": lambda params: 3,
    "tcgen05_mma": lambda params: 4 + bool(params["arrive"]) + 2 * bool(params["scaled"]) + bool(params["sparse"]),
}
"""Where the leaves of the transforms begin among the operands."""
