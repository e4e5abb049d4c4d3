"""Plain `pl.pallas_call` and its drop-in `tp.pallas_call`: specs, scratch and outputs against the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mypy import nodes as n
from mypy.plugin import FunctionContext
from mypy.types import Type

from typedpallas import tpu
from typedpallas.events import Argument, IndexMap, Operands, RefFact, Shape, Window
from typedpallas.spaces import MemorySpace
from typedpallas_mypy import report, version
from typedpallas_mypy.facts import Types
from typedpallas_mypy.handlers import bodies, calls_kernel, calls_site, races, slices_judged, slices_layouts, specs
from typedpallas_mypy.handlers.calls_bind import Binder, Given
from typedpallas_mypy.handlers.calls_kernel import NO_FACTS, Kernel, Parameter
from typedpallas_mypy.handlers.calls_site import Part, Site
from typedpallas_mypy.handlers.calls_source import Source
from typedpallas_mypy.handlers.slices_judged import Layout
from typedpallas_mypy.handlers.specs import Buffer, Spec
from typedpallas_mypy.hooks import Hooks

_CUTS: Final = frozenset(["grid", "grid_spec", "in_specs", "out_specs", "scratch_shapes"])
"""The arguments without any of which every ref is a whole array."""


def _hook(context: FunctionContext) -> Type:
    """Judge a call where it is written; its type stays as it was."""
    if not version.is_library(getattr(context.api, "path", "")):
        source = Source(context.api, Types(context.api))
        given = calls_site.given(context)
        site = calls_site.site(source, given, context.context) if given is not None else None
        if site is not None and given is not None:
            kind = context.arg_types[0][0] if context.arg_types[0] else None
            kernel = _judge(context.api, source, site, kind)
            expression = given.get("kernel", site.node)
            _judge_slices(source, site, kernel, kind, given)
            if kernel is not None:
                bodies.judge(source, kernel, expression, aliased="input_output_aliases" in given)
                _judge_races(source, site, kernel, expression, given)
            elif kind is not None:
                _judge_plain(source, site, calls_kernel.kernel_of(kind), expression)
    return context.default_return_type


def _judge_plain(source: Source, site: Site, kernel: Kernel | None, expression: n.Context) -> None:
    """The copies and signals of a kernel without annotations, on the semaphores that the call makes for it."""
    parts = site.parts()
    if kernel is None or kernel.annotated or kernel.variadic or parts is None:
        return
    if len(parts) == len(kernel.parameters) and any(part.semaphore is not None for part in parts):
        pairs = zip(kernel.parameters, parts, strict=True)
        own = [replace(p.ref, direction="scratch", space=part.semaphore) for p, part in pairs if part.semaphore]
        bodies.judge_copies(source, tuple(own), expression)


def _judge_races(
    source: Source, site: Site, kernel: Kernel, expression: n.Context, given: Mapping[str, n.Expression]
) -> None:
    """Outputs that several programs store to at once; no grid, no other program."""
    function, parts = bodies.function_of(source, expression), site.parts()
    if site.grid and function is not None and parts is not None and source.defines(function):
        races.judge(source, site, function, list(zip(kernel.taking(len(parts)), parts, strict=False)), given)


def _judge_slices(
    source: Source, site: Site, kernel: Kernel | None, kind: Type | None, given: Mapping[str, n.Expression]
) -> None:
    """The parts of refs that the kernel's body takes, as the specs lay them out; ``kernel``: if the call fits it."""
    whole = not set(given) & _CUTS
    known = kernel if kernel is not None or not whole or kind is None else calls_kernel.kernel_of(kind)
    function = None if known is None else slices_layouts.function_of(source, given.get("kernel", site.node))
    if known is None or function is None or not slices_layouts.on_tensor_core(source, given):
        return

    def layouts() -> Mapping[str, Layout]:
        parts = site.parts()
        if parts is None:
            return slices_layouts.of_whole(known)
        return slices_layouts.of_call(list(zip(known.taking(len(parts)), parts, strict=False)))

    slices_judged.launched(source.api, function, site.node, layouts, hinted=False)


