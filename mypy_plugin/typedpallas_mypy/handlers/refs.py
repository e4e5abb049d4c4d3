"""Refs: loads, stores, ``.at``, and what their attributes say."""

from __future__ import annotations

from typing import Any, Literal

from mypy.nodes import Context as Place
from mypy.nodes import Expression, NameExpr
from mypy.plugin import AttributeContext, MethodContext
from mypy.types import Instance, Type, UnionType, get_proper_type

from typedpallas.events import Access, Operation, RefFact, Shape
from typedpallas_mypy import names, report
from typedpallas_mypy.answer import dims
from typedpallas_mypy.evaluate import Evaluator
from typedpallas_mypy.facts import ANY, Types
from typedpallas_mypy.handlers import slices, slices_judged
from typedpallas_mypy.hooks import Hooks
from typedpallas_mypy.index import TooManyIndices, selected
from typedpallas_mypy.static import Constant, Static
from typedpallas_mypy.value import one

type Op = Literal["load", "store", "view"]


def _load(context: MethodContext) -> Type:
    """``x[...]``: a load event; the result is the block that the index selects."""
    types = Types(context.api)
    ref = types.ref(context.type, _name(context.context))
    if ref is None or not _holds_data(ref):
        return context.default_return_type
    moved = _selected(context.api, types, ref, context.args[0][0], context.arg_types[0][0], "load")
    slices_judged.note(context.api, types, ref, context.context, "load")
    places: dict[str, Place] = {"": context.context, "index": context.args[0][0]}
    report.judge(context.api, Access(op="load", ref=ref, moved=moved), types.facts, places)
    return types.block(one(ref.dtype, moved, types.element_parameter(context.type)))


def _store(context: MethodContext) -> Type:
    """``o[...] = v``: a store event, blamed on the value or the index that is wrong."""
    types = Types(context.api)
    ref = types.ref(context.type, _name(context.context))
    if ref is None or not _holds_data(ref):
        return context.default_return_type
    moved = _selected(context.api, types, ref, context.args[0][0], context.arg_types[0][0], "store")
    slices_judged.note(context.api, types, ref, context.context, "store")
    _judge_store(context, types, ref, moved, value=context.args[1][0], kind=context.arg_types[1][0])
    return context.default_return_type


def _judge_store(
    context: MethodContext, types: Types, ref: RefFact, moved: Shape | None, *, value: Expression, kind: Type
) -> None:
    """A store event; one for each item if the value's type is a union."""
    places: dict[str, Place] = {"": context.context, "value": value if value.line > 0 else context.context}
    index = getattr(context.context, "index", None)
    if isinstance(index, Expression):
        places["index"] = index
    proper = get_proper_type(kind)
    kinds = list(proper.items) if isinstance(proper, UnionType) else [proper]
    stored = [_stored(types, ref, item) for item in kinds]
    events = [Access(op="store", ref=ref, moved=moved, value_shape=s, value_dtype=d) for s, d in stored]
    report.judge_any(context.api, events, types.facts, places)


def _method_load(context: MethodContext) -> Type:
    """``x.get(idx)`` and the result of ``x.swap(v, idx)``."""
    types = Types(context.api)
    ref = types.ref(context.type, _name(context.context))
    if ref is None or not _holds_data(ref):
        return context.default_return_type
    moved = _moved(context, types, ref, "load")
    report.judge(context.api, Access(op="load", ref=ref, moved=moved), types.facts, {"": context.context})
    return types.block(one(ref.dtype, moved, types.element_parameter(context.type)))


def _method_store(context: MethodContext) -> Type:
    """``x.set(v, idx)`` and ``x.addupdate(v, idx)``."""
    types = Types(context.api)
    ref = types.ref(context.type, _name(context.context))
    if ref is None or not _holds_data(ref) or not context.args[0]:
        return context.default_return_type
    moved = _moved(context, types, ref, "store")
    _judge_store(context, types, ref, moved, value=context.args[0][0], kind=context.arg_types[0][0])
    return context.default_return_type


def _method_swap(context: MethodContext) -> Type:
    """``x.swap(v, idx)``: a store, and a load of what was there."""
    _method_store(context)
    return _method_load(context)


def _moved(context: MethodContext, types: Types, ref: RefFact, op: Op) -> Shape | None:
    """What the ``idx`` of a method selects; all of the ref without one."""
    where = context.callee_arg_names.index("idx")
    if not context.args[where]:
        return ref.shape
    return _selected(context.api, types, ref, context.args[where][0], context.arg_types[where][0], op)


