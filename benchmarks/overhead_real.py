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
TURNS = (16, 1_000)


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


def _spent(calls: tuple[Callable[[], object], ...], rounds: int) -> list[float]:
    """The median time of each of some calls, made in turn, so that a machine busy with other work slows all."""
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, times in zip(calls, found, strict=True):
            jax.clear_caches()
            begin = time.process_time()
            call()
            times.append(time.process_time() - begin)
    return [statistics.median(times) for times in found]


def cost(name: str, fn: Callable[..., Any], args: tuple[Any, ...], target: str, rounds: int) -> Cost:
    """One function measured, in turn; it is traced once before anything counts."""
    platform = lowering_platform(chips.get(target))

    def lower() -> object:
        return jax.jit(lambda *given: fn(*given)).trace(*args).lower(lowering_platforms=(platform,))

    def trace() -> object:
        return jax.make_jaxpr(lambda *given: fn(*given))(*args)

    def check() -> object:
        return tp.check(fn, *args, target=target)

    lower(), check()
    lowered, traced, checked = _spent((lower, trace, check), rounds)
    return Cost(name, target, lower=lowered, trace=traced, check=checked)


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


def looped(turns: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A sum over the rows of an array by a loop of this many turns, and its operand."""
    shape = jax.ShapeDtypeStruct((8 * turns, 128), jnp.float32)

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.zeros_like(o_ref)

        def add(turn: Any, _: Any) -> None:
            o_ref[...] += x_ref[pl.ds(8 * turn, 8), :]

        jax.lax.fori_loop(0, turns, add, None)

    def run(x: Any) -> Any:
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(x)

    return run, (shape,)


def loops(rounds: int = 5) -> list[Cost]:
    """The same kernel with ever longer loops."""
    found = []
    for turns in TURNS:
        fn, args = looped(turns)
        with described("tpu-v5e"):
            found.append(cost(f"a loop of {turns:,} turns", fn, args, "tpu-v5e", rounds))
    return found


def grids(rounds: int = 5) -> list[Cost]:
    """The same kernel over ever larger grids."""
    found = []
    for steps in STEPS:
        fn, args = stepped(steps)
        with described("tpu-v5e"):
            found.append(cost(f"a grid of {steps:,} steps", fn, args, "tpu-v5e", rounds))
    return found


def by_class(costs: list[Cost]) -> list[tuple[str, list[Cost]]]:
    """The kernels of one module of JAX's together, from cheap to dear."""
    found: dict[str, list[Cost]] = {}
    for one in costs:
        found.setdefault(one.name.split("/")[1], []).append(one)
    return sorted(found.items(), key=lambda pair: statistics.median(one.added for one in pair[1]))


def summary(costs: list[Cost]) -> str:
    """The median, and the dearest."""
    added, ratio = (statistics.median(getattr(one, what) for one in costs) for what in ("added", "ratio"))
    worst = max(costs, key=lambda one: one.added)
    return (
        f"{len(costs)} of JAX's own kernels: judging adds {100 * added:.0f}% to tracing and lowering (median); "
        f"`tp.check`, with its own trace, takes {ratio:.2f} of it; most: {100 * worst.added:.0f}%, {worst.name}"
    )
