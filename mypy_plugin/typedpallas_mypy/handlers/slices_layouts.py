"""How the refs of a kernel lie in memory, as far as its launch tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mypy import nodes as n

from typedpallas.dims import Size
from typedpallas.events import Shape
from typedpallas.pattern import Cut, Step
from typedpallas_mypy.forms import FREE
from typedpallas_mypy.handlers import bodies, specs
from typedpallas_mypy.handlers.calls_kernel import Kernel, Parameter
from typedpallas_mypy.handlers.calls_match import Match, Slot
from typedpallas_mypy.handlers.calls_site import Part
from typedpallas_mypy.handlers.calls_source import Source, function_name
from typedpallas_mypy.handlers.slices_judged import Layout
from typedpallas_mypy.handlers.specs import Buffer, Spec

_LAST_TWO = 2
_SPARSE = frozenset(["kernel_type", "use_tc_tiling_on_sc", "compiler_params"])
"""Parameters that speak of a SparseCore, or may."""


def function_of(source: Source, expression: n.Context) -> n.FuncDef | None:
    """The kernel that an expression names, if it is written in the file; of a partial that binds no ref, too."""
    found = source.definition(expression) if isinstance(expression, n.Expression) else expression
    if isinstance(found, n.CallExpr) and function_name(found) == "functools.partial" and found.args:
        if n.ARG_STAR in found.arg_kinds or found.arg_kinds[1:].count(n.ARG_POS):
            return None
        return function_of(source, found.args[0])
    function = bodies.function_of(source, expression)
    return function if function is not None and source.defines(function) else None


def on_tensor_core(source: Source, given: Mapping[str, n.Expression]) -> bool:
    """Whether a launch is for a TensorCore for sure; its parameters may name a SparseCore, which has other tiles."""
    for name in ("compiler_params", "tuning"):
        if name in given and not specs.is_none(source, given[name]):
            call = source.definition(given[name])
            if not isinstance(call, n.CallExpr) or n.ARG_STAR2 in call.arg_kinds:
                return False
            if not _SPARSE.isdisjoint(call.arg_names):
                return False
    return True


def of_pattern(match: Match) -> dict[str, Layout]:
    """The layouts of a `tp.launch`'s refs by name; those with an index map of their own are left out."""
    found = {name: layout for slot in (*match.inputs, *match.outputs) for name, layout in _of_slot(slot)}
    for parameter in match.kernel.required:
        if parameter.ref.direction == "scratch":
            found |= dict(_whole(parameter, scratch=True))
    return found


def _of_slot(slot: Slot) -> list[tuple[str, Layout]]:
    ref, parts = slot.parameter.ref, slot.operand.parts
    if ref.space is None or ref.shape is None or slot.placed:
        return []
    if not ref.space.windowed:
        return _whole(slot.parameter)
    block = [None if isinstance(part, Step) else part for part in parts]
    axes = tuple(axis for axis, part in enumerate(block) if part is not None)
    if len(axes) != len(ref.shape):
        return []
    sizes = dict(zip(axes, ref.shape, strict=True))
    memory = _known([sizes.get(axis, Size.of(1)) for axis in range(len(parts))])
    if memory is None:
        return []
    rows = None
    if len(parts) >= _LAST_TWO:
        second = parts[-_LAST_TWO]
        steps = Size.of(f"{FREE}rows of {ref.name}")
        rows = steps * memory[-_LAST_TWO] if isinstance(second, Cut | Step) else memory[-_LAST_TWO]
    return [(ref.name, Layout(memory, axes, rows))]


def of_call(pairs: Sequence[tuple[Parameter, Part]]) -> dict[str, Layout]:
    """The same for a `pl.pallas_call`."""
    found: dict[str, Layout] = {}
    for parameter, part in pairs:
        if isinstance(part.given, Buffer) and part.role == "scratch":
            found |= dict(_whole(parameter, scratch=True))
        elif isinstance(part.given, Spec):
            found |= dict(_of_spec(parameter, part.given, part))
    return found


def of_whole(kernel: Kernel) -> dict[str, Layout]:
    """The same for a call that cuts nothing."""
    return {name: layout for parameter in kernel.required for name, layout in _whole(parameter)}


def _of_spec(parameter: Parameter, spec: Spec, part: Part) -> list[tuple[str, Layout]]:
    if spec.whole:
        return _whole(parameter)
    block, shape = spec.block, parameter.ref.shape
    if block is None or shape is None or any(dim.squeezed is None or not dim.blocked for dim in block):
        return []
    axes = tuple(axis for axis, dim in enumerate(block) if not dim.squeezed)
    if len(axes) != len(shape):
        return []
    sizes = dict(zip(axes, shape, strict=True))
    memory = _known([sizes.get(axis, Size.of(1)) for axis in range(len(block))])
    if memory is None:
        return []
    return [(parameter.ref.name, Layout(memory, axes, _rows(parameter, part, memory)))]


def _rows(parameter: Parameter, part: Part, block: tuple[Size, ...]) -> Size | None:
    """The second-to-last extent of the array behind a block; any with room for the block if not told."""
    if len(block) < _LAST_TWO:
        return None
    array = None if part.array is None else part.array.shape
    known = array[-_LAST_TWO] if array is not None and len(array) == len(block) else None
    if known is not None and known.const is not None:
        return known
    return block[-_LAST_TWO] + f"{FREE}rows of {parameter.ref.name}"


def _whole(parameter: Parameter, *, scratch: bool = False) -> list[tuple[str, Layout]]:
    """The layout of a ref that is a whole buffer."""
    shape = parameter.ref.shape
    memory = None if shape is None else _known(shape)
    if memory is None or not memory:
        return []
    rows = memory[-_LAST_TWO] if len(memory) >= _LAST_TWO else None
    return [(parameter.ref.name, Layout(memory, tuple(range(len(memory))), rows, scratch))]


def _known(shape: Shape | list[Size | None]) -> tuple[Size, ...] | None:
    sizes = tuple(size for size in shape if size is not None)
    return sizes if len(sizes) == len(shape) else None
