"""What an argument is, as far as the source says: the vocabulary between mypy's expressions and JAX's evaluation.

Everything is hashable, so that a call can be a cache key.
"""

from typedpallas.dims import Size
from typedpallas.records import record
from typedpallas_mypy.value import Value


class UnknownType:
    """The one value that means: nothing is known."""

    def __repr__(self) -> str:
        return "?"


NOTHING = UnknownType()


@record(frozen=True)
class Named:
    """A module-level name, by its full name: ``jax.numpy.float32``."""

    fullname: str


@record(frozen=True)
class DTypeOf:
    """The element type of a value, as an argument: ``x.dtype``."""

    value: Value


@record(frozen=True)
class Like:
    """A ref where a function wants only a shape and an element type: ``jnp.zeros_like(acc)``."""

    value: Value


@record(frozen=True)
class AnyInt:
    """A number whose value is not known, where a shape or an axis may need it."""


@record(frozen=True)
class Group:
    """A tuple, a list, or a dict with names as keys."""

    kind: str
    items: tuple["Static", ...]
    keys: tuple[str, ...] = ()


@record(frozen=True)
class Cut:
    """A slice as written."""

    start: "Static"
    stop: "Static"
    step: "Static"


@record(frozen=True)
class Window:
    """``pl.ds(start, size)`` as an index; ``size`` counts elements after the stride. Without a stride, ``start``."""

    size: "Static"
    start: "Static" = NOTHING


@record(frozen=True)
class Constant:
    """A literal; the type is part of it, because ``1 == 1.0 == True``."""

    value: object
    kind: type

    @staticmethod
    def of(value: object) -> "Constant":
        """The constant of a literal."""
        return Constant(value, type(value))


type Static = Constant | Size | Value | Named | DTypeOf | Like | AnyInt | Group | Cut | Window | UnknownType

type Leaf = Constant | Size | Value | Named | DTypeOf | Like | AnyInt | UnknownType


def leaves(item: Static) -> list[Leaf]:
    """Everything inside, flat."""
    if isinstance(item, Group):
        return [leaf for part in item.items for leaf in leaves(part)]
    if isinstance(item, Cut):
        return [leaf for part in (item.start, item.stop, item.step) for leaf in leaves(part)]
    if isinstance(item, Window):
        return [NOTHING]
    return [item]
