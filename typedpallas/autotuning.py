"""`autotune`: the fastest configuration of a kernel on the device at hand.

Configurations that the checker refutes are dropped before anything is compiled. The rest is compiled, run and timed
side by side, and what was fastest is kept in a file, by chip, kernel, choices, shapes and element types.
"""

import contextlib
import functools
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from typedpallas.chips import for_device_kind
from typedpallas.compilers import cache
from typedpallas.diagnostics import PlacementError
from typedpallas.launching import Launch, LaunchError
from typedpallas.tracing import check
from typedpallas.unify import SignatureError

type Configuration = dict[str, Any]
"""Keyword arguments of the kernel."""

_BATCH_SECONDS = 0.01


@dataclass(frozen=True)
class Tuned:
    """What `autotune` found. Call it as the kernel; the best configuration is filled in."""

    kernel: Callable[..., Any]
    best: Configuration
    seconds: tuple[tuple[Configuration, float], ...]
    """Median time of one call of each configuration that ran, the best first; empty if the answer was kept."""
    pruned: tuple[tuple[Configuration, str], ...]
    """Configurations that no compiler was asked about, and why."""
    failed: tuple[tuple[Configuration, str], ...]
    """Configurations that were not pruned and did not compile or run."""
    kept: bool
    """Whether the answer is one of an earlier call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The kernel with the best configuration."""
        return self.kernel(*args, **{**self.best, **kwargs})


def autotune(
    kernel: Callable[..., Any],
    *args: Any,
    rounds: int = 7,
    file: str | os.PathLike[str] | None = None,
    again: bool = False,
    **choices: Iterable[Any],
) -> Tuned:
    """Find the fastest of the configurations that ``choices`` span.

    Args:
        kernel: called as ``kernel(*args, **configuration)``: a `tp.launch`, or any function of arrays.
        args: arrays like those that the kernel will get.
        rounds: how often each configuration is timed; they take turns.
        file: where answers are kept; unless given, ``autotune.json`` in typedpallas's folder for caches.
        again: time again even if an answer is kept.
        choices: for each keyword argument the values to try: block sizes, or a kernel's own tuning objects.

    Raises:
        LaunchError: there is no configuration, or none of them runs; every reason is listed.
    """
    given = {name: list(values) for name, values in choices.items()}
    configurations = [dict(zip(given, values, strict=True)) for values in itertools.product(*given.values())]
    if not configurations:
        raise LaunchError("autotune: `choices` leave no configuration to try")
    path = Path(file) if file is not None else cache.folder() / "autotune.json"
    name = _key(kernel, args, given)
    number = None if again else _read(path).get(name)
    if isinstance(number, int) and number < len(configurations):
        return Tuned(kernel, configurations[number], (), (), (), True)
    pruned, survivors = prune(kernel, args, configurations)
    running, failed = _compiled(kernel, args, survivors)
    if not running:
        reasons = "\n".join(f"  {configuration}: {reason}" for configuration, reason in (*pruned, *failed))
        raise LaunchError(f"autotune: none of {len(configurations)} configurations runs:\n{reasons}")
    seconds = sorted(_timed(running, args, rounds), key=lambda pair: pair[1])
    best = seconds[0][0]
    _write(path, name, configurations.index(best))
    return Tuned(kernel, best, tuple(seconds), tuple(pruned), tuple(failed), False)


def prune(
    kernel: Callable[..., Any],
    args: tuple[Any, ...],
    configurations: Iterable[Configuration],
    target: str | None = None,
) -> tuple[list[tuple[Configuration, str]], list[Configuration]]:
    """Those that the checker refutes, with the first reason, and the others. Nothing is compiled.

    ``target``: a name from `tp.targets()`; unless given, that of the device at hand.
    """
    if target is None:
        chip = for_device_kind(jax.devices()[0].device_kind)
        target = None if chip is None else chip.name
    pruned: list[tuple[Configuration, str]] = []
    survivors: list[Configuration] = []
    for configuration in configurations:
        reason = _refuted(functools.partial(kernel, **configuration), args, target)
        if reason is None:
            survivors.append(configuration)
        else:
            pruned.append((configuration, reason))
    return pruned, survivors


def _refuted(fn: Callable[..., Any], args: tuple[Any, ...], target: str | None) -> str | None:
    try:
        report = check(fn, *args, target=target)
    except (PlacementError, LaunchError, SignatureError) as error:
        return _line(error)
    return next((_line(item.message) for item in report.diagnostics if item.verdict == "refuted"), None)


def _compiled(
    kernel: Callable[..., Any], args: tuple[Any, ...], configurations: Iterable[Configuration]
) -> tuple[list[tuple[Configuration, Callable[..., Any]]], list[tuple[Configuration, str]]]:
    """Each run once; what goes wrong is a reason."""
    running: list[tuple[Configuration, Callable[..., Any]]] = []
    failed: list[tuple[Configuration, str]] = []
    for configuration in configurations:
        run = jax.jit(functools.partial(kernel, **configuration))
        try:
            jax.block_until_ready(run(*args))
        except Exception as error:  # a compiler's refusal has no type of its own
            failed.append((configuration, _line(error)))
        else:
            running.append((configuration, run))
    return running, failed


def _timed(
    running: list[tuple[Configuration, Callable[..., Any]]], args: tuple[Any, ...], rounds: int
) -> list[tuple[Configuration, float]]:
    """Median seconds of one call. All meet the same clocks: they take turns, each beginning a round once."""
    calls = [max(1, int(_BATCH_SECONDS / max(_batch(run, args, 1), 1e-6))) for _, run in running]
    times: list[list[float]] = [[] for _ in running]
    for number in range(rounds):
        for i in (*range(number % len(running), len(running)), *range(number % len(running))):
            times[i].append(_batch(running[i][1], args, min(calls[i], 1000)))
    return [
        (configuration, statistics.median(found)) for (configuration, _), found in zip(running, times, strict=True)
    ]


def _batch(run: Callable[..., Any], args: tuple[Any, ...], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        found = run(*args)
    jax.block_until_ready(found)
    return (time.perf_counter() - start) / calls


def _line(message: object) -> str:
    return " ".join(str(message).split())[:300]


def _key(kernel: Callable[..., Any], args: tuple[Any, ...], choices: Mapping[str, list[Any]]) -> str:
    shapes = [f"{x.dtype.name}{list(x.shape)}" for x in jax.tree.leaves(args)]
    return " | ".join([jax.devices()[0].device_kind, jax.__version__, *_identity(kernel), repr(choices), *shapes])


def _identity(kernel: Any) -> list[str]:
    """What tells a kernel from others, from one process to the next."""
    if isinstance(kernel, functools.partial):
        return [repr(kernel.args), repr(kernel.keywords), *_identity(kernel.func)]
    if isinstance(kernel, Launch):
        parts = (kernel.signature.pattern, kernel.given, kernel.backend, kernel.tuning)
        return [*map(repr, parts), *_identity(kernel.kernel)]
    return [f"{getattr(kernel, '__module__', '')}.{getattr(kernel, '__qualname__', type(kernel).__name__)}"]


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, name: str, number: int) -> None:
    """Written whole beside the file and moved into place; where the folder cannot be written, it is not kept."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps({**_read(path), name: number}, indent=1, sort_keys=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(content)
        os.replace(file.name, path)
