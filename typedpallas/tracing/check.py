"""`tp.check`: trace a function for each target, judge what its kernels do, report."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from typedpallas import chips, rules
from typedpallas.chips import Target
from typedpallas.compilers.ambient import target_context
from typedpallas.diagnostics import Diagnostic, PlacementError, diagnose, render
from typedpallas.events import Backend, Context
from typedpallas.tracing import body, calls, jaxapi, memory, windows
from typedpallas.tracing.flow import kernel as flow
from typedpallas.tracing.grid import index_maps
from typedpallas.tracing.guard import guarded
from typedpallas.tracing.located import Located
from typedpallas.tracing.outer import tables as table_facts
from typedpallas.tracing.ranges import slices as ranges_slices
from typedpallas.tracing.refusals import parameters, tracebacks
from typedpallas.tracing.refusals import traced as refusals
from typedpallas.tracing.uses import grid as uses_grid
from typedpallas.tracing.uses import layouts as uses_layouts
from typedpallas.tracing.uses import operands as uses_operands
from typedpallas.tracing.uses import shards as uses_shards
from typedpallas.tracing.uses import sums as uses_sums
from typedpallas.tracing.uses import turned as uses_turned
from typedpallas.tracing.uses import wraps as uses_wraps
from typedpallas.tracing.walk import KernelCall, kernels
from typedpallas.tracing.warpgroups import found as async_found


@dataclass(frozen=True)
class Report:
    """What `check` found: every diagnostic, and every kernel that it looked at."""

    diagnostics: tuple[Diagnostic, ...]
    kernels: tuple[KernelCall, ...]
    targets: tuple[str, ...]
    given: tuple[str, ...] = ()
    """The arguments whose contents, and not only shapes, were looked at: what is said holds for these."""

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
        given = f", with {', '.join(f'`{name}`' for name in self.given)} as given" if self.given else ""
        return "\n".join([*lines, f"checked {names}{where}{given}: {verdict}"])


def check(
    fn: Callable[..., Any],
    *avals: Any,
    target: str | Sequence[str] | None = None,
    assume: Mapping[str, tuple[int, int]] | None = None,
) -> Report:
    """Judge every kernel that ``fn`` launches on operands like ``avals``; nothing is compiled or run.

    Index maps that read their blocks from tables are judged by what the tables hold, as far as that follows from
    constants and from arguments that are given as arrays; else by what the operations that make them let through.

    Args:
        fn: any function that JAX traces.
        avals: `jax.ShapeDtypeStruct`, or pytrees of them; arrays where their contents are to be looked at.
        target: a name from `tp.targets()`, or several; without one only the rules that hold everywhere speak.
        assume: what the entries of a table lie between, both included, by the name of the kernel's ref: a promise
            that is taken on trust.

    Raises:
        typedpallas.UnknownTarget: no such target.
        ValueError: no kernel has a table of a name in ``assume``.
        Exception: what ``fn`` raises while it is traced, where that is not about a kernel.
    """
    names = () if target is None else (target,) if isinstance(target, str) else tuple(target)
    chosen = tuple(chips.get(name) for name in names)
    found: list[Diagnostic] = []
    seen: list[KernelCall] = []
    for chip in chosen or (None,):
        with target_context(chip) if chip is not None else nullcontext():
            diagnostics, calls = _traced(fn, avals, chip, assume or {})
        found += diagnostics
        seen += calls
    _known_names(assume or {}, seen)
    return Report(tuple(dict.fromkeys(found)), tuple(seen), tuple(chip.name for chip in chosen), _given(seen, avals))


def _known_names(assume: Mapping[str, tuple[int, int]], calls: Sequence[KernelCall]) -> None:
    tables = {operand.name for kernel in calls for operand in kernel.operands if operand.role == "prefetch"}
    for name in assume:
        if calls and name not in tables:
            there = ", ".join(f"`{table}`" for table in sorted(tables)) or "none"
            raise ValueError(f"`assume` names `{name}`, but no kernel has such a table; there are {there}")


def _given(calls: Sequence[KernelCall], avals: tuple[Any, ...]) -> tuple[str, ...]:
    """The names of the arguments whose contents the verdicts hang on."""
    if all(leaf is None for leaf in jaxapi.contents(avals)):
        return ()
    used = [var for kernel in calls for var in table_facts.of(kernel).given]
    names = [jaxapi.argument_name(kernel.path[0][0], var) for kernel in calls if kernel.path for var in used]
    return tuple(dict.fromkeys(name for name in names if name))


def check_launch(jaxpr: Any, target: Target | None) -> tuple[Diagnostic, ...]:
    """What the rules say about the kernels of something that is traced already. Call it in the target's context.

    What surrounds a launch, and what becomes of its results, is not known here.
    """
    calls = tuple(replace(kernel, path=(), around=()) for kernel in kernels(jaxpr, _usual_backend(target)))
    return tuple(_judged(calls, kernels(jaxpr), target))


def _traced(
    fn: Callable[..., Any], avals: tuple[Any, ...], target: Target | None, assume: Mapping[str, tuple[int, int]]
) -> tuple[list[Diagnostic], tuple[KernelCall, ...]]:
    try:
        with tracebacks.whole_tracebacks():
            jaxpr = jaxapi.trace(fn, avals)
    except PlacementError as error:
        return list(error.diagnostics), ()
    except Exception as error:
        diagnostics = list(_refused(error))
        if not diagnostics:
            kernel = tracebacks.kernel_of_error(error)
            if kernel is not None:
                error.add_note(f"typedpallas: this happened while JAX traced the kernel `{kernel}`")
            raise
        return diagnostics, ()
    opened, contents = jaxapi.open_jaxpr(jaxpr), jaxapi.contents(avals)
    known = {var: value for var, value in zip(opened.invars, contents, strict=False) if value is not None}
    here, there = (kernels(jaxpr, backend, known=known) for backend in (_usual_backend(target), None))
    calls = tuple(replace(kernel, assumed=assume) for kernel in here)
    anywhere = (replace(kernel, assumed=assume) for kernel in there)
    spread = _said(uses_shards.events(calls, avals, target), Context(target=target))
    return [*_judged(calls, anywhere, target), *spread], calls


def _refused(error: Exception) -> Iterator[Diagnostic]:
    """JAX's refusal to trace a kernel, as the diagnostics of the rule that it broke; none if no rule knows it."""
    refusal = refusals.understood(error)
    if refusal is None:
        return
    for finding in rules.judge(refusal.event, Context()):
        if finding.verdict == "refuted":
            said = any(refusal.words in note for note in finding.notes)
            notes = finding.notes if said else (*finding.notes, f"JAX says: {refusal.words}")
            yield diagnose(replace(finding, notes=notes), level="trace", target=None, place=refusal.place)


