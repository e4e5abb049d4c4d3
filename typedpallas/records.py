"""Frozen dataclasses that are quick to define: for a type checker `record` is `dataclasses.dataclass` itself.

`dataclasses` compiles six methods for every class, half a millisecond in all. mypy is started anew for each run and
the plugin imports some 120 classes, of which it makes a dozen. So here only ``__init__`` is compiled, with the first
instance, and the other methods are shared. That nothing is assigned later is up to the type checker: without checks
at run time instances are made in half the time too.
"""

import dataclasses
import operator
from typing import TYPE_CHECKING, Any

__all__ = ["record"]

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:
    from collections.abc import Callable

    def record(*, frozen: bool, kw_only: bool = False, repr: bool = True) -> Callable[[type], type]:
        """`dataclasses.dataclass` with these options; instances compare and hash by their fields.

        Raises:
            TypeError: not frozen; a class whose instances change is better an ordinary dataclass.
        """
        if not frozen:
            raise TypeError("a record is frozen: write `@record(frozen=True)`, or use `dataclasses.dataclass`")

        def made(cls: type) -> type:
            own = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
            own.__init__ = _compiled_later(own)
            own._fields_of_record = _getter([item.name for item in dataclasses.fields(own)])
            for name, method in _SHARED.items():
                if name not in vars(cls) and (repr or name != "__repr__"):
                    setattr(own, name, method)
            return own

        return made


def _compiled_later(own: type) -> Any:
    """An ``__init__`` that puts the compiled one in its place."""

    def __init__(self: Any, *args: Any, **keywords: Any) -> None:
        compiled = _compiled_init(own)
        own.__init__ = compiled  # type: ignore[misc]
        compiled(self, *args, **keywords)

    return __init__


def _compiled_init(own: type) -> Any:
    """``__init__(self, ...)`` from the fields of a class, as `dataclasses` writes it."""
    scope: dict[str, Any] = {}
    parameters: dict[bool, list[str]] = {False: ["self"], True: []}
    body = ["pass"]
    for item in dataclasses.fields(own):
        default, value = "", item.name
        if item.default is not dataclasses.MISSING:
            scope[f"_{item.name}"], default = item.default, f"=_{item.name}"
        elif item.default_factory is not dataclasses.MISSING:
            scope[f"_{item.name}"], default = item.default_factory, "=_MISSING"
            value = f"_{item.name}() if {item.name} is _MISSING else {item.name}"
        parameters[item.kw_only is True].append(item.name + default)
        body.append(f"self.{item.name} = {value}")
    if hasattr(own, "__post_init__"):
        body.append("self.__post_init__()")
    head = ", ".join([*parameters[False], *(["*", *parameters[True]] if parameters[True] else [])])
    scope["_MISSING"] = dataclasses.MISSING
    exec(f"def __init__({head}):\n " + "\n ".join(body), scope)
    return scope["__init__"]


def _getter(names: list[str]) -> Any:
    """What gives all fields of an instance as a tuple; no method, so it is called with the instance."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return staticmethod((lambda item: (getattr(item, names[0]),)) if names else lambda item: ())


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    fields = self._fields_of_record
    return fields(self) == fields(other)


def _hash(self: Any) -> int:
    return hash(self._fields_of_record(self))


def _repr(self: Any) -> str:
    pairs = zip(self.__dataclass_fields__, self._fields_of_record(self), strict=True)
    return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"


_SHARED = {"__eq__": _eq, "__hash__": _hash, "__repr__": _repr}