def _judge(api: Any, source: Source, site: Site, kind: Type | None) -> Kernel | None:
    """Judge the call; the kernel, where the two fit each other as far as is known."""
    function = calls_kernel.function_of(kind) if kind is not None else None
    kernel = calls_kernel.kernel_of(function) if function is not None else None
    parts = site.parts()
    refs = _refs_of(kernel, parts)
    for position, part in enumerate(parts if parts is not None else _loose(site)):
        if isinstance(part.given, Spec):
            ref = refs.get(position) or RefFact(name=part.where, space=None, dtype=None, shape=None)
            _judge_index_map(api, source, site, part, ref)
    if kernel is not None and kernel.annotated and parts is None:
        report.unknown(api, site.node, f"the specs of this call of `{kernel.name}` are not there to read")
    if kernel is None or parts is None or not kernel.annotated or not _judge_count(api, site, kernel):
        return None
    pairs = list(zip(kernel.taking(len(parts)), parts, strict=False))
    _judge_blocks(api, source, kernel, pairs)
    for parameter, part in pairs:
        if parameter.ref.direction is not None:
            _judge_part(api, source, site, kernel, parameter, part)
    return kernel


def _refs_of(kernel: Kernel | None, parts: tuple[Part, ...] | None) -> dict[int, RefFact]:
    if kernel is None or parts is None:
        return {}
    return {position: parameter.ref for position, parameter in enumerate(kernel.taking(len(parts)))}


def _loose(site: Site) -> Iterator[Part]:
    """The specs whose place among the kernel's refs is not known."""
    for i, spec in enumerate(site.inputs or ()):
        yield Part("in", spec, where=f"in_specs[{i}]")
    for i, spec in enumerate(site.outputs or ()):
        yield Part("out", spec, where=f"out_specs[{i}]")


def _judge_index_map(api: Any, source: Source, site: Site, part: Part, ref: RefFact) -> None:
    """The index map against the grid and the block; where it leads only for blocks that a TPU kernel declares."""
    assert isinstance(part.given, Spec)
    index_map, block = part.given.index_map, part.given.block
    taken = _arguments_taken(site, index_map) if index_map is not None else None
    if index_map is None or site.grid is None or site.prefetch is None or taken is None:
        return
    results = index_map.results if block is not None else None
    rank = len(block or ())
    array = part.array.shape if part.array is not None else None
    in_blocks = all(dim.blocked for dim in block or ())  # the map of a `pl.Element` gives elements
    on_tpu = ref.space is not None and ref.space.machine == "tpu" and in_blocks
    event = IndexMap(
        name=ref.name,
        role="out" if part.role == "out" else "in",
        grid=site.grid,
        prefetched=site.prefetch,
        parameters=taken,
        results=results,
        block=tuple("squeezed" if d.squeezed else d.size for d in block or ()),
        array=array if array is not None and len(array) == rank else (None,) * rank,
        affine=_over_grid(index_map.values, len(site.grid)) if results == rank and on_tpu else None,
    )
    report.judge(api, event, source.types.facts, {"": index_map.node})


def _over_grid(values: Shape | None, rank: int) -> Shape | None:
    """The indices that depend on the grid alone: none for one that reads a prefetched ref."""
    ids = {f"g{axis}" for axis in range(rank)}
    return None if values is None else tuple(v if v is not None and v.names <= ids else None for v in values)


def _arguments_taken(site: Site, index_map: specs.IndexMapText) -> int | None:
    """How many arguments the map takes, of the numbers that it can take the one nearest to the grid's."""
    if site.grid is None or site.prefetch is None:
        return None
    wanted = len(site.grid) + site.prefetch
    if wanted < index_map.fewest:
        return index_map.fewest
    return wanted if index_map.most is None else min(wanted, index_map.most)


