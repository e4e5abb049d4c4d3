"""Where a slice starts, in the many ways that people write it: texts that JAX traces and that Python evaluates."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_FORMS = (
    *("i * U", "i * U", "U * i", "k * U", "k * U", "i * U + k * U", "(i + 1) * U", "i * U + U", "(i * U + 4) - 4"),
    *(
        "i * H * 2",
        "jnp.minimum(i * U, U)",
        "jnp.minimum(k * U, U)",
        "jnp.maximum(i * U, U)",
        "jnp.clip(k * U, 0, U)",
    ),
    *("jnp.where(i > 0, U, 0)", "jnp.where(k > 0, k * U, 0)", "lax.rem(k * U, 2 * U)", "(i % 2) * U", "(k // 2) * U"),
    *("k * 2 * U // 2", "lax.div(k * 2 * U, 2)", "k << 3", "(k * U) & ~7", "pl.num_programs(0) * U - U - i * U"),
    *("pl.multiple_of(i * U, U)", "pl.multiple_of(s[0], U)", "pl.multiple_of(s[0], U) + U", "s[1] * U", "s[0]"),
    *(
        "i * U + 1",
        "k * U + 3",
        "i",
        "k",
        "i * k * U",
        "abs(k * U)",
        "k * U - i * U",
        "2 * U - k * U",
        "s[1] * U + k",
    ),
    *("lax.cond(i > 0, lambda: U, lambda: 0)", "i * U + s[1] * U", "pl.cdiv(k, 2) * U", "3", "U", "0", "7 * U"),
    *("lax.cond(i > 0, lambda: i * U, lambda: 0)", "lax.cond(k > 0, lambda: k * U, lambda: k * U)"),
    *("lax.fori_loop(0, 2, lambda _, at: at + U, 0)", "lax.fori_loop(0, i, lambda _, at: at + U, 0)"),
)


class _Numbers:
    """What the texts name of `jax.numpy`, `jax.lax` and Pallas, on numbers."""

    minimum = staticmethod(min)
    maximum = staticmethod(max)

    def __init__(self, programs: int) -> None:
        self.programs = programs

    def num_programs(self, _: int) -> int:
        """The grid's extent."""
        return self.programs

    @staticmethod
    def clip(value: int, low: int, high: int) -> int:
        """Between two bounds."""
        return min(max(value, low), high)

    @staticmethod
    def where(which: bool, chosen: int, otherwise: int) -> int:
        """One of two."""
        return chosen if which else otherwise

    @staticmethod
    def cond(which: bool, chosen: Any, otherwise: Any) -> Any:
        """One of two, called."""
        return chosen() if which else otherwise()

    @staticmethod
    def fori_loop(first: int, end: int, body: Any, value: int) -> int:
        """What a loop carries to its end."""
        for turn in range(first, end):
            value = body(turn, value)
        return value

    @staticmethod
    def rem(left: int, right: int) -> int:
        """Of numbers that are not negative."""
        return left % right

    @staticmethod
    def div(left: int, right: int) -> int:
        """Of numbers that are not negative."""
        return left // right

    @staticmethod
    def cdiv(left: int, right: int) -> int:
        """Rounded up."""
        return -(-left // right)

    @staticmethod
    def multiple_of(value: int, _: int) -> int:
        """The value: the promise is kept."""
        return value


@dataclass(frozen=True)
class Start:
    """A start over the program id ``i``, the turn ``k`` and the scalars ``s``, in units of ``unit`` elements."""

    form: str
    unit: int

    @staticmethod
    def draw(rng: random.Random, units: Sequence[int]) -> Start:
        """Any form with any of the units."""
        return Start(rng.choice(_FORMS), rng.choice(units))

    @property
    def text(self) -> str:
        """As the kernel writes it."""
        return self.form.replace("U", str(self.unit)).replace("H", str(max(self.unit // 2, 1)))

    def at(self, i: int, k: int, s: Sequence[int], programs: int) -> int:
        """Its value."""
        names = _Numbers(programs)
        scope = {"jnp": names, "lax": names, "pl": names, "abs": abs, "i": i, "k": k, "s": s}
        return int(eval(self.text, scope))

    def scalars(self) -> list[int]:
        """The values of ``s`` with which its promises are true."""
        return [self.unit, 1]

    @property
    def reads_data(self) -> bool:
        """Whether it depends on the scalars: where it then leaves the ref, no checker can tell."""
        return "s[" in self.form

    def stays(self, last: int, programs: int, turns: int) -> bool:
        """Whether it lies between 0 and ``last`` in every program and turn, with its own scalars."""
        starts = (self.at(i, k, self.scalars(), programs) for i in range(programs) for k in range(turns))
        return all(0 <= start <= last for start in starts)
