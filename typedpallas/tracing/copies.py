"""What each copy takes and where it goes, as its views show it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from typedpallas.dims import Size
from typedpallas.events import Copied, RefFact, SemaphoreMisuse
from typedpallas.tracing import jaxapi
from typedpallas.tracing.refusals.semaphores import KINDS, kind


def events(eqn: Any, refs: Mapping[Any, RefFact]) -> Iterator[Copied | SemaphoreMisuse]:
    """The copy that a ``dma_start`` starts. ``refs`` are those in scope, by JAX's variable."""
    tree = eqn.params["tree"]
    named = tree.unflatten(eqn.invars)
    source, target, _, other, device = tree.unflatten([atom.aval for atom in eqn.invars])
    ends = [
        _end(view, refs.get(_buffer(part))) for view, part in zip((source, target), (named[0], named[1]), strict=True)
    ]
    if ends[0] is None or ends[1] is None:
        return
    misused = False
    for end, use in zip(ends, ("a copy from it", "a copy to it"), strict=True):
        if end is not None and end.dtype in KINDS:
            misused = True
            yield SemaphoreMisuse(name=end.name, kind=kind(end.dtype), use=use, wanted="a buffer")
    if not misused:
        remote = other is not None or device is not None
        whole = not any(getattr(part, "transforms", ()) for part in named[:2])
        yield Copied(source=ends[0], target=ends[1], remote=remote, whole=whole)


def reading(eqn: Any, refs: Mapping[Any, RefFact]) -> Iterator[SemaphoreMisuse]:
    """A ``semaphore_read`` of more than one semaphore: JAX refuses it only when it lowers."""
    ref, transforms = eqn.params["args_tree"].unflatten(eqn.invars)
    known = refs.get(ref)
    shape = tuple(transforms[-1].get_indexer_shape()) if transforms else ref.aval.shape
    if known is not None and shape:
        many = f"an array of shape {tuple(map(int, shape))}"
        yield SemaphoreMisuse(name=known.name, kind=many, use="`pl.semaphore_read`", wanted="one semaphore")


def _buffer(part: Any) -> Any:
    return part.ref if hasattr(part, "transforms") else part


def _end(view: Any, ref: RefFact | None) -> RefFact | None:
    """One end of a copy: the ref with the shape and the type of what the view shows of it."""
    shape, dtype = getattr(view, "shape", None), jaxapi.dtype_name(view)
    if ref is None or shape is None:
        return None
    return replace(ref, dtype=dtype, shape=tuple(Size.of(d) if isinstance(d, int) else None for d in shape))