def _stored(types: Types, ref: RefFact, kind: Type) -> tuple[Shape | None, str | None]:
    """The shape and the element type with which a value arrives at a ref, as far as they are known.

    JAX converts between integers of any width, and a Python number to the ref's own element type within a family
    (`jax._src.state.primitives`, implicit casts of `ref_swap`). Nothing else is converted.
    """
    fact = types.value(kind)
    if fact is None:
        return None, None
    integral = _is_integer(ref.dtype)
    if not fact.weak:
        return fact.shape, ref.dtype if integral and _is_integer(fact.dtype) else fact.dtype
    if fact.dtype == "int" and (ref.dtype or "").startswith(("float", "bfloat")):
        return (), "int32"
    return (), "float32" if fact.dtype == "float" and integral else None


def _is_integer(dtype: str | None) -> bool:
    return (dtype or "").startswith(("int", "uint"))


def _at(context: MethodContext) -> Type:
    """``x.at[...]``: a ref of the selected shape."""
    types = Types(context.api)
    holder = get_proper_type(context.type)
    own = get_proper_type(holder.args[0]) if isinstance(holder, Instance) and holder.args else None
    ref = types.ref(own, _name(context.context)) if own is not None else None
    if ref is None or not isinstance(own, Instance):
        return context.default_return_type
    if not _holds_data(ref):
        return own.copy_modified(args=[own.args[0], ANY])  # a semaphore, of an array of unknown shape
    shape = _selected(context.api, types, ref, context.args[0][0], context.arg_types[0][0], "view")
    slices_judged.note(context.api, types, ref, context.context, "view")
    return types.like(own, shape)


def _selected(api: Any, types: Types, ref: RefFact, index: Expression, kind: Type, op: Op) -> Shape | None:
    """The shape that an index selects; one that is too long, or that leads outside, is an error."""
    item: Static = Evaluator(api, types).static(index, kind)
    if isinstance(item, Constant) and item.value is ...:
        return ref.shape
    try:
        shape = selected(ref.shape, item, types.facts)
        beyond = None if op == "view" else slices.slice_of(ref, item, op)
        if beyond is not None:
            report.judge(api, beyond, types.facts, {"": index})
        if shape is None and ref.shape is not None:
            report.unknown(api, index, f"what this index selects from `{ref.name}` is not known for all sizes")
        return shape
    except TooManyIndices as error:
        event = Operation(
            function=f"{ref.name}[...]",
            operands=(f"{ref.dtype or '?'}[{dims(ref.shape)}]",),
            refusal=f"{error} indices for a ref of rank {len(ref.shape or ())}",
            kind="shape",
        )
        report.judge(api, event, types.facts, {"": index})
        return None


def _holds_data(ref: RefFact) -> bool:
    return ref.space is None or ref.space.data


def _name(place: Place) -> str:
    """How the user calls the ref in ``x[...]``, ``x.at[...]`` or ``x.get()``."""
    base: Any = place
    while base is not None and not isinstance(base, NameExpr):
        base = next((inner for part in ("callee", "expr", "base") if (inner := getattr(base, part, None))), None)
    return base.name if base is not None else "the ref"


def _at_attribute(context: AttributeContext) -> Type:
    """``x.at`` remembers the direction of ``x``."""
    own = get_proper_type(context.type)
    if not isinstance(own, Instance):
        return context.default_attr_type
    return Types(context.api).instance(names.STATIC + "At", [own])


def _shape(context: AttributeContext) -> Type:
    """``x.shape``, as `handlers.blocks` gives it for values."""
    types = Types(context.api)
    ref = types.ref(context.type)
    if ref is None or ref.shape is None:
        return context.default_attr_type
    return types.shape_tuple(ref.shape, plain=not context.api.options.allow_redefinition)


_CLASSES = tuple(names.STATIC + name for name in names.DIRECTIONS)

HOOKS: Hooks = Hooks(
    methods={
        **{f"{name}.__getitem__": _load for name in _CLASSES},
        **{f"{name}.__setitem__": _store for name in _CLASSES},
        **{f"{name}.get": _method_load for name in _CLASSES},
        **{f"{name}.set": _method_store for name in _CLASSES},
        **{f"{name}.addupdate": _method_store for name in _CLASSES},
        **{f"{name}.swap": _method_swap for name in _CLASSES},
        names.STATIC + "At.__getitem__": _at,
    },
    attributes={
        **{f"{name}.at": _at_attribute for name in _CLASSES},
        **{f"{name}.shape": _shape for name in _CLASSES},
    },
)
