"""``typedpallas check``: a function's kernels judged for each target, and a table of where they fit."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from typedpallas import rules
from typedpallas.cli import avals, check_types, loading, show, targets, terminal
from typedpallas.cli.asking import Answer, answers, spoken
from typedpallas.cli.loading import Picked
from typedpallas.cli.names import UsageError
from typedpallas.cli.terminal import Screen
from typedpallas.diagnostics import Diagnostic, PlacementError, render


@dataclass(frozen=True)
class OnTarget:
    """The verdict for one target; ``target`` is none for what holds on every chip."""

    target: str | None
    diagnostics: tuple[Diagnostic, ...]
    kernels: tuple[str, ...]
    compiler: Answer | None = None
    error: str = ""
    """Why the launch cannot even be made, where no rule has a word for it."""
    settled: tuple[Diagnostic, ...] = ()
    """What was open until the compiler took the kernel."""
    seen: bool = True
    """Whether the function could be traced to its kernels."""

    @property
    def verdict(self) -> str:
        """``refuted``, ``open``, ``fits``, or ``no kernel``."""
        if self.error:
            return "refuted"
        return _verdict(self.diagnostics) if self.kernels or self.diagnostics else "no kernel"


def _verdict(found: Sequence[Diagnostic]) -> str:
    kinds = {item.verdict for item in found}
    return "refuted" if "refuted" in kinds else "open" if "open" in kinds else "fits"


def run(options: argparse.Namespace) -> int:
    """Check, print, and return 1 if anything is refuted."""
    if options.level == "types":
        return check_types.run(options)
    if options.show_open:
        raise UsageError("--show-open is for --level types; the trace says by itself what it leaves open")
    shapes = avals.parse_avals(options.args)
    blocks = avals.parse_blocks(options.blocks) if options.blocks else {}
    chosen = targets.named(options.target) if options.target else targets.configured(Path.cwd())
    if options.compile and not chosen:
        raise UsageError("--compile: say for which chips with --target")
    picked = loading.load(options.what).bound(blocks, options.backend)
    arguments = avals.to_jax(shapes)
    found = [_on(picked, arguments, target) for target in chosen or (None,)]
    if options.compile and not _cannot_be_laid_out(found):
        replies = answers(picked, arguments, chosen)
        found = [_answered(item, replies[item.target or ""]) for item in found]
    _print(picked, found, options.format)
    return _code(found)


def _cannot_be_laid_out(found: Sequence[OnTarget]) -> bool:
    """Whether there is no kernel to compile: a launch was refused before there was one."""
    return any(item.error or (item.diagnostics and not item.seen) for item in found)


def report(picked: Picked, arguments: Sequence[Any], target: str | None) -> Any:
    """The trace's report; a launch's own check reports what a call of it would raise.

    Raises:
        PlacementError: a launch is refused before there is a kernel to look at.
        LaunchError: it cannot even be made, and no rule has a word for it.
        UsageError: the function cannot be traced.
    """
    from typedpallas.launching import LaunchError

    try:
        if picked.is_launch:
            launch: Any = picked.function
            return picked.here(lambda: launch.check(*arguments, target=target))
        import typedpallas as tp

        return tp.check(picked.function, *arguments, target=target)
    except (PlacementError, LaunchError):
        raise
    except Exception as error:
        hint = "" if arguments else "; give the arguments with --args"
        raise UsageError(f"tracing `{picked.name}` failed{hint}\n{loading.trimmed(error)}") from error


def _on(picked: Picked, arguments: Sequence[Any], target: str | None) -> OnTarget:
    from typedpallas.launching import LaunchError

    try:
        seen = report(picked, arguments, target)
    except PlacementError as error:
        return _refused(target, picked.placed(error.diagnostics))
    except LaunchError as error:
        return OnTarget(target, (), (), error=str(error))
    if not seen.kernels:
        return _refused(target, picked.placed(seen.diagnostics))
    found = picked.placed(seen.diagnostics)
    return OnTarget(target, found, tuple(dict.fromkeys(kernel.name for kernel in seen.kernels)))


def _refused(target: str | None, found: Sequence[Diagnostic]) -> OnTarget:
    """What was found before there was a kernel to look at."""
    names = tuple(dict.fromkeys(item.kernel for item in found if item.kernel))
    return OnTarget(target, tuple(found), names, seen=False)


def _answered(item: OnTarget, answer: Answer) -> OnTarget:
    """The verdict with the compiler's, which settles what was open and is the compiler's to refuse."""
    if answer.kind:
        return replace(item, compiler=answer)
    settled = tuple(d for d in item.diagnostics if d.verdict == "open" and _compiler_refuses(d.rule))
    left = tuple(d for d in item.diagnostics if d not in settled)
    return replace(item, compiler=answer, diagnostics=left, settled=settled)


def _code(found: Sequence[OnTarget]) -> int:
    refusals = [item.compiler.kind for item in found if item.compiler is not None and item.compiler.kind]
    if any(item.verdict == "refuted" for item in found) or any(kind != "unavailable" for kind in refusals):
        return 1
    return 2 if refusals else 0


def _print(picked: Picked, found: Sequence[OnTarget], style: str) -> None:
    on = terminal.screen()
    everything = [item for each in found for item in each.diagnostics]
    if style == "json":
        on.write(json.dumps(as_json(picked, found), indent=2))
    elif style == "text":
        for group in show.grouped(everything):
            on.write("\n".join([*show.group_lines(on, group), ""]))
        for error in dict.fromkeys(item.error for item in found if item.error):
            on.write(_head(picked, error, on) + "\n")
        for line in summary(on.narrow(), picked, found):
            on.write(line)
    else:
        unique = list(dict.fromkeys(everything))
        text = render(unique, "github" if style == "github" else "sarif")
        if text:
            on.write(text)


def _head(picked: Picked, error: str, on: Screen) -> str:
    file, line = picked.place
    place = f"{terminal.shown_path(file)}:{line}: " if file else ""
    return f"{place}{on.paint('error:', 'red', 'bold')} {error}"


def as_json(picked: Picked, found: Sequence[OnTarget]) -> dict[str, Any]:
    """The answer for tools; ``docs/cli.md`` describes it."""
    return {
        "function": picked.name,
        "ok": _code(found) == 0,
        "targets": [
            {
                "target": item.target,
                "verdict": item.verdict,
                "kernels": list(item.kernels),
                "error": item.error,
                "diagnostics": [asdict(diagnostic) for diagnostic in item.diagnostics],
                "settled": [asdict(diagnostic) for diagnostic in item.settled],
                "compiler": None if item.compiler is None else item.compiler.as_json(),
            }
            for item in found
        ],
    }


def summary(on: Screen, picked: Picked, found: Sequence[OnTarget]) -> list[str]:
    """The table, kernel by target, and the line below it."""
    asked = any(item.compiler is not None for item in found)
    kernels = tuple(dict.fromkeys(name for item in found for name in item.kernels))
    if not kernels and not any(item.diagnostics or item.error for item in found):
        return [f"`{picked.name}` launches no kernel on these arguments"]
    head = ("kernel", "target", "check", "compiler") if asked else ("kernel", "target", "check")
    rows = [_row(kernel, item, asked) for kernel in kernels or (picked.kernel,) for item in found]
    errors = len(dict.fromkeys(item.error for item in found if item.error))
    causes = [group[0][0] for group in show.grouped(d for each in found for d in each.diagnostics)]
    lines = [*terminal.table(on, head, rows), "", show.tally(causes, errors) + _compilers(found)]
    slugs = dict.fromkeys(item.rule for item in causes)
    lines += [f"  why: typedpallas explain {slug}" for slug in slugs]
    return lines + _disagreements(found)


def _compilers(found: Sequence[OnTarget]) -> str:
    """How the compilers' verdicts add up; empty where none was asked."""
    kinds = [item.compiler.kind or "compiled" for item in found if item.compiler is not None]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(sorted(kinds)))
    settled = len(show.merged(d for item in found for d in item.settled))
    told = f" (which settles {settled} open {'question' if settled == 1 else 'questions'})" if settled else ""
    return f"; compilers: {counts}{told}" if counts else ""


def _row(kernel: str, item: OnTarget, asked: bool) -> tuple[str, ...]:
    own = [d for d in item.diagnostics if d.kernel in ("", kernel)]
    verdict = _verdict(own)
    first = next((d for d in own if d.verdict == verdict), None)
    target = item.target or "every chip"
    if not asked or item.compiler is None:
        return kernel, target, item.error or ("fits" if first is None else f"{first.message}  [{first.rule}]")
    short = "refuted" if item.error else verdict if first is None else f"{verdict} [{first.rule}]"
    return kernel, target, short, spoken(item.compiler)


def _disagreements(found: Sequence[OnTarget]) -> list[str]:
    """Where the compiler took what a rule says it refuses: a mistake of the rule, said out loud."""
    lines = []
    for item in found:
        if item.compiler is None or item.compiler.kind:
            continue
        wrong = [d for d in item.diagnostics if d.verdict == "refuted" and _compiler_refuses(d.rule)]
        lines += [
            f"`{d.rule}` refuses what the compiler for {item.target} takes: a bug of typedpallas, please report it"
            for d in wrong
        ]
    return list(dict.fromkeys(lines))


def _compiler_refuses(slug: str) -> bool:
    return rules.by_slug(slug).example.compiler == "refuses"
