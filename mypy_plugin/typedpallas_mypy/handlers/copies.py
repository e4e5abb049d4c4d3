"""Calls that copy between refs or count on semaphores: what goes where, and which semaphore counts it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mypy import nodes as n
from mypy.plugin import FunctionContext, FunctionSigContext, MethodContext
from mypy.types import CallableType, Instance, LiteralType, Type, TypeVarType, get_proper_type

from typedpallas import dtypes, tpu
from typedpallas.events import Access, Copied, Event, RefFact, SemaphoreMisuse
from typedpallas.records import record
from typedpallas.spaces import MemorySpace
from typedpallas_mypy import report, scope
from typedpallas_mypy.facts import ANY, Types
from typedpallas_mypy.handlers.calls_source import Source, arguments, function_name
from typedpallas_mypy.hooks import Hook, Hooks

_COPIES: Final = ("copy", "sync_copy", "async_copy", "make_async_copy", "async_remote_copy", "make_async_remote_copy")
_STARTED: Final = tuple(f"primitives.{name}" for name in _COPIES[2:])
_COUNTS: Final = ("semaphore_signal", "semaphore_wait", "semaphore_read")
_PLACES: Final = {"src_ref": "src", "dst_ref": "dst", "sem_or_view": "sem", "send_sem": "sem"}
"""Pallas's names of the arguments, and ours."""
_KINDS: Final = {tpu.DMA: "a DMA semaphore", tpu.REGULAR: "a regular semaphore", tpu.BARRIER: "a barrier semaphore"}
_ANY_KIND: Final = tuple(_KINDS)


@record(frozen=True)
class Given:
    """An argument that is a typed ref, and where it is written."""

    ref: RefFact
    kind: Instance
    place: n.Expression


type _Found = tuple[Event, str]
"""An event and the argument that it blames."""


def given(
    types: Types, names: Sequence[str | None], args: Sequence[Sequence[n.Expression]], kinds: Sequence[Sequence[Type]]
) -> dict[str, Given]:
    """The arguments that are typed refs, by name."""
    found: dict[str, Given] = {}
    for name, expressions, actual in zip(names, args, kinds, strict=False):
        kind = get_proper_type(actual[0]) if len(actual) == 1 else None
        ref = types.ref(kind, shown(expressions[0])) if kind is not None else None
        if name is not None and ref is not None and isinstance(kind, Instance):
            found[_PLACES.get(name, name)] = Given(ref, kind, expressions[0])
    return found


def shown(expression: n.Expression) -> str:
    """How messages call a ref, or a view of it: the ref's own name."""
    while isinstance(expression, n.IndexExpr | n.MemberExpr):
        expression = expression.base if isinstance(expression, n.IndexExpr) else expression.expr
    return expression.name if isinstance(expression, n.NameExpr) else "the ref"


# ---------------------------------------------------------------------- events


def _events(types: Types, name: str, found: Mapping[str, Given]) -> Iterator[_Found]:
    """What is to be judged of a call of the function of this name."""
    if name in _COUNTS:
        kinds = _ANY_KIND if name == "semaphore_read" else (tpu.REGULAR, tpu.BARRIER)
        words = "a semaphore" if name == "semaphore_read" else "a regular or barrier semaphore"
        if "sem" in found:
            yield from _semaphore(types, found["sem"], "sem", f"`pl.{name}`", kinds, words)
        return
    for part in ("sem", "recv_sem"):
        if part in found:
            yield from _semaphore(types, found[part], part, "a copy", (tpu.DMA,), "a DMA semaphore")
    if not name.startswith("make_"):
        yield from _moved(found, remote="remote" in name)


def _moved(found: Mapping[str, Given], *, remote: bool) -> Iterator[_Found]:
    """The ends of a copy that is started; those of one that is only waited for say just how much it counts."""
    ends = {part: found[part] for part in ("src", "dst") if part in found}
    misused = [part for part, end in ends.items() if end.ref.space is not None and not end.ref.space.data]
    for part in misused:
        use = "a copy from it" if part == "src" else "a copy to it"
        ref = ends[part].ref
        yield SemaphoreMisuse(name=ref.name, kind=_kind(ref), use=use, wanted="a buffer"), part
    if misused:
        return
    if "dst" in ends and ends["dst"].ref.direction == "in" and not remote:
        yield Access(op="store", ref=replace(ends["dst"].ref, space=None, dtype=None, shape=None), moved=None), "dst"
    if len(ends) == 2:
        whole = all(isinstance(end.place, n.NameExpr) for end in ends.values())
        yield Copied(source=ends["src"].ref, target=ends["dst"].ref, remote=remote, whole=whole), ""


def _semaphore(
    types: Types, semaphore: Given, part: str, use: str, kinds: Sequence[type[MemorySpace]], wanted: str
) -> Iterator[_Found]:
    """A ref in the place of a semaphore: of which kind it is, and whether it is a single one."""
    ref, space = semaphore.ref, semaphore.ref.space
    if space is None or space.machine != "tpu":
        return
    if space not in kinds and space is not tpu.Semaphore:
        yield SemaphoreMisuse(name=ref.name, kind=_kind(ref), use=use, wanted=wanted), part
    elif extents := _extents(types, semaphore.kind):
        yield (
            SemaphoreMisuse(name=ref.name, kind=f"an array of shape ({extents})", use=use, wanted="one semaphore"),
            part,
        )


