"""How fast the typed GPU kernels are beside cuBLAS, cuDNN, XLA and the Pallas kernels that JAX ships.

Run as ``python -m benchmarks.gpu`` on a Hopper GPU, from the repository's root; it prints one table in Markdown, with
every competitor of a problem on stderr as soon as it is timed. Inputs are fresh random numbers; every result is held
against a float32 reference before anything is timed. Times are wall time of many calls dispatched in a row, the
competitors taking turns; the table has the median of the rounds. What the checks think of the kernels is not asked
here: the tests do that.
"""

import argparse
import contextlib
import dataclasses
import json
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from importlib import import_module, metadata
from pathlib import Path

import jax

from benchmarks.gpu_timing import Problem, Result, solve
from typedpallas.launching.checks import left_to_the_compiler

GROUPS = ("matmul", "grouped_matmul", "attention", "attention_backward", "decode", "rows", "rows_backward")
_SHORT_SECONDS = 1e-4


def main() -> int:
    """Print the table; 0 if every kernel of ours ran and was right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)}, or parts of problems' names; all of them")
    parser.add_argument("--seconds", type=float, default=3600, help="time for everything")
    parser.add_argument("--rounds", type=int, default=11, help="timed batches of each competitor")
    parser.add_argument("--rest", type=float, default=0.0, help="seconds of rest before each batch")
    parser.add_argument("--quick", action="store_true", help="of our kernels, only the default configurations")
    parser.add_argument("--seed", type=int, default=None, help="of the random inputs; fresh unless given")
    parser.add_argument("--json", type=Path, default=None, help="also write every figure here")
    options = parser.parse_args()
    seed = secrets.randbits(31) if options.seed is None else options.seed
    device = jax.devices()[0]
    if device.platform != "gpu":
        print("no GPU here", file=sys.stderr)
        return 2
    print(f"{_versions()}; seed {seed}, rest {options.rest:g} s", flush=True)
    results: list[Result] = []
    with left_to_the_compiler():
        for found in _solved(options, jax.random.key(seed)):
            results += found
            print(details(found), file=sys.stderr, flush=True)
            if options.json is not None:
                _write(options.json, results, device.device_kind, seed)
    print(_table(results))
    return int(any(result.who == "ours" and result.failure for result in results))


def _solved(options: argparse.Namespace, key: jax.Array) -> Iterator[list[Result]]:
    """The results of one problem after the other; each gets its share of the time that is left."""
    end = time.perf_counter() + options.seconds
    chosen = list(problems(key, options.groups, options.quick))
    for number, (name, make) in enumerate(chosen):
        left = end - time.perf_counter()
        if left <= 0:
            print(f"{name}: no time left", file=sys.stderr, flush=True)
            continue
        share = time.perf_counter() + left / (len(chosen) - number)
        yield solve(make(), options.rounds, share, options.rest, end)


def _versions() -> str:
    """Chip and software, in one line."""
    packages = {"jax": "JAX", "jax-cuda13-plugin": "its CUDA plugin", "nvidia-cudnn-cu13": "cuDNN"}
    found = []
    for package, name in packages.items():
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.append(f"{name} {metadata.version(package)}")
    return f"{jax.devices()[0].device_kind}; {', '.join(found)}; {date.today().isoformat()}"


def problems(key: jax.Array, groups: list[str], quick: bool) -> Iterator[tuple[str, Callable[[], Problem]]]:
    """The chosen problems by name, each made when it is called: they do not all fit the memory at once."""
    for group in GROUPS:
        try:
            module = import_module(f"benchmarks.gpu_{group}")
        except ModuleNotFoundError:
            continue
        for name, make in module.problems(key, quick):
            if not groups or group in groups or any(part in name for part in groups if part not in GROUPS):
                yield name, make


def details(results: list[Result]) -> str:
    """Every competitor of one problem, the fastest first."""
    rival = max((r.rate for r in results if r.who != "ours"), default=0.0)
    lines = [f"\n{results[0].problem}   ({results[0].unit}; ratio to the best competitor)"]
    for result in sorted(results, key=lambda r: -r.rate):
        if result.failure:
            lines.append(f"  {result.who:6} {result.entry:58} FAILED {result.failure}")
            continue
        spread = min(result.seconds) / result.median
        ratio = f"{result.rate / rival:6.3f}" if rival else "     -"
        lines.append(
            f"  {result.who:6} {result.entry:58} {result.rate:8.1f} {ratio} {result.median * 1e6:10.1f} us"
            f"  best/median {spread:.3f}  error {result.error:.1e}"
        )
    return "\n".join(lines)


def _table(results: list[Result]) -> str:
    """One row for each problem: ours beside the best of the others; rates of rows also beside the fastest copy."""
    lines = [
        "| | ours | error | best other | its error | ratio | of a copy |",
        "|---|---|---|---|---|---|---|",
    ]
    copy = max((r.rate for r in results if r.problem.startswith("copy") and r.entry == "XLA"), default=0.0)
    for problem in dict.fromkeys(result.problem for result in results):
        right = [r for r in results if r.problem == problem and not r.failure]
        ours = max((r for r in right if r.who == "ours"), key=lambda r: r.rate, default=None)
        rival = max((r for r in right if r.who != "ours"), key=lambda r: r.rate, default=None)
        if ours is None:
            lines.append(f"| {problem} | not measured | | | | | |")
            continue
        other = "| | " if rival is None else f"{_rate(rival)}, {rival.entry} | {rival.error:.1e} "
        ratio = "" if rival is None else f"{ours.rate / rival.rate:.2f}"
        share = f"{ours.rate / copy:.2f}" if ours.unit == "GB/s" and copy and "decode" not in problem else ""
        lines.append(f"| {problem} | {_rate(ours)} | {ours.error:.1e} | {other}| {ratio} | {share} |")
    return "\n".join(lines)


def _rate(result: Result) -> str:
    """Of short work the time, of long work the rate."""
    if result.median < _SHORT_SECONDS:
        return f"{result.median * 1e6:.1f} us"
    return f"{result.rate:.0f} {result.unit}"


def _write(path: Path, results: list[Result], kind: str, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [dataclasses.asdict(result) for result in results]
    path.write_text(json.dumps({"jax": jax.__version__, "device": kind, "seed": seed, "results": rows}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
