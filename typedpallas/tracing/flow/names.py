"""Names of whole numbers and truth values that hang on data: what two of them have in common.

Two scalars of one name are the same number, whatever it is: loads of one element that nothing ever writes, what is
computed from such loads in one way, one variable in one turn of everything around it. What hangs on memory that the
kernel itself writes has no name: a flag that it sets may well be the same in every run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow import numbers
from typedpallas.tracing.flow.numbers import Number, exact

_DEEPEST = 40
"""Operations one after the other in a name; what has more stays without one."""


@dataclass(frozen=True)
class Leaf:
    """A number that comes from memory, or from an operation that is not followed.

    ``kind`` is that of its type in numpy; ``label`` is what messages call it, if anything.
    """

    key: tuple[Any, ...]
    kind: str = field(compare=False)
    label: str = field(default="", compare=False)
    depth: int = field(default=0, compare=False)


@dataclass(frozen=True, eq=False)
class Made:
    """What an operation makes of others. What is made alike is one object, of all the walks of a kernel."""

    operation: tuple[str, ...]
    parts: "tuple[Name | int | float, ...]"
    kind: str
    depth: int
    eqn: Any
    steps: bool = False
    """Whether it also hangs on the grid step, or on the turn of a loop."""


STEP = Leaf(("step",), "i")
"""The name of numbers that are known, and others at other steps or turns."""

type Name = Leaf | Made
type IsData = Callable[[Any], bool]


def _kind(var: Any) -> str:
    return str(getattr(getattr(var.aval, "dtype", None), "kind", ""))


def _steps(name: "Name | None") -> bool:
    return name is STEP or (isinstance(name, Made) and name.steps)


def parts(*names: "Name | float") -> "dict[Name, None]":
    """Names, and what they are made of."""
    found: dict[Name, None] = {}
    todo = list(names)
    while todo:
        name = todo.pop()
        if isinstance(name, Leaf | Made) and name not in found:
            found[name] = None
            todo.extend(name.parts if isinstance(name, Made) else ())
    return found


def constants(name: "Name") -> Iterator[int]:
    """The whole numbers in a name."""
    for part in parts(name):
        yield from (number for number in (part.parts if isinstance(part, Made) else ()) if isinstance(number, int))


def value(name: "Name | float", known: "Mapping[Name, int]") -> Number:
    """What it is where others are known."""
    found: dict[Any, Number] = {part: (number, number) for part, number in known.items()}

    def of(part: "Name | float") -> Number:
        if isinstance(part, int):
            return part, part
        if isinstance(part, Made) and part not in found:
            operands = [of(operand) for operand in part.parts]
            negates = part.operation[0] == "not"
            found[part] = numbers.negated(part.eqn, operands[0]) if negates else numbers.result(part.eqn, operands)
        return found.get(part)

    return of(name)


@dataclass(frozen=True)
class Question:
    """A branch or a loop that starts copies or waits for them, and hangs on a number that is not known.

    ``place``: the equation and where it is. ``turn``: before which turn of a loop nothing is known any more.
    """

    eqn: Any = field(compare=False)
    place: tuple[int, tuple[Any, ...]]
    name: Name | None
    turn: int | None = None


@dataclass
class Naming:
    """The names that a walk gives.

    ``written``: buffers that something is stored to; ``moving``: windows that show other elements at other steps.
    ``assumed``: what unknown numbers are taken to be; ``turns``: how many turns a loop at a place is taken to make.
    ``here``: in which turn of everything around it the walk is; none if in several at once.
    """

    written: frozenset[int] = frozenset()
    moving: frozenset[int] = frozenset()
    assumed: "Mapping[Name, int]" = field(default_factory=dict)
    turns: Mapping[Any, int] = field(default_factory=dict)
    here: tuple[Any, ...] | None = None
    made: dict[Any, Made] = field(default_factory=dict)

    def inside(self, *more: Any) -> tuple[Any, ...] | None:
        """The place of what is inside this one."""
        return None if self.here is None else (*self.here, *more)

    def leaf(self, var: Any) -> Leaf | None:
        """The name of a variable by itself."""
        return None if self.here is None else Leaf((id(var), self.here), _kind(var))

    def result(
        self, eqn: Any, operands: "Sequence[tuple[Number, Name | None]]", found: Number, is_data: IsData
    ) -> Any:
        """The number that an equation makes, and its name where that is not known.

        ``operands`` are the numbers and names of its operands; ``is_data`` tells whether a variable hangs on data.
        """
        steps = any(_steps(name) for _, name in operands)
        if exact(found) is not None or not is_data(eqn.outvars[0]):
            return found, STEP if steps and exact(found) is not None else None
        parts = [self._part(atom, *operand) for atom, operand in zip(eqn.invars, operands, strict=True)]
        known = [part for part in parts if part is not None]
        depth = 1 + max((part.depth for part in known if isinstance(part, Leaf | Made)), default=0)
        if len(known) < len(parts) or depth > _DEEPEST or eqn.effects:
            return self.settled(found, self.leaf(eqn.outvars[0]))
        operation = eqn.primitive.name, str(eqn.outvars[0].aval.dtype), str(sorted(eqn.params.items(), key=str))
        key = operation, tuple(known)
        name = self.made.setdefault(key, Made(*key, _kind(eqn.outvars[0]), depth, eqn, steps))
        return self.settled(found, name)

    def _part(self, atom: Any, number: Number, name: "Name | None") -> "Name | float | None":
        known = exact(number)
        if known is not None:
            return known
        if jaxapi.is_literal(atom):
            return float(atom.val) if getattr(atom.aval, "shape", None) == () else None
        return name or self.leaf(atom)

    def settled(self, found: Number, name: "Name | None") -> "tuple[Number, Name | None]":
        """A number, or what one of its name is taken to be."""
        assumed = None if name is None else self.assumed.get(name)
        return (found, name) if assumed is None else ((assumed, assumed), None)


def is_data(naming: Naming, made: Mapping[Any, Any], frame: Mapping[Any, Any], var: Any) -> bool:
    """Whether a variable hangs on what the kernel is given, and on nothing that it writes itself.

    ``made`` has the equation of each variable of the jaxpr, ``frame`` what variables stand for.
    """
    found, todo, seen = False, [var], set()
    while todo:
        atom = todo.pop()
        if jaxapi.is_literal(atom) or atom in seen:
            continue
        seen.add(atom)
        bound = frame.get(atom)
        if bound is not None and exact(bound.number) is not None:
            continue
        if bound is not None and bound.buffer is not None:
            if bound.buffer.role != "in" or bound.buffer.number in naming.written:
                return False
            found = True
        elif bound is not None and bound.name is not None:
            found = True
        elif (atom is not var and numbers.is_number(atom)) or not _only_computes(made.get(atom)):
            return False
        else:
            todo.extend(made[atom].invars)
    return found


def _only_computes(eqn: Any) -> bool:
    """Whether an equation does nothing but compute, and load."""
    return eqn is not None and all(type(effect).__name__ == "ReadEffect" for effect in eqn.effects)
