"""A generated kernel as a person would write it for typedpallas: the same module, its kernel's refs annotated."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from typedpallas import dtypes
from typedpallas.tracing.walk import KernelCall, Operand

type Style = Literal["literal", "generic"]
"""Sizes as numbers, or as the kernel's own dims: then a checker that sees no launch must decide for all of them."""

_HEAD = """from typing import Any
from typing import Literal as L

import typedpallas as tp
from typedpallas import In, Out, Scratch, gpu, tpu
"""
_DIRECTIONS = {"prefetch": "In", "in": "In", "out": "Out", "scratch": "Scratch"}


def annotated(source: str, arguments: Sequence[Any], kernels: Sequence[KernelCall], style: Style) -> str | None:
    """``source`` with annotations; none where a kernel's definition is not found in it.

    The annotations say what a trace of the plain module on ``arguments`` saw, so that launch and kernel fit each
    other. Arrays outside of the kernel have their sizes in both styles.
    """
    lines = source.splitlines()
    defined = {node.name: node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)}
    for kernel in kernels:
        node = defined.get((kernel.source or "").split(" at ")[0])
        begin = _begin(node.body[0]) if node is not None else 0
        if node is None or begin == node.lineno:
            return None
        first, last = node.lineno - 1, begin - 1
        lines[first:last] = [_header(node, kernel, style), *[""] * (last - first - 1)]
    return _HEAD + _run_typed("\n".join(lines), arguments) + "\n"


def _begin(statement: ast.stmt) -> int:
    """The first line of a statement; of a decorated function, its first decorator's."""
    decorators = statement.decorator_list if isinstance(statement, ast.FunctionDef) else []
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _run_typed(source: str, arguments: Sequence[Any]) -> str:
    """The runner with a signature, where it names its arrays, so that the launch knows them."""
    node = next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == "run")
    if node.args.vararg is not None:
        return source
    names = [argument.arg for argument in node.args.args if argument.arg != "interpret"]
    typed = [f"{name}: {_array(argument)}" for name, argument in zip(names, arguments, strict=True)]
    wanted = ", ".join([*typed, "interpret: Any = False"])
    lines = source.splitlines()
    lines[node.lineno - 1] = f"def run({wanted}) -> Any:"
    return "\n".join(lines)


def _array(argument: Any) -> str:
    sizes = "".join(f", L[{size}]" for size in argument.shape)
    return f"tp.Array[tp.{dtypes.short(argument.dtype.name)}{sizes}]"


def _header(node: ast.FunctionDef, kernel: KernelCall, style: Style) -> str:
    refs = {operand.name: operand for operand in kernel.operands}
    dims: dict[int, str] = {}
    named = dims if style == "generic" else None
    parts = [f"{arg.arg}{_annotation(refs.get(arg.arg), named)}" for arg in node.args.args]
    if node.args.vararg is not None:
        parts.append(f"*{node.args.vararg.arg}: Any")
    parameters = f"[{', '.join(_bounds(dims))}]" if dims else ""
    return f"def {node.name}{parameters}({', '.join(parts)}) -> None:"


def _annotation(operand: Operand | None, dims: dict[int, str] | None) -> str:
    """``: In[tpu.VMEM, tp.f32, L[8], L[128]]``; of a ref whose kind has no annotation, none."""
    if operand is None or operand.space is None or operand.shape is None or None in operand.shape:
        return ""
    module = operand.space.__module__.rpartition(".")[2]
    if module not in ("tpu", "gpu"):
        return ""
    element = [] if operand.dtype is None or not operand.space.data else [f"tp.{dtypes.short(operand.dtype)}"]
    sizes = [_dim(size, dims) for size in operand.shape if size is not None]
    kind = _DIRECTIONS[operand.role]
    return f": {kind}[{', '.join([f'{module}.{operand.space.__name__}', *element, *sizes])}]"


def _dim(size: int, dims: dict[int, str] | None) -> str:
    if dims is None or size < 2:
        return f"L[{size}]"
    return dims.setdefault(size, f"D{len(dims)}")


def _bounds(dims: dict[int, str]) -> Iterator[str]:
    """Each dim with the largest power of two that divides its size, as its author would promise it."""
    for size, name in dims.items():
        power = size & -size
        yield f"{name}: tp.Multiple[L[{power}]]" if power > 1 else f"{name}: tp.Dim"
