"""What the compilers say of a kernel's memory: libtpu in the compiled module, Mosaic GPU in the lowered launch."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from typedpallas import compilers

_CALL = 'custom_call_target="tpu_custom_call"'
_ARRAY = re.compile(r"\w+\[([\d,]*)\](\{[^}]*\})?")
_NAME = re.compile(r"%([\w.\-]+)")
_DEFINED = re.compile(r"^\s*(?:ROOT )?%([\w.\-]+) = (.*)$", re.MULTILINE)
_USED = re.compile(r'"used_scoped_memory_configs":\[\{"memory_space":"1","offset":"0","size":"(?P<size>\d+)"')
_GIVEN = re.compile(r'"scoped_memory_configs":\[\{"memory_space":"1","offset":"(?P<offset>\d+)"')
_IN_VMEM = "S(1)"
_LAUNCHED = re.compile(r"dynamic_shared_memory_size %(\w+)")

type Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Figure:
    """What libtpu says of one kernel."""

    results: Shapes
    size: int
    """Bytes of scoped VMEM that it used, from where the kernel's part begins."""
    kept_operands: tuple[bool, ...]
    """Which operands, counted as the call has them, are arrays that XLA keeps in VMEM."""
    kept_results: tuple[bool, ...]


def of_module(module: str) -> Iterator[Figure]:
    """The kernels of a compiled module.

    Beside the bytes that a kernel used stands an offset: XLA may give other programs the memory before it, and
    counts that too.
    """
    defined = {name: _type(rest) for name, rest in _DEFINED.findall(module)}
    for before, after in itertools.pairwise(module.split(_CALL)):
        line = before[before.rfind("\n") + 1 :]
        head, _, operands = line.partition("custom-call(")
        results = _type(head.partition(" = ")[2])
        used, given = _USED.search(after), _GIVEN.search(after)
        size = int(used["size"]) - int(given["offset"] if given else 0) if used else 0
        yield Figure(
            tuple(tuple(int(d) for d in dims.split(",") if d) for dims, _ in _ARRAY.findall(results)),
            max(size, 0),
            tuple(_IN_VMEM in defined.get(name, "") for name in _NAME.findall(operands)),
            tuple(_IN_VMEM in layout for _, layout in _ARRAY.findall(results)),
        )


def _type(text: str) -> str:
    """The type that a definition begins with: one array's, or a tuple's in parentheses."""
    if not text.startswith("("):
        return text.split(" ", 1)[0]
    depth = 0
    for end, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return text[: end + 1]
    return text


def shared_bytes(fn: Any, args: Any, target: str) -> list[int]:
    """The shared memory that each Mosaic GPU kernel asks for at its launch, in the order of the lowered module."""
    found = []
    for kernel in compilers.lower_for(fn, *args, target=target).kernels:
        launched = _LAUNCHED.search(kernel.text)
        size = re.search(rf"%{launched[1]} = arith\.constant (\d+) : i32", kernel.text) if launched else None
        if size is not None:
            found.append(int(size[1]))
    return found