def _judge_count(api: Any, site: Site, kernel: Kernel) -> bool:
    """Whether kernel and call agree on how many refs there are."""
    parts, inputs = site.parts(), site.inputs
    if parts is None or inputs is None or site.prefetch is None or kernel.variadic:
        return not kernel.variadic
    known = site.arrays is not None and site.scratch is not None
    taking = kernel.taking(len(parts)) if known else kernel.parameters
    event = Operands(
        kernel=kernel.name,
        parameters=tuple((p.ref.name, p.ref.direction) for p in taking),
        inputs=site.prefetch + len(inputs),
        outputs=None if site.arrays is None else len(site.arrays),
        scratch=None if site.scratch is None else len(site.scratch),
        source="this call",
    )
    return not report.judge(api, event, NO_FACTS, {"": site.node})


def _judge_blocks(api: Any, source: Source, kernel: Kernel, pairs: Sequence[tuple[Parameter, Part]]) -> None:
    """The block of every parameter against its annotation, all together: they share type parameters."""
    given: list[Given] = []
    places: list[dict[str, n.Context]] = []
    for parameter, part in pairs:
        dims = part.given.ref if isinstance(part.given, Spec) else part.given.dims if part.given else None
        if parameter.ref.direction is None or dims is None or part.given is None:
            continue
        what = "the scratch shape" if part.role == "scratch" else "the block"
        given.append(Given(parameter, tuple(dim.size for dim in dims), what))
        own: dict[str, n.Context] = {f"block[{i}]": dim.node for i, dim in enumerate(dims)}
        places.append({**own, "": part.given.node})
    for position, event, blame in Binder(kernel).bind(given):
        own = places[position]
        report.judge(api, event, source.types.facts, {**own, "": own.get(blame, own[""])})


def _judge_part(api: Any, source: Source, site: Site, kernel: Kernel, parameter: Parameter, part: Part) -> None:
    """Space and element type against the annotation, and the block against the tiles of the targets."""
    ref = replace(parameter.ref, shape=None)
    spec = part.given if isinstance(part.given, Spec) else None
    if spec is not None:
        event = Argument(kernel=kernel.name, ref=ref, source=_space_source(spec), space=_space(site, spec, ref))
        report.judge(api, event, NO_FACTS, {"": spec.space_node})
        _judge_window(api, source, site, parameter.ref, part, spec)
    buffer = part.given if isinstance(part.given, Buffer) else part.array
    if buffer is not None:
        event = Argument(kernel=kernel.name, ref=ref, source="", space=buffer.space, dtype=buffer.dtype)
        report.judge(api, event, NO_FACTS, {"": buffer.dtype_node, "space": buffer.node})


def _space(site: Site, spec: Spec, ref: RefFact) -> type[MemorySpace] | None:
    """The space that a spec asks for. Without one it is VMEM on a TensorCore, and not known on other machines.

    A SparseCore's scalar subcore has SMEM there; which core it is, the compiler parameters say.
    """
    if spec.space != "default":
        return spec.space
    if ref.space is None or ref.space.machine != "tpu" or (ref.space is tpu.SMEM and site.parameters):
        return None
    return tpu.VMEM


def _space_source(spec: Spec) -> str:
    return "a block spec without `memory_space`" if spec.space == "default" else ""


def _judge_window(api: Any, source: Source, site: Site, ref: RefFact, part: Part, spec: Spec) -> None:
    block = spec.block
    if block is None or any(dim.squeezed is None or not dim.blocked for dim in block):
        return
    array = part.array.shape if part.array is not None else None
    event = Window(
        name=ref.name,
        role="out" if part.role == "out" else "in",
        space=_space(site, spec, ref) or ref.space,
        dtype=ref.dtype,
        block=tuple("squeezed" if dim.squeezed else dim.size for dim in block),
        array=array if array is not None and len(array) == len(block) else (None,) * len(block),
        ragged=None,
        block_names=tuple(dim.node.name if isinstance(dim.node, n.NameExpr) else None for dim in block),
    )
    places: dict[str, n.Context] = {f"block[{i}]": dim.node for i, dim in enumerate(block)}
    report.judge(api, event, source.types.facts, {**places, "": spec.node})


HOOKS: Hooks = Hooks(
    functions={calls_site.PALLAS_CALL: _hook, "pallas_call": _hook, "typedpallas._launch.pallas_call": _hook},
)
