"""Blocks: operators, methods, indices and attributes of typed arrays."""

from __future__ import annotations

from mypy.nodes import TempNode
from mypy.plugin import AttributeContext, MethodContext
from mypy.types import Instance, Type, get_proper_type

from typedpallas_mypy import answer, names, scope
from typedpallas_mypy.answer import Answer, Argument
from typedpallas_mypy.facts import Types
from typedpallas_mypy.hooks import Hook, Hooks

_BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
    "and": "&",
    "or": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
    "divmod": "divmod",
}
_COMPARISONS = {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">="}
_UNARY = {"neg": "-", "pos": "+", "abs": "abs", "invert": "~"}
_OPERATOR_NAMES = {"and": "and_", "or": "or_"}


def method(fullname: str) -> Hook | None:
    """The hook for any method of a typed array, and of a plain one inside a kernel."""
    owner, _, name = fullname.rpartition(".")
    if owner == names.ARRAY:
        return _plain_array
    if owner != names.BLOCK:
        return None
    word = name.strip("_")
    if not name.startswith("__"):
        return lambda context: _method(context, f"method:{name}", f".{name}")
    if word in _BINARY or word in _COMPARISONS:
        operator = _OPERATOR_NAMES.get(word, word)
        return lambda context: _binary(context, operator, {**_BINARY, **_COMPARISONS}[word], swapped=False)
    if word[:1] == "r" and word[1:] in _BINARY:
        operator = _OPERATOR_NAMES.get(word[1:], word[1:])
        return lambda context: _binary(context, operator, _BINARY[word[1:]], swapped=True)
    if word in _UNARY:
        return lambda context: _method(context, f"operator:{word}", _UNARY[word])
    return _index if name == "__getitem__" else None


def _method(context: MethodContext, function: str, shown: str) -> Type:
    reply = Answer(context.api, context.context, context.default_return_type, shown, anew=True)
    passed = answer.arguments(context)
    if passed is None:
        return reply.unknown
    return reply.of(function, [(None, TempNode(context.type), context.type), *passed])


def _binary(context: MethodContext, operator: str, shown: str, *, swapped: bool) -> Type:
    passed = answer.arguments(context)
    reply = Answer(context.api, context.context, context.default_return_type, shown, anew=True)
    if passed is None or len(passed) != 1:
        return reply.unknown
    sides: list[Argument] = [(None, TempNode(context.type), context.type), *passed]
    return reply.of(f"operator:{operator}", sides[::-1] if swapped else sides)


def _index(context: MethodContext) -> Type:
    """``v[...]`` of a value: JAX's own indexing."""
    reply = Answer(context.api, context.context, context.default_return_type, "[...]", anew=True)
    passed = answer.arguments(context)
    if passed is None:
        return reply.unknown
    return reply.of("index:", [(None, TempNode(context.type), context.type), *passed])


def _plain_array(context: MethodContext) -> Type:
    """A method of a plain `jax.Array`: inside a kernel, what it gives has an unknown shape."""
    if not (answer.mentions(context) or scope.typed(context.api)):
        return context.default_return_type
    return answer.unknown(Types(context.api), context.default_return_type)


def _attribute(name: str) -> Hook:
    """``v.T`` and its like."""

    def read(context: AttributeContext) -> Type:
        if not _is_block(context.type):
            return context.default_attr_type
        reply = Answer(context.api, context.context, context.default_attr_type, f".{name}", anew=True)
        return reply.of(f"attribute:{name}", [(None, TempNode(context.type), context.type)])

    return read


def _shape(context: AttributeContext) -> Type:
    """``v.shape`` as a tuple of dims; of plain integers where a variable keeps its first type for good."""
    types = Types(context.api)
    value = types.value(context.type) if _is_block(context.type) else None
    if value is None or value.shape is None:
        return context.default_attr_type
    return types.shape_tuple(value.shape, plain=not context.api.options.allow_redefinition)


def _is_block(kind: Type) -> bool:
    kind = get_proper_type(kind)
    return isinstance(kind, Instance) and kind.type.fullname == names.BLOCK


_OWNERS = (names.BLOCK, names.ARRAY)

HOOKS: Hooks = Hooks(
    attributes={
        **{f"{owner}.{name}": _attribute(name) for owner in _OWNERS for name in ("T", "mT", "real", "imag")},
        **{f"{owner}.shape": _shape for owner in _OWNERS},
    }
)