def _kind(ref: RefFact) -> str:
    """What a ref is called where something else is wanted."""
    if ref.space is not None and not ref.space.data:
        return next((words for kind, words in _KINDS.items() if issubclass(ref.space, kind)), "a semaphore")
    return "a buffer" if ref.dtype is None else f"a buffer of {dtypes.short(ref.dtype)}"


def _extents(types: Types, kind: Instance) -> str:
    """The dims of an array of semaphores as a tuple shows them; empty for a single one, and where that is unknown."""
    base = types.ref_instance(kind)
    dims = [get_proper_type(argument) for argument in base.args[1:]] if base is not None else []
    if not dims or not all(isinstance(dim, LiteralType) or _is_dim(dim) for dim in dims):
        return ""
    sizes = [str(types.size(dim)) for dim in dims]
    return f"{sizes[0]}," if len(sizes) == 1 else ", ".join(sizes)


def _is_dim(kind: Type) -> bool:
    """Whether a type is a dim of the function around; the class has a parameter where nothing is written."""
    bound = get_proper_type(kind.upper_bound) if isinstance(kind, TypeVarType) else None
    return isinstance(bound, Instance) and bound.type.fullname == "builtins.int"


# ---------------------------------------------------------------------- hooks


def _of_pallas(context: FunctionContext) -> Type:
    """A call of one of Pallas's own functions, which take anything; its type stays as it was."""
    call = context.context
    callee = call.callee if isinstance(call, n.CallExpr) else None
    if isinstance(callee, n.RefExpr) and scope.typed(context.api):
        types = Types(context.api)
        found = given(types, context.callee_arg_names, context.args, context.arg_types)
        _judged(context, types, found, _events(types, callee.fullname.rpartition(".")[2], found))
    return context.default_return_type


def _start(context: MethodContext) -> Type:
    """``copy.start()``: where the copy is made in sight, its ends are judged there."""
    call = context.context
    if isinstance(call, n.CallExpr) and isinstance(call.callee, n.MemberExpr) and scope.typed(context.api):
        source = Source(context.api, Types(context.api))
        made = source.definition(call.callee.expr)
        name = function_name(made)
        if isinstance(made, n.CallExpr) and name.rpartition(".")[2].startswith("make_"):
            named = arguments(made, ("src", "dst", "sem", "recv_sem", "device_id", "device_id_type")) or {}
            known = {part: kind for part, e in named.items() if (kind := source.type_of(e)) is not None}
            found = given(source.types, list(known), [[named[p]] for p in known], [[k] for k in known.values()])
            _judged(context, source.types, found, _moved(found, remote="remote" in name))
    return context.default_return_type


def _ours(context: FunctionSigContext) -> CallableType:
    """A call of one of our own functions: what a rule refuses is not refused again by the argument's type."""
    signature, call = context.default_signature, context.context
    callee = call.callee if isinstance(call, n.CallExpr) else None
    if not isinstance(callee, n.RefExpr) or not scope.typed(context.api):
        return signature
    types = Types(context.api)
    kinds = [[context.api.get_expression_type(e) for e in expressions] for expressions in context.args]
    found = given(types, signature.arg_names, context.args, kinds)
    refused = _judged(context, types, found, _events(types, callee.fullname.rpartition(".")[2], found))
    pairs = zip(signature.arg_names, signature.arg_types, strict=True)
    return signature.copy_modified(arg_types=[ANY if name in refused else kind for name, kind in pairs])


def _judged(context: Any, types: Types, found: Mapping[str, Given], events: Iterable[_Found]) -> set[str]:
    """Judge a call; the arguments that a rule refuses."""
    refused = set()
    places: dict[str, n.Context] = {part: one.place for part, one in found.items()}
    for event, part in events:
        where = {"": places.get(part, context.context), "value": places.get("src", context.context)}
        if report.judge(context.api, event, types.facts, where):
            refused.add(part)
    return refused


_PALLAS: Final[dict[str, Hook]] = {
    **{
        f"jax._src.pallas.mosaic.{module}.{name}": _of_pallas
        for module in ("primitives", "helpers")
        for name in _COPIES
    },
    **{f"jax._src.pallas.primitives.{name}": _of_pallas for name in _COUNTS},
}

HOOKS: Hooks = Hooks(
    functions=_PALLAS,
    methods={
        "jax._src.pallas.mosaic.primitives.AsyncCopyDescriptor.start": _start,
        "typedpallas._tpu_copies.Copy.start": _start,
    },
    function_signatures={
        **{f"typedpallas._tpu_copies.{name}": _ours for name in _COPIES},
        **{f"typedpallas._tpu_semaphores.{name}": _ours for name in _COUNTS},
    },
)
