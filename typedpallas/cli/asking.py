"""The vendors' compilers, asked from the command line: one function, several targets."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from typedpallas.cli import loading
from typedpallas.cli.loading import Picked


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a compiler said for one target; ``kind`` is empty where it compiled. Bytes and seconds."""

    target: str
    kind: str = ""
    reason: str = ""
    detail: str = ""
    stage: str = ""
    where: tuple[str, int] | None = None
    """File and line in the user's source that the compiler names."""
    compiler: str = ""
    seconds: float = 0.0
    memory: dict[str, int | None] | None = None
    notes: tuple[str, ...] = ()
    cached: bool = False

    def as_json(self) -> dict[str, Any]:
        """For tools; ``verdict`` is ``compiled`` or the kind of refusal."""
        return {"verdict": self.kind or "compiled", **{k: v for k, v in asdict(self).items() if k != "kind"}}


def answers(
    picked: Picked, arguments: Sequence[Any], targets: Sequence[str], deadline: float = 120.0
) -> dict[str, Answer]:
    """What the compiler of each target says of the function, whatever the rules say of it.

    Raises:
        PlacementError: there is nothing to compile: a launch cannot even be laid out.
    """
    from typedpallas.compilers import Request, compile_many
    from typedpallas.launching.checks import left_to_the_compiler

    requests = [Request(picked.callable, tuple(arguments), target) for target in targets]

    def ask() -> list[Any]:
        with left_to_the_compiler():
            return compile_many(requests, deadline=deadline)

    outcomes = loading.guarded(ask, f"tracing `{picked.name}` failed")
    return dict(zip(targets, map(answer, outcomes), strict=True))


def answer(outcome: Any) -> Answer:
    """A compiler's outcome, a `Compiled` or a `CompileError`, in the command line's terms."""
    from typedpallas.compilers import CompileError

    if isinstance(outcome, CompileError):
        return Answer(
            target=outcome.target,
            kind=outcome.kind,
            reason=outcome.reason,
            detail=outcome.detail,
            stage=outcome.stage,
            where=outcome.where,
            cached=outcome.cached,
        )
    return Answer(
        target=outcome.target,
        compiler=outcome.compiler,
        seconds=outcome.seconds,
        memory=asdict(outcome.memory),
        notes=outcome.notes,
        cached=outcome.cached,
    )


_SPOKEN = {
    "refused": "refused",
    "crashed": "the compiler crashed",
    "timeout": "no verdict in time",
    "unavailable": "",
}


def spoken(item: Answer) -> str:
    """The answer in a cell of a table."""
    if not item.kind:
        return f"compiled, {item.seconds:.2f} s" + (" (cached)" if item.cached else "")
    start = _SPOKEN[item.kind]
    return f"{start}: {item.reason}" if start else item.reason
