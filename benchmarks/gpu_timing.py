"""Competitors on one problem: checked against a reference first, then timed side by side."""

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

BATCH_SECONDS = 0.02
"""Wall time of one timed batch; the calls in it are dispatched without waiting for each other."""
HANG_SECONDS = 60
"""A kernel that takes longer to compile and run once hangs, and the GPU with it."""


@dataclass(frozen=True)
class Entry:
    """One way to solve a problem. ``ours`` is the typed kernel; ``vendor`` competes with it."""

    name: str
    run: Callable[..., Any]
    who: str
    """``ours``, ``vendor`` (cuBLAS, cuDNN, XLA) or ``jax`` (kernels that JAX ships)."""
    prepare: Callable[..., tuple[Any, ...]] | None = None
    """Makes the arguments of ``run`` of the arrays, before anything is timed; unless given, these arrays."""


@dataclass(frozen=True)
class Problem:
    """What is computed, on which arrays. ``work`` in floating-point operations or bytes."""

    name: str
    arrays: tuple[jax.Array, ...]
    entries: tuple[Entry, ...]
    reference: Callable[..., Any]
    tolerance: float
    """The largest relative error (Frobenius norm) that counts as right."""
    work: float
    unit: str = "TFLOP/s"
    chain: int = 1
    """Calls inside one compiled function, for work shorter than its dispatch: each gets the result of the one before
    as its first array. Only a dependence keeps them apart: calls that have none run side by side."""


@dataclass
class Result:
    """One line of the table. Times in seconds for one call."""

    problem: str
    entry: str
    who: str
    error: float | None = None
    seconds: list[float] = field(default_factory=list)
    failure: str = ""
    unit: str = ""
    rate: float = 0.0
    """Median, in units of ``unit``."""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def solve(problem: Problem, rounds: int, deadline: float, rest: float, end: float) -> list[Result]:
    """Check every entry, then time those that are right: round by round, so that all meet the same clocks.

    ``rest``: seconds before each batch in which nothing runs; without it, long products run at the clocks that the
    power limit leaves. ``deadline`` and ``end``: of `time.perf_counter`; rounds that would begin after the one are
    left out, and entries that would be compiled after the other.
    """
    expected = jax.block_until_ready(jax.jit(problem.reference)(*problem.arrays))
    running: list[tuple[Result, Callable[..., Any], tuple[Any, ...], int]] = []
    results: list[Result] = []
    for entry in problem.entries:
        result = Result(problem.name, entry.name, entry.who, unit=problem.unit)
        results.append(result)
        if time.perf_counter() > end:
            result.failure = "no time left"
            continue
        checked = _checked(problem, entry, expected, result)
        if checked is not None:
            running.append((result, *checked, _calls(*checked)))
    for number in range(rounds):
        if number and time.perf_counter() > deadline:
            break
        turn = number % max(1, len(running))
        for result, run, arguments, calls in running[turn:] + running[:turn]:
            time.sleep(rest)
            result.seconds.append(_batch(run, arguments, calls) / problem.chain)
    scale = 1e12 if problem.unit == "TFLOP/s" else 1e9
    for result, *_ in running:
        result.rate = problem.work / result.median / scale
    return results


def _checked(
    problem: Problem, entry: Entry, expected: Any, result: Result
) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """The compiled function and its arguments if what it computes is right."""
    try:
        once = jax.jit(entry.run)
        with _ended_if_hung(f"{problem.name}: {entry.name}"):
            arguments = problem.arrays if entry.prepare is None else entry.prepare(*problem.arrays)
            found = jax.block_until_ready(once(*arguments))
        run = jax.jit(_chained(entry.run, problem.chain)) if problem.chain > 1 else once
        jax.block_until_ready(run(*arguments))
    except Exception as error:
        result.failure = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        return None
    result.error = float(_relative_error(found, expected))
    if not result.error <= problem.tolerance:  # true for NaN
        result.failure = f"wrong: relative error {result.error:.2e}"
        return None
    return run, arguments


@contextmanager
def _ended_if_hung(what: str) -> Iterator[None]:
    """Nothing ends a kernel that waits for ever but the end of its process."""

    def end() -> None:
        print(f"HUNG: {what}", flush=True)
        os._exit(3)

    timer = threading.Timer(HANG_SECONDS, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@jax.jit
def _relative_error(found: Any, expected: Any) -> Any:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    errors = []
    for one, other in pairs:
        one, other = one.astype(jnp.float32).ravel(), other.astype(jnp.float32).ravel()
        errors.append(jnp.linalg.norm(one - other) / jnp.linalg.norm(other))
    return jnp.max(jnp.stack(errors))


def _chained(run: Callable[..., Any], count: int) -> Callable[..., Any]:
    def chain(first: Any, *rest: Any) -> Any:
        for _ in range(count):
            first = run(first, *rest)
        return first

    return chain if count > 1 else run


def _calls(run: Callable[..., Any], arrays: Sequence[Any]) -> int:
    """How many calls fill a batch."""
    _batch(run, arrays, 2)
    return max(2, min(2000, int(BATCH_SECONDS / max(_batch(run, arrays, 4), 1e-6))))


def _batch(run: Callable[..., Any], arrays: Sequence[Any], calls: int) -> float:
    """Seconds for one call, of ``calls`` in a row."""
    start = time.perf_counter()
    for _ in range(calls):
        found = run(*arrays)
    jax.block_until_ready(found)
    return (time.perf_counter() - start) / calls
