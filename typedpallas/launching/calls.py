"""The arguments of one `pl.pallas_call`, as data that can be made, shown and called."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.experimental import pallas as pl

from typedpallas.events import Backend
from typedpallas.launching import jaxapi
from typedpallas.launching.plan import Plan, Planned

type IndexMap = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class WindowSpec:
    """A block spec with its index map in words. ``block`` in elements, none for a squeezed dim."""

    name: str
    block: tuple[int | None, ...] | None
    """None: the whole array, left where it is."""
    index_map: IndexMap | None
    text: str
    """The index map as source."""
    space: Any | None
    elements: bool = False
    """Whether the map gives offsets in elements."""
    stages: int | None = None

    @property
    def moves(self) -> bool:
        """Whether its block depends on the grid."""
        return self.index_map is not None

    def buffered(self, stages: int) -> "WindowSpec":
        """The same window with this many buffers."""
        return replace(self, stages=stages)

    def block_spec(self) -> pl.BlockSpec:
        """As Pallas takes it."""
        extra: dict[str, Any] = {} if self.space is None else {"memory_space": self.space}
        if self.stages is not None:
            extra["pipeline_mode"] = pl.Buffered(self.stages)
        if self.block is None:
            return pl.BlockSpec(**extra)
        block: tuple[Any, ...] = self.block
        if self.elements:
            block = tuple(size if size is None else pl.Element(size) for size in block)
        return pl.BlockSpec(block, self.index_map, **extra)

    def __str__(self) -> str:
        parts = [] if self.block is None else [str(self.block), self.text]
        parts += [] if self.space is None else [f"memory_space={self.space}"]
        parts += [] if self.stages is None else [f"pipeline_mode=Buffered({self.stages})"]
        return f"BlockSpec({', '.join(parts)})"


def window(plan: Plan, planned: Planned, space: Any | None, axes: Sequence[str] | None = None) -> WindowSpec:
    """The block spec of an operand over the grid axes ``axes`` (all of the plan's, unless given).

    An axis of the operand that is not among ``axes`` is not cut: its whole extent is in the block. With ``axes``
    given, an operand with its own index map is not cut at all.
    """
    ids = tuple(plan.grid) if axes is None else tuple(axes)
    if not planned.space.windowed:
        return WindowSpec(planned.name, None, None, "", space)
    own = planned.slot.spec
    if own is not None and axes is not None:
        zeros = (0,) * len(planned.array)
        text = f"lambda {', '.join(ids)}: {zeros}"
        return WindowSpec(planned.name, planned.array, lambda *at: zeros, text, space)
    if own is not None:
        block = tuple(piece.block for piece in planned.pieces)
        chosen = own.index if own.index is not None else own.offset
        name = getattr(chosen, "__name__", "index")
        text = f"lambda {', '.join(ids)}: {'index' if name == '<lambda>' else name}({', '.join(ids)})"
        return WindowSpec(planned.name, block, chosen, text, space, elements=own.offset is not None)
    return _cut(planned, ids, space)


def _cut(planned: Planned, ids: tuple[str, ...], space: Any | None) -> WindowSpec:
    block: list[int | None] = []
    axis_of: list[int | None] = []
    for piece, extent in zip(planned.pieces, planned.array, strict=True):
        kept = piece.axis in ids
        block.append(piece.block if kept or piece.axis is None else extent)
        axis_of.append(ids.index(piece.axis) if kept and piece.axis is not None else None)

    def index_map(*at: Any) -> tuple[Any, ...]:
        return tuple(0 if position is None else at[position] for position in axis_of)

    shown = ", ".join("0" if position is None else ids[position] for position in axis_of)
    text = f"lambda {', '.join(ids)}: ({shown}{',' if len(axis_of) == 1 else ''})"
    return WindowSpec(planned.name, tuple(block), index_map, text, space)


@dataclass(frozen=True)
class Call:
    """One `pl.pallas_call`. Printing it shows what Pallas is given."""

    plan: Plan
    backend: Backend
    body: Callable[..., None]
    """Called with the kernel and the refs that Pallas makes."""
    grid: tuple[tuple[str, int], ...]
    windows: tuple[WindowSpec, ...]
    results: tuple[WindowSpec, ...]
    scratch: tuple[Any, ...]
    compiler_params: Any
    interpret: Any
    aliases: Mapping[int, int] | None = None
    cost: pl.CostEstimate | None = None

    @property
    def out_shape(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        """Shapes and element types of the results."""
        return tuple(jax.ShapeDtypeStruct(out.array, out.dtype) for out in self.plan.outputs)

    def run(self, kernel: Callable[..., None], arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Bind the call; returns the results in a tuple."""
        out_shape = tuple(jaxapi.result_type(out.array, out.dtype, arrays) for out in self.plan.outputs)
        found: tuple[Any, ...] = pl.pallas_call(
            self._named(kernel),
            out_shape=out_shape,
            grid=tuple(size for _, size in self.grid),
            in_specs=[window.block_spec() for window in self.windows],
            out_specs=[window.block_spec() for window in self.results],
            scratch_shapes=self.scratch,
            input_output_aliases=self.plan.signature.aliases,
            compiler_params=self.compiler_params,
            interpret=self.interpret,
            cost_estimate=self.cost,
            name=self.plan.name,
        )(*arrays)
        return found

    def _named(self, kernel: Callable[..., None]) -> Callable[..., None]:
        """The body under the kernel's name, place and parameters, for JAX's messages and the trace checker."""

        def body(*refs: Any) -> None:
            self.body(kernel, *refs)

        named: Callable[..., None] = jaxapi.named_after(kernel, self._parameters(), body)
        return named

    def _parameters(self) -> list[str]:
        """The names of Pallas's refs, in its order; the input side of an `InOut` has a name of its own."""
        aliased = self.plan.signature.aliases
        inputs = [f"{p.name}_before" if i in aliased else p.name for i, p in enumerate(self.plan.inputs)]
        scratch = self.plan.scratch if self.scratch else ()
        return [*inputs, *(p.name for p in self.plan.outputs), *(p.name for p in scratch)]

    def __str__(self) -> str:
        names = [out.name for out in self.plan.outputs]
        lines = [f"{self.plan.name} as pl.pallas_call for {self.backend}"]
        lines.append(f"  grid = ({', '.join(f'{axis}={size}' for axis, size in self.grid)})")
        lines += [f"  in {window.name}: {window}" for window in self.windows]
        lines += [
            f"  out {name}: {spec}, {shape.dtype}{list(shape.shape)}"
            for name, spec, shape in zip(names, self.results, self.out_shape, strict=True)
        ]
        lines += [
            f"  scratch {planned.name}: {made}"
            for planned, made in zip(self.plan.scratch, self.scratch, strict=bool(self.scratch))
        ]
        lines += [f"  alias {self.plan.inputs[i].name} -> {names[o]}" for i, o in self.plan.signature.aliases.items()]
        semantics = getattr(self.compiler_params, "dimension_semantics", None)
        lines += [f"  dimension_semantics = {semantics}"] if semantics else []
        lines += [f"  cost_estimate = {self.cost}"] if self.cost is not None else []
        return "\n".join(lines)


def split(plan: Plan, refs: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    """Pallas's refs as inputs, outputs and scratch."""
    first, second = len(plan.inputs), len(plan.inputs) + len(plan.outputs)
    return refs[:first], refs[first:second], refs[second:]
