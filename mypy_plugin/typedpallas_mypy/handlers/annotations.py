"""Annotations: the public spellings become the nominal types of `_static`, dims are looked at one by one."""

from typing import cast

from mypy.nodes import TypeInfo
from mypy.plugin import AnalyzeTypeContext
from mypy.semanal import SemanticAnalyzer
from mypy.typeanal import TypeAnalyser
from mypy.types import AnyType, RawExpressionType, Type, TypeOfAny, UnboundType

from typedpallas_mypy import names
from typedpallas_mypy.facts import Types
from typedpallas_mypy.hooks import Hook, Hooks


def _rewrite(name: str) -> Hook:
    """``In[VMEM, f32, BM]`` to the hidden `In`; ``Block[...]`` and ``Array[...]`` to the hidden `Block`."""
    hidden = names.STATIC + ("Block" if name == "Array" else name)
    public = names.REFS + name

    def rewritten(context: AnalyzeTypeContext) -> Type:
        analyser, written = cast(TypeAnalyser, context.api), context.type
        semantic = cast(SemanticAnalyzer, analyser.api)
        at_home = semantic.cur_mod_id == names.REFS.rstrip(".")
        node = analyser.lookup_fully_qualified(public if at_home else hidden).node
        if not isinstance(node, TypeInfo):
            return AnyType(TypeOfAny.special_form)
        if not at_home and name in names.DIRECTIONS:
            _remind(analyser, semantic, written)
        written.args = tuple(_dim(analyser, argument) for argument in written.args)
        analysed = analyser.analyze_type_with_type_info(node, written.args, written, False)
        return _canonical(semantic, analysed) if name in names.ARITHMETIC else analysed

    return rewritten


_REMINDED: dict[str, int] = {}
"""The line of the reminder in each file."""


def _remind(analyser: TypeAnalyser, semantic: SemanticAnalyzer, written: UnboundType) -> None:
    """Say, once in a file, that mypy was told to leave out a part of most kernels."""
    module, line = semantic.cur_mod_id, written.line
    unchecked = not (semantic.options.check_untyped_defs or semantic.options.disallow_untyped_defs)
    if unchecked and not semantic.is_stub_file and line <= _REMINDED.get(module, line):
        _REMINDED[module] = line
        text = "set `check_untyped_defs = true`: without it mypy skips `def _():` under `@pl.when` and `@pl.loop`"
        analyser.note(text, written)


def _canonical(semantic: SemanticAnalyzer, dim: Type) -> Type:
    """The one type of all the ways to write a size: ``Mul[BM, L[2]]`` and ``Add[BM, BM]`` are ``Mul[L[2], BM]``."""
    types = Types(semantic)
    size = types.size(dim)
    return dim if size is None else types.dim(size)


def _dim(analyser: TypeAnalyser, argument: Type) -> Type:
    """An argument as written; a bare number is refused with the spelling that every type checker takes."""
    if not isinstance(argument, RawExpressionType):
        return argument
    value = argument.literal_value
    if type(value) is int:
        analyser.fail(f"write the dim {value} as `L[{value}]`, where L is typing.Literal", argument)
    else:
        forms = "`L[128]`, a type parameter, or `Mul`, `Add`, `FloorDiv`, `CDiv` of these"
        analyser.fail(f"expected a dim: {forms}", argument)
    return AnyType(TypeOfAny.from_error)


HOOKS: Hooks = Hooks(
    types={names.REFS + name: _rewrite(name) for name in (*names.DIRECTIONS, "Block", "Array", *names.ARITHMETIC)}
)
