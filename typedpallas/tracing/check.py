"""`tp.check`: trace a function for each target, judge what its kernels do, report."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from typedpallas import chips, rules
from typedpallas.chips import Target
from typedpallas.compilers.ambient import target_context
from typedpallas.diagnostics import Diagnostic, PlacementError, diagnose, render
from typedpallas.events import Backend, Context
from typedpallas.tracing import (
    body,
    calls,
    flow,
    index_maps,
    jaxapi,
    memory,
    ranges_slices,
    refusals,
    tracebacks,
    uses_operands,
    uses_shards,
    uses_sums,
    windows,
)
from typedpallas.tracing.guard import guarded
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
    chosen = tuple(chips.get(name) for name in names)
    found: list[Diagnostic] = []
    seen: list[KernelCall] = []
    for chip in chosen or (None,):
        with target_context(chip) if chip is not None else nullcontext():
            diagnostics, calls = _traced(fn, avals, chip)
        found += diagnostics
        seen += calls
    return Report(tuple(dict.fromkeys(found)), tuple(seen), tuple(chip.name for chip in chosen))


def check_launch(jaxpr: Any, target: Target | None) -> tuple[Diagnostic, ...]:
    """What the rules say about the kernels of something that is traced already. Call it in the target's context.

    What surrounds a launch, and what becomes of its results, is not known here.
    """
    calls = tuple(replace(kernel, path=()) for kernel in kernels(jaxpr, _usual_backend(target)))
    return tuple(_judged(jaxpr, calls, target))


def _traced(
    fn: Callable[..., Any], avals: tuple[Any, ...], target: Target | None
) -> tuple[list[Diagnostic], tuple[KernelCall, ...]]:
    try:
        with tracebacks.whole_tracebacks():
            jaxpr = jaxapi.trace(fn, avals)
    except PlacementError as error:
        return list(error.diagnostics), ()
    except Exception as error:
        diagnostics = list(_refused(error))
        if not diagnostics:
            raise
        return diagnostics, ()
    calls = tuple(kernels(jaxpr, _usual_backend(target)))
    spread = _said(uses_shards.events(calls, avals, target), Context(target=target))
    return [*_judged(jaxpr, calls, target), *spread], calls


def _refused(error: Exception) -> Iterator[Diagnostic]:
    """JAX's refusal to trace a kernel, as the diagnostics of the rule that it broke; none if no rule knows it."""
    refusal = refusals.understood(error)
    if refusal is None:
        return
    for finding in rules.judge(refusal.event, Context()):
        if finding.verdict == "refuted":
            said = f"JAX says: {refusal.words}"
            notes = finding.notes if said in finding.notes else (*finding.notes, said)
            yield diagnose(replace(finding, notes=notes), level="trace", target=None, place=refusal.place)


def _usual_backend(target: Target | None) -> Backend | None:
    """What ``pallas_call`` lowers through where it is told nothing."""
    if target is None:
        return None
    return "mosaic_tpu" if target.machine == "tpu" else "triton"


def _judged(jaxpr: Any, calls: Sequence[KernelCall], target: Target | None) -> Iterator[Diagnostic]:
    """What the rules say on one chip; what they say without any chip too is given without one."""
    found = [item for kernel in calls for item in judge(kernel, target)]
    if target is None or not found:
        yield from found
        return
    anywhere = {item for kernel in kernels(jaxpr) for item in judge(kernel, None)}
    for item in found:
        general = replace(item, target=None)
        yield general if general in anywhere else item


def judge(kernel: KernelCall, target: Target | None) -> Iterator[Diagnostic]:
    """What the rules say about one kernel on one chip, or on any."""
    context = Context(backend=kernel.backend, target=target)
    yield from _said(events(kernel, context), context)


def _said(seen: Iterable[Located], context: Context) -> Iterator[Diagnostic]:
    """What the rules say about these events."""
    name = None if context.target is None else context.target.name
    for located in seen:
        for finding in rules.judge(located.event, context):
            yield diagnose(finding, level="trace", target=name, place=located.place, kernel=located.kernel)


def events(kernel: KernelCall, context: Context) -> Iterator[Located]:
    """Everything that is seen in one kernel."""
    if not kernel.understood:
        return
    parts = {"the call": calls.events(kernel, context)}
    if not kernel.foreign(context.target):
        parts |= {
            "the body": body.events(kernel, context),
            "the blocks": windows.events(kernel, context),
            "the index maps": index_maps.events(kernel, context),
            "the memory": memory.events(kernel, context),
            "what buffers hold from step to step": flow.events(kernel, context),
            "the slices": ranges_slices.events(kernel, context),
            "the sums": uses_sums.events(kernel),
            "the operands": uses_operands.events(kernel),
        }
    for what, seen in parts.items():
        yield from guarded(seen, what, kernel.name)
