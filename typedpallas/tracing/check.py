"""`tp.check`: trace a function for each target, judge what its kernels do, report."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from typedpallas import chips, rules
from typedpallas.chips import Target
from typedpallas.compilers.ambient import target_context
from typedpallas.diagnostics import Diagnostic, diagnose, render
from typedpallas.events import Backend, Context
from typedpallas.tracing import body, index_maps, jaxapi, memory, windows
from typedpallas.tracing.located import Located
from typedpallas.tracing.walk import KernelCall, kernels


@dataclass(frozen=True)
class Report:
    """What `check` found: every diagnostic, and every kernel that it looked at."""

    diagnostics: tuple[Diagnostic, ...]
    kernels: tuple[KernelCall, ...]
    targets: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is refuted; what is open does not count."""
        return all(item.verdict != "refuted" for item in self.diagnostics)

    def __str__(self) -> str:
        names = ", ".join(dict.fromkeys(f"`{kernel.name}`" for kernel in self.kernels)) or "no kernel"
        where = f" for {', '.join(self.targets)}" if self.targets else ""
        refuted = sum(item.verdict == "refuted" for item in self.diagnostics)
        undecided = len(self.diagnostics) - refuted
        verdict = f"{refuted} refuted, {undecided} open" if self.diagnostics else "clean"
        lines = [render(self.diagnostics)] if self.diagnostics else []
        return "\n".join([*lines, f"checked {names}{where}: {verdict}"])


def check(fn: Callable[..., Any], *avals: Any, target: str | Sequence[str] | None = None) -> Report:
    """Judge every kernel that ``fn`` launches on operands like ``avals``; nothing is compiled or run.

    Args:
        fn: any function that JAX traces.
        avals: `jax.ShapeDtypeStruct`, or pytrees of them.
        target: a name from `tp.targets()`, or several; without one only the rules that hold everywhere speak.

    Raises:
        typedpallas.UnknownTarget: no such target.
        Exception: what ``fn`` raises while it is traced, where that is not about a kernel.
    """
    names = () if target is None else (target,) if isinstance(target, str) else tuple(target)
    found: list[Diagnostic] = []
    seen: dict[int, KernelCall] = {}
    chosen = tuple(chips.get(name) for name in names)
    for chip in chosen or (None,):
        with target_context(chip) if chip is not None else nullcontext():
            jaxpr = jaxapi.trace(fn, avals)
            for kernel in kernels(jaxpr, _usual_backend(chip)):
                seen[len(seen)] = kernel
                found += judge(kernel, chip)
    unique = tuple(dict.fromkeys(found))
    return Report(unique, tuple(seen.values()), tuple(chip.name for chip in chosen))


def _usual_backend(target: Target | None) -> Backend | None:
    """What ``pallas_call`` lowers through where it is told nothing."""
    if target is None:
        return None
    return "mosaic_tpu" if target.machine == "tpu" else "triton"


def judge(kernel: KernelCall, target: Target | None) -> Iterator[Diagnostic]:
    """What the rules say about one kernel on one chip; a finding that needs no chip is given without one."""
    context = Context(backend=kernel.backend, target=target)
    anywhere = replace(context, target=None)
    for located in events(kernel, context):
        general = tuple(rules.judge(located.event, anywhere)) if target is not None else ()
        for finding in rules.judge(located.event, context):
            on = target.name if target is not None and finding not in general else None
            yield diagnose(finding, level="trace", target=on, place=located.place, kernel=located.kernel)


def events(kernel: KernelCall, context: Context) -> Iterator[Located]:
    """Everything that is seen in one kernel."""
    if kernel.understood:
        yield from body.events(kernel, context)
        yield from windows.events(kernel, context)
        yield from index_maps.events(kernel, context)
        yield from memory.events(kernel, context)
