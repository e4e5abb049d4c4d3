"""Calls of functions whose own signature speaks of typedpallas: their dims are solved from the arguments.

mypy solves ``R`` from ``Block[f32, R]``; it can't solve ``Mul[L[2], R]``, does not know `Multiple`, and joins two
sizes that disagree instead of refusing them. What is solved here is put into the signature, and mypy goes on from
there. A formal that can't be decided takes what it is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mypy.expandtype import expand_type
from mypy.nodes import Expression
from mypy.plugin import FunctionSigContext, MethodSigContext
from mypy.types import (
    CallableType,
    Instance,
    ProperType,
    TupleType,
    Type,
    TypeVarId,
    TypeVarType,
    UnionType,
    UnpackType,
    get_proper_type,
)

from typedpallas import solve
from typedpallas.dims import Size
from typedpallas.events import DimSize
from typedpallas.records import record
from typedpallas_mypy import names, report, scope
from typedpallas_mypy.facts import ANY, Types, multiple_of
from typedpallas_mypy.handlers import helper_arguments
from typedpallas_mypy.handlers.helper_arguments import Passed, Solved
from typedpallas_mypy.hooks import Hook, Hooks

type SignatureContext = FunctionSigContext | MethodSigContext


def function(fullname: str) -> Hook | None:
    """The hook for any function that is not another library's. Methods of refs and blocks take no dims to solve."""
    if fullname.startswith(names.STATIC):
        return None
    root = fullname.partition(".")[0]
    return None if root in names.LIBRARIES_OF_OTHERS or root in ("jax", "numpy") else _solved


def _loosened(context: SignatureContext) -> CallableType:
    """A generic function that takes a function, called with blocks: what it gives back has an unknown shape.

    ``apply(f: Callable[[T], T], x: T) -> T`` is right about `jax.Array`, and wrong about shapes.
    """
    signature = context.default_signature
    assert isinstance(signature, CallableType)
    if not scope.typed(context.api):
        return signature
    functions = [kind for kind in map(get_proper_type, signature.arg_types) if isinstance(kind, CallableType)]
    shared = {parameter.id for kind in functions for parameter in _parameters(kind)}
    if not shared or not _given_blocks(context, signature):
        return signature
    taken = {position for position, kind in enumerate(signature.arg_types) if get_proper_type(kind) in functions}
    solving = _Solving(context.api, Types(context.api), solution=dict.fromkeys(shared, ANY))
    arguments = [ANY if position in taken else kind for position, kind in enumerate(signature.arg_types)]
    return signature.copy_modified(arg_types=arguments, ret_type=solving.put(signature.ret_type))


def _given_blocks(context: SignatureContext, signature: CallableType) -> bool:
    """Whether an argument that is no function holds typed arrays."""
    formals = zip(signature.arg_types, context.args, strict=True)
    plain = [es for formal, es in formals if not isinstance(get_proper_type(formal), CallableType)]
    return any(scope.speaks(context.api.get_expression_type(e)) for expressions in plain for e in expressions)


def _solved(context: SignatureContext) -> CallableType:
    signature = context.default_signature
    if not isinstance(signature, CallableType) or not scope.concerned(context.api):
        return signature
    if not scope.takes(signature):
        return _loosened(context)
    solving = _Solving(context.api, Types(context.api))
    for position, (formal, expressions) in enumerate(zip(signature.arg_types, context.args, strict=True)):
        for expression in expressions:
            solving.pair(position, get_proper_type(formal), expression)
    solving.solve()
    return helper_arguments.judged(context, solving.types, solving.applied(signature), solving.passed, solving.solved)


@record(frozen=True)
class _Dim:
    """One dim of a formal, the argument's dim there, and where it was written."""

    formal: Type
    actual: Type
    place: Expression


