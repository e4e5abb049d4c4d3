"""Sizes as JAX's symbolic dims and back. ``BM: Multiple[L[8]]`` enters as ``8*tp0_``, so that ``BM % 8`` is known."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from typedpallas.dims import Atom, Facts, Quotient, Size
from typedpallas_mypy import jaxapi
from typedpallas_mypy.canonical import over

_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)
_MANY_DIVISORS = 240
_TOKEN = re.compile(r"(?:(\d+)\*)?\btp(\d+)_(?!\w)")


class Symbols:
    """The symbols of one evaluation: one for each name and one for each unknown dim."""

    def __init__(self, names: list[str], facts: Facts, unknown: int) -> None:
        self._names = names
        self._multiples = [facts.multiple(name) for name in names]
        self._facts = facts
        made = jaxapi.symbols([f"tp{i}_" for i in range(len(names) + unknown)])
        self._dims = {name: step * symbol for name, step, symbol in zip(names, self._multiples, made, strict=False)}
        self._unknown = iter(made[len(names) :])

    def unknown(self) -> Any:
        """A fresh symbol for a dim of which nothing is known."""
        return next(self._unknown)

    def dim(self, size: Size) -> Any:
        """The symbolic dim (or the number) of a size."""
        return _evaluated(size, self._dims)

    def size(self, dim: Any) -> Size | None:
        """The size of a symbolic dim; none if it holds an unknown one or what a `Size` can't say."""
        if isinstance(dim, int):
            return Size.of(dim)
        try:
            return self._parsed(ast.parse(str(dim).replace("^", "**"), mode="eval").body)
        except (ValueError, SyntaxError, IndexError):
            return None

    def text(self, message: str) -> str:
        """JAX's words with the user's names in place of the symbols."""
        return _TOKEN.sub(self._token, message)

    def _token(self, match: re.Match[str]) -> str:
        count, index = int(match[1] or 1), int(match[2])
        if index >= len(self._names):
            return "?"
        return str(over(Size.of(self._names[index]) * count, self._multiples[index]))

    def _parsed(self, node: ast.expr) -> Size:
        """The size of an expression in JAX's notation.

        Raises:
            ValueError: a `Size` has no such thing, or an unknown dim is in it.
        """
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            left, right = self._parsed(node.left), self._parsed(node.right)
            return left + right if isinstance(node.op, ast.Add) else left - right
        size, by = self._product(node)
        return over(size, by)

    def _product(self, node: ast.expr) -> tuple[Size, int]:
        """A product as (size, number that it is still to be divided by): a symbol is its name over its multiple."""
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return Size.of(node.value), 1
        if isinstance(node, ast.Name):
            index = int(node.id[2:-1])
            if index >= len(self._names):
                raise ValueError("an unknown dim")
            return Size.of(self._names[index]), self._multiples[index]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            size, by = self._product(node.operand)
            return -size, by
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            (a, m), (b, n) = self._product(node.left), self._product(node.right)
            return a * b, m * n
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant):
            size, by = self._product(node.left)
            power = int(node.right.value)  # type: ignore[arg-type]
            return math.prod([size] * power, start=Size.of(1)), by**power
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "floordiv":
            numerator, denominator = (self._parsed(argument) for argument in node.args)
            return numerator // denominator, 1
        raise ValueError(f"no size: {ast.dump(node)}")


def witnesses(names: list[str], facts: Facts) -> list[dict[str, int]]:
    """Assignments of numbers to the names, all different: small with few divisors, large with many, either order.

    What breaks with all of them is broken for want of equal sizes. What some of them mend is a wish for a divisor or
    a bound, which the real sizes may grant. None if there are too many names.
    """
    primes = _PRIMES[: len(names)]
    if len(primes) < len(names):
        return []
    step = math.lcm(*(facts.multiple(name) for name in names))
    return [
        {name: step * factor * prime for name, prime in zip(names, order, strict=True)}
        for factor, order in ((1, primes), (_MANY_DIVISORS, primes), (_MANY_DIVISORS, primes[::-1]))
    ]


class Numbers:
    """The same face as `Symbols`, for one assignment of numbers."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self._values = values

    def dim(self, size: Size) -> Any:
        """The number of a size."""
        return size.evaluate(self._values)

    def unknown(self) -> Any:
        """There is no number for an unknown dim."""
        raise LookupError("an unknown dim has no number")


def _evaluated(size: Size, dims: Mapping[str, Any]) -> Any:
    total: Any = 0
    for monomial, count in size.terms:
        term: Any = count
        for atom in monomial:
            term = term * _atom(atom, dims, _evaluated)
        total = total + term
    return total


def _atom(atom: Atom, dims: Mapping[str, Any], value: Callable[[Size, Mapping[str, Any]], Any]) -> Any:
    if not isinstance(atom, Quotient):
        return dims[atom]
    numerator, denominator = value(atom.numerator, dims), value(atom.denominator, dims)
    return -(-numerator // denominator) if atom.up else numerator // denominator
