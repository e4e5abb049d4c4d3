"""mypy's types as the rule book's facts, and back: dims and `Size`, refs and `RefFact`, blocks and `Value`.

None means unknown here as everywhere; mypy's side of it is `Any`, or ``*tuple[Any, ...]`` for a whole shape.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from mypy.maptype import map_instance_to_supertype
from mypy.nodes import TypeInfo
from mypy.types import (
    AnyType,
    Instance,
    LiteralType,
    TupleType,
    Type,
    TypeAliasType,
    TypeOfAny,
    TypeVarTupleType,
    TypeVarType,
    UnpackType,
    get_proper_type,
)

from typedpallas import dtypes
from typedpallas.dims import Atom, Facts, Monomial, Quotient, Size
from typedpallas.dtypes import DType
from typedpallas.events import RefFact, Shape
from typedpallas.spaces import MemorySpace
from typedpallas_mypy import names
from typedpallas_mypy.canonical import simplified
from typedpallas_mypy.seen import HasModules, RefParts, info, seen
from typedpallas_mypy.value import UNKNOWN, Value, bare_name, one

if TYPE_CHECKING:
    pass

ANY = AnyType(TypeOfAny.special_form)


class Types:
    """The translation for one hook call. It remembers which type each name in a `Size` came from."""

    def __init__(self, api: object) -> None:
        self.api = cast(HasModules, api)
        self._seen = seen(self.api)
        self._types: dict[str, TypeVarType] = {}
        self._facts: Facts | None = None

    # ------------------------------------------------------------------ mypy to facts

    def size(self, dim: Type) -> Size | None:
        """The size that a dim's type says, or none if it says none."""
        dim = get_proper_type(dim)
        if isinstance(dim, LiteralType):
            return Size.of(dim.value) if type(dim.value) is int else None
        if isinstance(dim, TypeVarType):
            return Size.of(self.name(dim)) if self.family(dim) is None else None
        if not isinstance(dim, Instance):
            return None
        if dim.last_known_value is not None:
            return self.size(dim.last_known_value)
        if dim.type.fullname == names.NUMBER and dim.args:
            return self.size(dim.args[0])
        if dim.type.fullname.startswith(names.STATIC) and dim.type.name in names.ARITHMETIC and len(dim.args) == 2:
            return self._arithmetic(dim.type.name, *dim.args)
        return None

    def _arithmetic(self, operator: str, left: Type, right: Type) -> Size | None:
        a, b = self.size(left), self.size(right)
        if a is None or b is None:
            return None
        if operator == "Mul":
            return a * b
        if operator == "Add":
            return a + b
        if b.const == 0:
            return None
        return a // b if operator == "FloorDiv" else a.cdiv(b)

    def name(self, parameter: TypeVarType) -> str:
        """The name that stands for a type parameter: its own, unless another parameter has taken it."""
        name = parameter.name
        while (taken := self._types.get(name)) is not None:
            if taken.id == parameter.id:
                return name
            name += "_"
        self._types[name] = parameter
        self._facts = None
        return name

    def _met(self, parameters: Iterable[TypeVarType]) -> bool:
        """Take type parameters by their own names; false if one of these names is another's already."""
        for parameter in parameters:
            known = self._types.get(parameter.name)
            if known is None:
                self._types[parameter.name] = parameter
                self._facts = None
            elif known is not parameter and known.id != parameter.id:
                return False
        return True

    def shape(self, dims: Iterable[Type]) -> Shape | None:
        """The shape that a list of dims says; none if it may have any rank."""
        shape: list[Size | None] = []
        for dim in dims:
            if isinstance(dim, UnpackType):
                inner = get_proper_type(dim.type)
                part = self.shape(inner.items) if isinstance(inner, TupleType) else None
                if part is None:
                    return None
                shape += part
            elif isinstance(dim, TypeVarTupleType):
                return None
            else:
                shape.append(self.size(dim))
        return tuple(shape)

    def ref_instance(self, kind: Type) -> Instance | None:
        """A ref's type seen as ``Ref[space, dtype, *shape]``, whatever its direction; none if it is no ref."""
        kind = get_proper_type(kind)
        if isinstance(kind, TypeVarType):
            kind = get_proper_type(kind.upper_bound)
        if not isinstance(kind, Instance):
            return None
        known = self._seen.bases
        if kind.type not in known:
            known[kind.type] = next((i for i in kind.type.mro if names.is_ours(i.fullname, "Ref")), None)
        base = known[kind.type]
        return None if base is None else map_instance_to_supertype(kind, base)

    def ref(self, kind: Type, name: str = "") -> RefFact | None:
        """The facts of a ref; none if the type is no ref's."""
        found = self._ref(kind)
        if found is None:
            return None
        return RefFact(name=name, space=found.space, dtype=found.dtype, shape=found.shape, direction=found.direction)

    def _ref(self, kind: Type) -> RefParts | None:
        refs = self._seen.refs
        known = refs.get(id(kind))
        if known is None or known[0] is not kind:
            fresh = Types(self.api)
            known = refs[id(kind)] = (kind, fresh._taken_apart(kind), tuple(fresh._types.values()))
        return known[1] if self._met(known[2]) else self._taken_apart(kind)

    def _taken_apart(self, kind: Type) -> RefParts | None:
        base = self.ref_instance(kind)
        own = get_proper_type(kind)
        if base is None or len(base.args) < 2:
            return None
        direction = names.direction(own.type) if isinstance(own, Instance) else None
        space, dtype = self.space(base.args[0]), self.dtype(base.args[1])
        unclear = space is None and dtype is None  # perhaps a semaphore, whose first dim stands where a type does
        return RefParts(
            base=base,
            space=space,
            dtype=dtype if isinstance(dtype, str) else None,
            shape=None if unclear else self.shape(base.args[2:]),
            direction=direction or "ref",
            parameter=dtype if isinstance(dtype, TypeVarType) else None,
        )

    def element_parameter(self, kind: Type) -> TypeVarType | None:
        """The type parameter that stands for the element type of a ref."""
        found = self._ref(kind)
        return None if found is None else found.parameter

    def space(self, kind: Type) -> type[MemorySpace] | None:
        """The memory space that a type stands for."""
        kind = get_proper_type(kind)
        return names.space(kind.type) if isinstance(kind, Instance) else None

    def dtype(self, kind: Type) -> str | TypeVarType | None:
        """JAX's name of an element type, or the type parameter that stands for one; none if unknown."""
        kind = get_proper_type(kind)
        if isinstance(kind, TypeVarType):
            return kind if self.family(kind) is not None else None
        marker = names.dtype(kind.type) if isinstance(kind, Instance) else None
        return (marker.jax_name or None) if marker is not None else None

    def family(self, parameter: TypeVarType) -> type[DType] | None:
        """The dtype family that bounds a type parameter; none if the parameter is a dim."""
        bound = get_proper_type(parameter.upper_bound)
        return names.dtype(bound.type) if isinstance(bound, Instance) else None

    def value(self, kind: Type) -> Value | None:
        """What is known of a value of this type; none if it is neither an array nor a number."""
        if not isinstance(kind, Instance) or kind.type.fullname != names.BLOCK:
            return self._value(kind)
        values = self._seen.values
        known = values.get(id(kind))
        if known is None or known[0] is not kind:
            fresh = Types(self.api)
            known = values[id(kind)] = (kind, fresh._value(kind), tuple(fresh._types.values()))
        return known[1] if self._met(known[2]) else self._value(kind)

    def _value(self, kind: Type) -> Value | None:
        kind = get_proper_type(kind)
        if isinstance(kind, TypeVarType):
            bound = get_proper_type(kind.upper_bound)
            return self.value(bound) if isinstance(bound, Instance) else None
        if isinstance(kind, LiteralType):
            return self.value(kind.fallback)
        if not isinstance(kind, Instance):
            return None
        if kind.type.fullname == names.BLOCK and kind.args:
            dtype = self.dtype(kind.args[0])
            shape = self.shape(kind.args[1:])
            if isinstance(dtype, TypeVarType):
                return one(None, shape, dtype)
            return one(dtype, shape)
        if kind.type.fullname == "builtins.bool":
            return one("bool", ())
        if kind.type.fullname in ("builtins.int", "builtins.float", "builtins.complex"):
            return Value(kind.type.name, (), weak=True)
        if kind.type.has_base("builtins.int"):
            return Value("int", (), weak=True)
        return UNKNOWN if kind.type.has_base(names.ARRAY) or kind.type.has_base("numpy.ndarray") else None

    @property
    def facts(self) -> Facts:
        """What the bounds of the type parameters seen so far promise."""
        if self._facts is None:
            self._facts = Facts(multiples={name: self._multiple(kind) for name, kind in self._types.items()})
        return self._facts

    def _multiple(self, parameter: TypeVarType) -> int:
        known = self._seen.multiples.get(id(parameter))
        if known is None or known[0] is not parameter:
            known = self._seen.multiples[id(parameter)] = (parameter, multiple_of(parameter))
        return known[1]

    # ------------------------------------------------------------------ facts to mypy

    def instance(self, fullname: str, args: Sequence[Type] = ()) -> Instance:
        """A class of this name applied to arguments."""
        known = self._seen.infos.get(fullname)
        return Instance(info(self.api, fullname) if known is None else known, list(args))

    def literal(self, value: int) -> Type:
        """``Literal[value]``."""
        return LiteralType(value, self.instance("builtins.int"))

    def dim(self, size: Size | None) -> Type:
        """The one type that says this size."""
        if size is None:
            return ANY
        name = bare_name(size)
        if name is not None:
            return self._types.get(name, ANY)
        size = simplified(size, self.facts)
        if size.const is not None:
            return self.literal(size.const)
        terms = [self._term(monomial, count) for monomial, count in size.terms]
        return functools.reduce(lambda a, b: self.instance(names.STATIC + "Add", [a, b]), terms)

    def _term(self, monomial: Monomial, count: int) -> Type:
        factors = [self._atom(atom) for atom in monomial]
        if count != 1 or not factors:
            factors.insert(0, self.literal(count))
        return functools.reduce(lambda a, b: self.instance(names.STATIC + "Mul", [a, b]), factors)

    def _atom(self, atom: Atom) -> Type:
        if isinstance(atom, Quotient):
            name = names.STATIC + ("CDiv" if atom.up else "FloorDiv")
            return self.instance(name, [self.dim(atom.numerator), self.dim(atom.denominator)])
        return self._types.get(atom, ANY)

    def dims(self, shape: Shape | None) -> list[Type]:
        """The type arguments that say this shape."""
        if shape is None:
            return [UnpackType(self.instance("builtins.tuple", [ANY]))]
        return [self.dim(size) for size in shape]

    def shape_tuple(self, shape: Shape, *, plain: bool = False) -> Type:
        """What ``x.shape`` is: a tuple of dims, or of ``plain`` integers."""
        integer = self.instance("builtins.int")
        items: list[Type] = []
        for size in shape:
            if size is None or plain:
                items.append(integer)
            elif size.const is not None:
                items.append(self.instance(names.NUMBER, [self.literal(size.const)]))
            else:
                items.append(self.dim(size))
        return TupleType(items, self.instance("builtins.tuple", [integer]))

    def dtype_type(self, value: Value) -> Type:
        """The type argument that says this value's element type; a weak one is said to be unknown."""
        if value.parameter is not None:
            return value.parameter
        if not value.dtype or value.weak:
            return ANY
        known = self._seen.markers
        if value.dtype not in known:
            marker = dtypes.from_jax_name(value.dtype)
            known[value.dtype] = ANY if marker is None else self.instance(self._marker(marker.__name__))
        return known[value.dtype]

    def _marker(self, name: str) -> str:
        """Where the stubs define an element type."""
        for module in ("typedpallas.dtypes", "typedpallas"):
            symbol = self.api.modules[module].names.get(name) if module in self.api.modules else None
            if symbol is not None and isinstance(symbol.node, TypeInfo):
                return symbol.node.fullname
        raise LookupError(f"the static face has no element type {name}")

    def block(self, value: Value) -> Instance:
        """``Block[dtype, *shape]``."""
        parameters = self._own(value) if value.plain else None
        if parameters is None:
            return self._block(value)
        key = (id(value), *map(id, parameters))
        known = self._seen.blocks.get(key)
        if known is None or known[0] is not value:
            made = self._block(value)
            known = self._seen.blocks[key] = (value, parameters, made)
            self._seen.values[id(made)] = (made, value, parameters)
        return known[2]

    def _block(self, value: Value) -> Instance:
        return self.instance(names.BLOCK, [self.dtype_type(value), *self.dims(value.shape)])

    def _own(self, value: Value) -> tuple[TypeVarType, ...] | None:
        """The type parameters that a value's shape names; none if some are unknown or have another's name."""
        found = []
        for name in value.names:
            known = self._types.get(name)
            if known is None or known.name != name:
                return None
            found.append(known)
        return tuple(found)

    def like(self, ref: Instance, shape: Shape | None) -> Instance:
        """A ref of the same class, space and element type as ``ref`` with another shape."""
        return Instance(ref.type, [*ref.args[:2], *self.dims(shape)])


def multiple_of(parameter: TypeVarType) -> int:
    """The divisor that the bound of a dim promises: 8 for ``BM: Multiple[L[8]]``, else 1."""
    bound = parameter.upper_bound
    if not isinstance(bound, TypeAliasType) or bound.alias is None or not bound.args:
        return 1
    divisor = get_proper_type(bound.args[0])
    if not names.is_ours(bound.alias.fullname, "Multiple") or not isinstance(divisor, LiteralType):
        return 1
    return divisor.value if type(divisor.value) is int and divisor.value > 0 else 1
