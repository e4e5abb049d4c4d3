"""A table of public mistakes: what each case is, and how to find it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp

type Side = Literal["bad", "good"]

V4, V5E, H100, T4 = "tpu-v4", "tpu-v5e", "h100", "t4"
ANY = (V5E, H100)
f32, bf16, i32, i8 = jnp.float32, jnp.bfloat16, jnp.int32, jnp.int8


def S(*shape: int, dtype: Any = f32) -> jax.ShapeDtypeStruct:
    """An argument's shape."""
    return jax.ShapeDtypeStruct(shape, dtype)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One mistake re-made from a public report, with its fix.

    ``build`` gives, for ``"bad"`` or ``"good"``, the function to check. ``rule`` is what is wrong, or ``"clean"``
    where today's compiler takes the mistake and the numbers are right. ``caught`` says whether we notice now.
    """

    name: str
    report: str
    targets: tuple[str, ...]
    rule: str
    caught: bool
    build: Callable[[Side], Callable[..., Any]]
    args: Sequence[Any]
    reference: Callable[..., Any] | None
    """Plain JAX; none where interpret mode cannot run the fix."""
    inputs: Sequence[Any] | None
    x64: bool
    tolerance: float
    verdict: str
    """The most that we say about it: ``refuted`` or ``open``."""


CASES: dict[str, Case] = {}


def case(
    report: str,
    targets: str | tuple[str, ...],
    rule: str,
    *args: Any,
    caught: bool = True,
    reference: Callable[..., Any] | None = None,
    inputs: Sequence[Any] | None = None,
    x64: bool = False,
    tolerance: float = 1e-5,
    verdict: str = "refuted",
) -> Callable[[Callable[[Side], Any]], Callable[[Side], Any]]:
    """Enter a case under its builder's name."""

    def enter(build: Callable[[Side], Any]) -> Callable[[Side], Any]:
        assert build.__name__ not in CASES, build.__name__
        CASES[build.__name__] = Case(
            name=build.__name__,
            report=report,
            targets=(targets,) if isinstance(targets, str) else targets,
            rule=rule,
            caught=caught,
            build=build,
            args=args,
            reference=reference,
            inputs=inputs,
            x64=x64,
            tolerance=tolerance,
            verdict=verdict,
        )
        return build

    return enter
