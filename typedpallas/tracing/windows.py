"""The blocks of a kernel's operands."""

from collections.abc import Iterator

from typedpallas.dims import Size
from typedpallas.events import Context, Window
from typedpallas.rules._blocks import BlockDim
from typedpallas.tracing import jaxapi
from typedpallas.tracing.grid import indices as grid_indices
from typedpallas.tracing.located import Located
from typedpallas.tracing.walk import KernelCall, Operand


def events(kernel: KernelCall, context: Context) -> Iterator[Located]:
    """One `Window` for each operand that Pallas cuts into blocks, at the call's line.

    Plain Pallas does not say whether a partial last block is meant, so ``ragged`` is none.
    """
    for operand in kernel.operands:
        if operand.role in ("in", "out") and operand.block is not None and operand.array is not None:
            yield Located(_window(kernel, operand), kernel.place, kernel.name)


def _window(kernel: KernelCall, operand: Operand) -> Window:
    assert operand.block is not None and operand.array is not None
    return Window(
        name=operand.name,
        role="in" if operand.role == "in" else "out",
        space=operand.space,
        dtype=operand.dtype,
        block=block_sizes(operand.block),
        array=tuple(Size.of(extent) if isinstance(extent, int) else None for extent in operand.array),
        ragged=None,
        stored_whole=_is_stored_whole(kernel, operand) if operand.role == "out" else None,
        kinds=jaxapi.block_kinds(operand.mapping) if operand.mapping is not None else (),
        buffers=jaxapi.buffers_asked(operand.mapping) if operand.mapping is not None else None,
    )


def _is_stored_whole(kernel: KernelCall, operand: Operand) -> bool:
    """Whether one store at the top of the body takes all of the block, unmasked."""
    ref = kernel.jaxpr.invars[kernel.operands.index(operand)]
    for eqn in kernel.jaxpr.eqns:
        if eqn.primitive.name in ("swap", "masked_swap") and jaxapi.accessed(eqn)[0] is ref:
            index = grid_indices.rectangle(eqn)
            if index is not None and tuple(index) == tuple((0, extent) for extent in operand.shape or ()):
                return True
    return False


def block_sizes(block: tuple[int | str | None, ...]) -> tuple[BlockDim, ...]:
    """A block in numbers as the rules take it: elements, ``"squeezed"``, none where unknown."""
    return tuple("squeezed" if dim == "squeezed" else _known(dim) for dim in block)


def _known(dim: int | str | None) -> Size | None:
    return Size.of(dim) if isinstance(dim, int) else None
