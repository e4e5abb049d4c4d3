"""What `tp.check` costs on the kernels that JAX ships, and on grids of many steps."""

from __future__ import annotations

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from benchmarks.real_kernels import calls as calls
from benchmarks.real_kernels.entry import CALLS
from benchmarks.real_kernels.judge import built, described
from typedpallas import chips
from typedpallas.compilers.ambient import lowering_platform

STEPS = (16, 1_024, 65_536)


@dataclass(frozen=True)
class Cost:
    """CPU seconds for one function on one chip, JAX's caches emptied before each."""

    name: str
    target: str
    lower: float
    """To trace and lower it."""
    trace: float
    check: float
    """`tp.check`, which traces too."""

    @property
    def added(self) -> float:
        """What judging adds to tracing and lowering, in parts of these."""
        return max(self.check - self.trace, 0.0) / self.lower

    @property
    def ratio(self) -> float:
        """`tp.check` as it is called, a trace of its own included, in parts of tracing and lowering."""
        return self.check / self.lower


def _spent(call: Callable[[], object], rounds: int) -> float:
    found = []
    for _ in range(rounds):
        jax.clear_caches()
        begin = time.process_time()
        call()
        found.append(time.process_time() - begin)
    return statistics.median(found)


def cost(name: str, fn: Callable[..., Any], args: tuple[Any, ...], target: str, rounds: int) -> Cost:
    """One function measured, in turn; it is traced once before anything counts."""
    platform = lowering_platform(chips.get(target))

    def lower() -> object:
        return jax.jit(lambda *given: fn(*given)).trace(*args).lower(lowering_platforms=(platform,))

    lower(), tp.check(fn, *args, target=target)
    return Cost(
        name,
        target,
        lower=_spent(lower, rounds),
        trace=_spent(lambda: jax.make_jaxpr(lambda *given: fn(*given))(*args), rounds),
        check=_spent(lambda: tp.check(fn, *args, target=target), rounds),
    )


def real(targets: tuple[str, ...] = ("tpu-v5e", "a100"), only: str = "jax/", rounds: int = 3) -> list[Cost]:
    """JAX's own kernels, each on the first of the chips that it is for; what does not lower there is left out."""
    found = []
    for call in CALLS.values():
        target = next((name for name in targets if name in call.targets), None)
        if target is None or not call.name.startswith(only):
            continue
        with described(target, call.mesh or 1):
            fn, args = built(call, target)
            try:
                found.append(cost(call.name, fn, args, target, rounds))
            except Exception:
                continue  # the chip has no such kernel: there is nothing to compare with
    return found


def _walk(x_ref: Any, o_ref: Any, sum_ref: Any, flag: Any) -> None:
    @pl.when(flag == 0)
    def _() -> None:
        sum_ref[...] = jnp.zeros_like(sum_ref)

    sum_ref[...] += x_ref[...]
    o_ref[...] = sum_ref[...]


def stepped(steps: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A running sum in one direction of a grid of this many steps, and its operand."""
    columns = 16
    shape = jax.ShapeDtypeStruct((8 * steps // columns, 128 * columns), jnp.float32)

    def run(x: Any) -> Any:
        return pl.pallas_call(
            lambda x_ref, o_ref, sum_ref: _walk(x_ref, o_ref, sum_ref, pl.program_id(1)),
            out_shape=shape,
            grid=(steps // columns, columns),
            in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
            out_specs=pl.BlockSpec((8, 128), lambda i, j: (i, j)),
            scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
        )(x)

    return run, (shape,)


def grids(rounds: int = 5) -> list[Cost]:
    """The same kernel over ever larger grids."""
    found = []
    for steps in STEPS:
        fn, args = stepped(steps)
        with described("tpu-v5e"):
            found.append(cost(f"a grid of {steps:,} steps", fn, args, "tpu-v5e", rounds))
    return found


def summary(costs: list[Cost]) -> str:
    """The median, and the dearest."""
    added, ratio = (statistics.median(getattr(one, what) for one in costs) for what in ("added", "ratio"))
    worst = max(costs, key=lambda one: one.added)
    return (
        f"{len(costs)} of JAX's own kernels: judging adds {100 * added:.0f}% to tracing and lowering (median); "
        f"`tp.check`, with its own trace, takes {ratio:.2f} of it; most: {100 * worst.added:.0f}%, {worst.name}"
    )