def _usual_backend(target: Target | None) -> Backend | None:
    """What ``pallas_call`` lowers through where it is told nothing."""
    if target is None:
        return None
    return "mosaic_tpu" if target.machine == "tpu" else "triton"


def _judged(
    calls: Sequence[KernelCall], anywhere: Iterable[KernelCall], target: Target | None
) -> Iterator[Diagnostic]:
    """What the rules say on one chip; what they say without any chip too is given without one.

    ``anywhere``: the same kernels, as they are without a chip.
    """
    found = [item for kernel in calls for item in judge(kernel, target)]
    if target is None or not found:
        yield from found
        return
    general = {item for kernel in anywhere for item in judge(kernel, None)}
    for item in found:
        without = replace(item, target=None)
        yield without if without in general else item


def judge(kernel: KernelCall, target: Target | None) -> Iterator[Diagnostic]:
    """What the rules say about one kernel on one chip, or on any."""
    context = Context(backend=kernel.backend, target=target)
    yield from _said(events(kernel, context), context)


def _said(seen: Iterable[Located], context: Context) -> Iterator[Diagnostic]:
    """What the rules say about these events."""
    name = None if context.target is None else context.target.name
    quiet: set[Hashable] = set()
    for located in seen:
        if located.kind is not None and located.kind in quiet:
            continue
        findings = list(rules.judge(located.event, context))
        for finding in findings:
            yield diagnose(finding, level="trace", target=name, place=located.place, kernel=located.kernel)
        if not findings and located.kind is not None:
            quiet.add(located.kind)


def events(kernel: KernelCall, context: Context) -> Iterator[Located]:
    """Everything that is seen in one kernel."""
    if not kernel.understood:
        return
    parts = {"the call": calls.events(kernel, context), "its parameters": parameters.events(kernel)}
    if not kernel.foreign(context.target):
        parts |= {
            "the body": body.events(kernel, context),
            "the blocks": windows.events(kernel, context),
            "the index maps": index_maps.events(kernel, context),
            "the memory": memory.events(kernel, context),
            "what buffers hold from step to step": flow.events(kernel, context),
            "the barriers and copies": async_found.events(kernel, context),
            "the slices": ranges_slices.events(kernel, context),
            "the sums": uses_sums.events(kernel),
            "the sums' types": uses_wraps.events(kernel),
            "the reductions": uses_layouts.events(kernel),
            "what is turned": uses_turned.events(kernel),
            "the grid": uses_grid.events(kernel),
            "the operands": uses_operands.events(kernel),
        }
    for what, seen in parts.items():
        yield from guarded(seen, what, kernel.name)
