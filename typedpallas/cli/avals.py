"""``--args "bf16[1024,1024], i32[]"``: the shapes and element types that a function is checked with."""

import re
from dataclasses import dataclass
from typing import Any

from typedpallas import dtypes
from typedpallas.cli.names import UsageError, nearest, pointed

_ITEM = re.compile(r"\s*(?P<dtype>\w+)\s*(?P<dims>\[[^\[\]]*\])?\s*")


@dataclass(frozen=True)
class Aval:
    """One argument: JAX's name of the element type, and the shape in elements."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{dtypes.short(self.dtype)}[{','.join(map(str, self.shape))}]"


def parse_avals(text: str, option: str = "--args") -> tuple[Aval, ...]:
    """The arguments written in ``text``, separated by commas outside brackets.

    Raises:
        UsageError: the text means nothing; it is shown with carets under the part.
    """
    found: list[Aval] = []
    position = 0
    while position < len(text) and text[position:].strip():
        match = _ITEM.match(text, position)
        if match is None:
            raise pointed(f"{option}: expected an argument such as `f32[8,128]`", text, position)
        found.append(_aval(match, text, option))
        position = match.end()
        if position < len(text):
            if text[position] != ",":
                raise pointed(f"{option}: expected a comma or the end", text, position)
            position += 1
    return tuple(found)


def _aval(match: re.Match[str], text: str, option: str) -> Aval:
    name, dims = match["dtype"], match["dims"]
    marker = dtypes.from_name(name) or dtypes.from_jax_name(name) or dtypes.from_name(f"{name}_")
    if marker is None:
        known = [m.__name__ for m in dtypes.MARKERS]
        hint = str(nearest(name, known, "element type"))
        raise pointed(f"{option}: {hint}", text, match.start("dtype"), len(name))
    if dims is None:
        hint = f"{option}: `{name}` has no shape: write `{name}[8,128]`, or `{name}[]` for a scalar"
        raise pointed(hint, text, match.start("dtype"), len(name))
    return Aval(marker.jax_name, _shape(dims, text, match.start("dims"), option))


def _shape(dims: str, text: str, start: int, option: str) -> tuple[int, ...]:
    inner = dims[1:-1]
    if not inner.strip():
        return ()
    shape = []
    position = start + 1
    for part in inner.split(","):
        word = part.strip()
        if not re.fullmatch(r"\d[\d_]*", word):
            at = position + len(part) - len(part.lstrip())
            found = f"`{word}`" if word else "nothing"
            raise pointed(f"{option}: expected a size in elements, found {found}", text, at, len(word))
        shape.append(int(word))
        position += len(part) + 1
    return tuple(shape)


def parse_blocks(text: str) -> dict[str, int]:
    """``BM=512,BK=512`` as a mapping.

    Raises:
        UsageError: a part is not ``NAME=SIZE``.
    """
    sizes: dict[str, int] = {}
    position = 0
    for part in text.split(","):
        word = part.strip()
        at = position + len(part) - len(part.lstrip())
        match = re.fullmatch(r"([A-Za-z_]\w*)\s*=\s*(\d[\d_]*)", word)
        if match is None:
            raise pointed("--blocks: expected `NAME=SIZE`, such as `BM=512`", text, at, len(word))
        if match[1] in sizes:
            raise pointed(f"--blocks: `{match[1]}` is given twice", text, at, len(word))
        sizes[match[1]] = int(match[2])
        position += len(part) + 1
    return sizes


def to_jax(avals: tuple[Aval, ...]) -> list[Any]:
    """The arguments as `jax.ShapeDtypeStruct`."""
    import jax
    import jax.numpy as jnp

    wide = [aval for aval in avals if aval.dtype in ("int64", "uint64", "float64")]
    if wide and not jax.config.jax_enable_x64:
        raise UsageError(f"--args: `{wide[0]}` needs 64-bit types: set JAX_ENABLE_X64=1")
    struct: Any = jax.ShapeDtypeStruct
    return [struct(aval.shape, jnp.dtype(aval.dtype)) for aval in avals]