@dataclass
class _Solving:
    """The solving of one call."""

    api: Any
    types: Types
    dims: list[_Dim] = field(default_factory=list)
    solution: dict[TypeVarId, Type] = field(default_factory=dict)
    passed: list[Passed] = field(default_factory=list)
    solved: dict[TypeVarId, Solved] = field(default_factory=dict)
    gradual: dict[int, Type] = field(default_factory=dict)
    """Formals by position that take a plain array: what is passed is of unknown shape."""

    def pair(self, position: int, formal: ProperType, expression: Expression) -> None:
        """Note what one argument says about the formal's dims."""
        if not isinstance(formal, Instance) or not formal.type.fullname.startswith(names.STATIC):
            return
        actual = get_proper_type(self.api.get_expression_type(expression))
        if not isinstance(actual, Instance):
            return
        if formal.type.fullname == names.BLOCK and actual.type.fullname == names.ARRAY:
            self.gradual[position] = actual
            return
        self.passed.append(Passed(position, actual, expression))
        wanted, given = self._arguments(formal), self._arguments(actual)
        if wanted is not None and given is not None and len(wanted) == len(given):
            self.dims += [_Dim(w, g, expression) for w, g in zip(wanted, given, strict=True)]

    def _arguments(self, kind: Instance) -> list[Type] | None:
        """The element type and the dims; none if any rank fits."""
        ref = self.types.ref_instance(kind)
        arguments = list(ref.args[1:]) if ref is not None else list(kind.args)
        return None if any(isinstance(a, UnpackType) for a in arguments) else arguments

    def solve(self) -> None:
        """Find every parameter that an argument determines: first the bare ones, then ``2*A`` and its like."""
        for dim in self.dims:
            formal = get_proper_type(dim.formal)
            if isinstance(formal, TypeVarType) and formal.id not in self.solution:
                self._bind(formal, dim)
        for dim in self.dims:
            self._solve_sum(dim)

    def _bind(self, parameter: TypeVarType, dim: _Dim) -> None:
        size = self.types.size(dim.actual)
        if self.types.family(parameter) is not None:
            if self.types.dtype(dim.actual) is not None:
                self.solution[parameter.id] = dim.actual
        elif size is not None:
            self._bind_size(parameter, size, dim)

    def _bind_size(self, parameter: TypeVarType, size: Size, dim: _Dim) -> None:
        self.solution[parameter.id] = self.types.dim(size)
        self.solved[parameter.id] = Solved(parameter.name, size, dim.place)
        event = DimSize(
            dim=parameter.name, size=size, origin="what this argument has", multiple=multiple_of(parameter)
        )
        report.judge(self.api, event, self.types.facts, {"": dim.place})

    def _solve_sum(self, dim: _Dim) -> None:
        """``c*A + rest = size`` for the one parameter that is not yet known."""
        formal, size = get_proper_type(dim.formal), self.types.size(dim.actual)
        wanted = self.types.size(formal)
        if size is None or wanted is None or isinstance(formal, TypeVarType):
            return
        open_ = [p for p in _parameters(formal) if p.id not in self.solution]
        if len(open_) != 1:
            return
        name = self.types.name(open_[0])
        wanted = self._substituted(formal)
        if wanted is None:
            return
        terms = [(m, c) for m, c in wanted.terms if m == (name,)]
        rest = wanted - sum((Size((term,)) for term in terms), start=Size.of(0))
        if len(terms) != 1 or name in rest.names:
            return
        value = (size - rest).exactly_over(terms[0][1])
        if value is not None:
            self._bind_size(open_[0], value, dim)

    def _substituted(self, formal: Type) -> Size | None:
        """A formal's size with everything that is solved put in."""
        size = self.types.size(formal)
        if size is None:
            return None
        solved: dict[str, Size] = {}
        for parameter in _parameters(formal):
            if parameter.id in self.solution:
                value = self.types.size(self.solution[parameter.id])
                if value is None:
                    return None
                solved[self.types.name(parameter)] = value
        return size.substitute(dict(solved))

    # ------------------------------------------------------------------ putting it in

    def applied(self, signature: CallableType) -> CallableType:
        """The signature with what was solved put in."""
        arguments = [
            self.gradual.get(position) or self.put(kind) for position, kind in enumerate(signature.arg_types)
        ]
        left = {p.id for kind in arguments for p in _parameters(kind)}
        for variable in signature.variables:
            if isinstance(variable, TypeVarType) and variable.id not in left:
                self.solution.setdefault(variable.id, ANY)
        return signature.copy_modified(
            arg_types=arguments,
            ret_type=self.put(signature.ret_type),
            variables=[v for v in signature.variables if v.id not in self.solution],
        )

    def put(self, kind: Type) -> Type:
        """A type with what was solved put in; a dim that can't be decided becomes unknown."""
        proper = get_proper_type(kind)
        if isinstance(proper, TypeVarType):
            return self.solution.get(proper.id, kind)
        if isinstance(proper, Instance):
            if proper.type.fullname.startswith(names.STATIC) and proper.type.name in names.ARITHMETIC:
                return self._put_sum(proper)
            return proper.copy_modified(args=[self.put(argument) for argument in proper.args])
        if isinstance(proper, TupleType):
            fallback = self.put(proper.partial_fallback)
            assert isinstance(fallback, Instance)
            return proper.copy_modified(fallback=fallback, items=[self.put(item) for item in proper.items])
        if isinstance(proper, UnionType):
            return UnionType([self.put(item) for item in proper.items])
        return expand_type(kind, self.solution)

    def _put_sum(self, formal: Instance) -> Type:
        wanted = self._substituted(formal)
        if wanted is None or any(p.id not in self.solution for p in _parameters(formal)):
            return formal if self._is_impossible(formal) else ANY
        for dim in self.dims:
            given = self.types.size(dim.actual)
            if get_proper_type(dim.formal) is formal and given is not None:
                verdict = solve.equal(wanted, given, self.types.facts)
                if not isinstance(verdict, solve.Refuted):
                    return dim.actual
        return self.types.dim(wanted)

    def _is_impossible(self, formal: Instance) -> bool:
        """Whether no whole number makes a formal what it is given: ``2*A`` is never 255."""
        wanted = self._substituted(formal)
        given = [self.types.size(dim.actual) for dim in self.dims if get_proper_type(dim.formal) is formal]
        if wanted is None or not given or given[0] is None:
            return False
        names_ = [self.types.name(p) for p in _parameters(formal) if p.id not in self.solution]
        steps = [count for monomial, count in wanted.terms if any(name in monomial for name in names_)]
        rest = Size(tuple(term for term in wanted.terms if not any(name in term[0] for name in names_)))
        divisor = math.gcd(*steps)
        if divisor == 0 or rest.names & set(names_):
            return False
        return isinstance(solve.divides(divisor, given[0] - rest, self.types.facts), solve.Refuted)


def _parameters(kind: Type) -> Iterator[TypeVarType]:
    """Every type parameter in a type."""
    kind = get_proper_type(kind)
    if isinstance(kind, TypeVarType):
        yield kind
    elif isinstance(kind, Instance):
        for argument in kind.args:
            yield from _parameters(argument)
    elif isinstance(kind, TupleType | UnionType):
        for item in kind.items:
            yield from _parameters(item)
    elif isinstance(kind, UnpackType):
        yield from _parameters(kind.type)
    elif isinstance(kind, CallableType):
        for argument in (*kind.arg_types, kind.ret_type):
            yield from _parameters(argument)


HOOKS: Hooks = Hooks(function_signatures={"functools.reduce": _solved})
