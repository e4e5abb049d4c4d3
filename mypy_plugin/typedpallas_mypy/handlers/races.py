"""Programs of a plain `pl.pallas_call` that store to one block of an output at once, each its own values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mypy import nodes as n

from typedpallas import chips, gpu, tpu
from typedpallas.chips import Machine
from typedpallas.events import IndexMap, Visits
from typedpallas.spaces import MemorySpace
from typedpallas_mypy import config, report
from typedpallas_mypy.handlers.body_tree import Body
from typedpallas_mypy.handlers.calls_kernel import NO_FACTS, Parameter
from typedpallas_mypy.handlers.calls_site import Part, Site
from typedpallas_mypy.handlers.calls_source import Source, arguments, function_name
from typedpallas_mypy.handlers.specs import Spec

type Pairs = Sequence[tuple[Parameter, Part]]

_SPACES: Final[dict[Machine, type[MemorySpace]]] = {"tpu": tpu.VMEM, "gpu": gpu.GMEM}


def judge(source: Source, site: Site, function: n.FuncDef, pairs: Pairs, given: Mapping[str, n.Expression]) -> None:
    """Judge every output that several programs certainly store to; ``given``: the arguments of the call."""
    machines = {chips.get(name).machine for name in config.targets()} & _meant_for(source, pairs, given)
    if site.grid is None or not machines or "input_output_aliases" in given:
        return
    body: Body | None = None
    for parameter, part in pairs:
        if part.role != "out" or not isinstance(part.given, Spec) or part.given.index_map is None:
            continue
        for machine in machines:
            axes = [axis for axis in _parallel(source, site, given, machine) if _shares(site, part.given, axis)]
            body = body or (Body(function) if axes else None)
            for axis in [axis for axis in axes if body is not None and _differs(body, parameter, pairs, axis)][:1]:
                event = _event(parameter, part.given, site, axis, machine)
                report.judge(source.api, event, NO_FACTS, {"": part.given.node})


def _meant_for(source: Source, pairs: Pairs, given: Mapping[str, n.Expression]) -> set[Machine]:
    """The machines for which a call may be: those of its refs, its scratch and its compiler parameters."""
    machines = set(_SPACES)
    if "compiler_params" in given:
        name = function_name(source.definition(given["compiler_params"]))
        machines &= {"gpu"} if "gpu" in name or "triton" in name else {"tpu"} if ".mosaic." in name else set()
    for parameter, part in pairs:
        for space in (parameter.ref.space, part.semaphore, getattr(part.given, "space", None)):
            if isinstance(space, type) and issubclass(space, MemorySpace) and space.machine is not None:
                machines &= {space.machine}
        if parameter.ref.space is None:
            return set()
    return machines


def _parallel(source: Source, site: Site, given: Mapping[str, n.Expression], machine: Machine) -> Iterator[int]:
    """The grid axes whose programs may run at once: on a GPU all, but those that are declared otherwise."""
    declared = _declared(source, given)
    if declared is None:
        return
    for axis in range(len(site.grid or ())):
        how = declared[axis] if axis < len(declared) else ""
        if how == "parallel" or (machine == "gpu" and not how):
            yield axis


def _declared(source: Source, given: Mapping[str, n.Expression]) -> tuple[str, ...] | None:
    """The semantics of the grid axes, in lower case; empty if nothing is said of them, none if that is not known."""
    if "compiler_params" not in given:
        return ()
    call = source.definition(given["compiler_params"])
    if not isinstance(call, n.CallExpr) or not function_name(call).endswith("CompilerParams"):
        return None
    named = arguments(call, ())
    if named is None or "dimension_semantics" not in named:
        return None if named is None else ()
    items = source.items(named["dimension_semantics"])
    words = [_word(source.definition(item)) for item in items or ()]
    return None if items is None or None in words else tuple(word for word in words if word is not None)


def _word(expression: n.Expression) -> str | None:
    if isinstance(expression, n.StrExpr):
        return expression.value
    return expression.name.lower() if isinstance(expression, n.NameExpr | n.MemberExpr) else None


def _shares(site: Site, spec: Spec, axis: int) -> bool:
    """Whether all programs along an axis surely visit the same blocks, and there are several."""
    extent = site.grid[axis] if site.grid is not None else None
    values = spec.index_map.values if spec.index_map is not None else None
    if extent is None or extent.const is None or extent.const < 2 or not values or spec.block is None:
        return False
    ids = {f"g{k}" for k in range(len(site.grid or ()))}
    known = all(value is not None and value.names <= ids for value in values)
    return (
        known and len(values) == len(spec.block) and not any(v is not None and f"g{axis}" in v.names for v in values)
    )


# ---------------------------------------------------------------------- the body


def _differs(body: Body, output: Parameter, pairs: Pairs, axis: int) -> bool:
    """Whether the one store to an output, which every program makes, is of something that changes along an axis."""
    variable = body.parameter(output.ref.name)
    uses = [mention for mention in body.mentions(variable) if mention.use != "look"] if variable is not None else []
    store = body.parents[uses[0].whole] if len(uses) == 1 and uses[0].use == "store" else None
    if not isinstance(store, n.AssignmentStmt) or body.parents[store] is not body.function.body:
        return False
    index = uses[0].whole.index if isinstance(uses[0].whole, n.IndexExpr) else None
    if not isinstance(index, n.EllipsisExpr) or any(isinstance(s, n.ReturnStmt) for s in body.nodes):
        return False
    moving = {p.ref.name for p, part in pairs if part.role == "in" and _moves(part, axis)}
    return any(_loads(body, name, store) for name in moving)


def _moves(part: Part, axis: int) -> bool:
    values = (
        part.given.index_map.values if isinstance(part.given, Spec) and part.given.index_map is not None else None
    )
    return bool(values) and any(v is not None and f"g{axis}" in v.names for v in values or ())


def _loads(body: Body, name: str, store: n.AssignmentStmt) -> bool:
    """Whether what is stored is computed from a load of the ref of this name, all in one expression."""
    variable = body.parameter(name)
    loads = [mention.whole for mention in body.mentions(variable) if mention.use == "load"] if variable else []
    return any(store in body.above(load) and _matters(body, load, store) for load in loads)


def _matters(body: Body, load: n.Node, store: n.AssignmentStmt) -> bool:
    """Whether a value surely reaches the result: through arithmetic, sums and conversions alone, no choice."""
    for above in body.above(load):
        if above is store:
            return True
        if not _passes_on(above):
            return False
    return False


def _passes_on(above: n.Node) -> bool:
    if isinstance(above, n.OpExpr):
        numbers = [side.value for side in (above.left, above.right) if isinstance(side, n.IntExpr | n.FloatExpr)]
        return above.op in ("+", "-", "@") or (above.op in ("*", "/") and bool(numbers) and 0 not in numbers)
    if isinstance(above, n.CallExpr):
        name = above.callee.name if isinstance(above.callee, n.MemberExpr) else function_name(above)
        return name.rpartition(".")[2] in _PASSING_ON
    return isinstance(above, n.MemberExpr) and above.name in _PASSING_ON


_PASSING_ON: Final = frozenset(["T", "astype", "dot", "exp", "log", "matmul", "negative", "reshape", "sum", "tanh"])


def _event(output: Parameter, spec: Spec, site: Site, axis: int, machine: Machine) -> IndexMap:
    rank = len(site.grid or ())
    first, second = (0,) * rank, tuple(int(k == axis) for k in range(rank))
    values = spec.index_map.values if spec.index_map is not None else None
    origin = {f"g{k}": 0 for k in range(rank)}
    block = tuple(value.evaluate(origin) if value is not None else 0 for value in values or ())
    return IndexMap(
        name=output.ref.name,
        role="out",
        grid=site.grid,
        parameters=rank,
        results=len(block),
        block=tuple("squeezed" if d.squeezed else d.size for d in spec.block or ()),
        array=(None,) * len(block),
        visits=Visits(complete=False, shared=(first, second, block, axis)),
        collides="yes",
        space=_SPACES[machine],
    )
