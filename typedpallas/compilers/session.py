"""Asking the vendors' compilers: one function, one lowered module, or a table of both."""

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from typing import Any

from typedpallas.chips import Target, get
from typedpallas.compilers import cache, kernel_text, reasons, versions
from typedpallas.compilers.job import Job, worker_kind
from typedpallas.compilers.lowering import Lowered, lower_for
from typedpallas.compilers.pool import POOL, Answer
from typedpallas.compilers.results import Compiled, CompileError, KernelCode, Kind, MemoryFigures

type Outcome = Compiled | CompileError

_KILLED = (9, 15)
"""SIGKILL and SIGTERM come from outside, such as from a machine out of memory: no verdict on the kernel."""


def compile(fn: Any, *avals: Any, target: str | Target, deadline: float = 120.0) -> Compiled:
    """Has the target's own compiler compile ``fn(*avals)``, on this machine, whatever its hardware.

    `avals`: pytrees of ``jax.ShapeDtypeStruct``, or of arrays, of which only shape and dtype count.
    `deadline`: seconds for lowering, and again for the compiler.

    Raises:
        CompileError: refused, crashed, timeout or unavailable.
        typedpallas.chips.UnknownTarget: no such target.
        Exception: whatever the function itself raises while it is traced.
    """
    chip = get(target) if isinstance(target, str) else target
    versions.compiler_version(chip)
    return compile_lowered(lower_for(fn, *avals, target=chip, deadline=deadline), deadline=deadline)


def compile_lowered(lowered: Lowered, deadline: float = 120.0) -> Compiled:
    """Has the target's own compiler compile a lowered module. `deadline`: seconds.

    Raises:
        CompileError: refused, crashed, timeout or unavailable.
    """
    compiler = versions.compiler_version(lowered.target)
    text = kernel_text.canonical_text(lowered.code)
    name = cache.key(text, asdict(lowered.target), compiler, lowered.options)
    exact = hashlib.sha256(lowered.code).hexdigest()
    known = cache.read(name)
    if known is not None:
        moved = known.pop("exact") != exact
        return _given(Answer(**known), lowered, compiler, deadline, cached=True, moved=moved)
    job = Job(
        target=lowered.target,
        code=lowered.code,
        partitions=lowered.partitions,
        options=lowered.options,
        deadline=deadline,
    )
    answer = POOL.ask(job)
    if _lasts(answer):
        cache.write(name, asdict(answer) | {"exact": exact})
    return _given(answer, lowered, compiler, deadline, cached=False, moved=False)


def _lasts(answer: Answer) -> bool:
    """Whether the same job would be answered so again."""
    if answer.status == "crashed":
        return answer.signal not in _KILLED
    return answer.status in ("compiled", "refused")


def _given(
    answer: Answer, lowered: Lowered, compiler: str, deadline: float, *, cached: bool, moved: bool
) -> Compiled:
    """The answer as the caller gets it; `moved`: the source has other lines than when it was asked for."""
    if answer.status == "compiled":
        kernels = tuple(KernelCode(**kernel) for kernel in answer.header["kernels"])
        return Compiled(
            target=lowered.target.name,
            compiler=compiler,
            memory=MemoryFigures(**answer.header["memory"]),
            module=answer.text,
            kernels=kernels,
            costs=answer.header.get("costs", {}),
            notes=(*lowered.notes, *(kernel.warning for kernel in kernels if kernel.warning)),
            seconds=answer.header["seconds"],
            cached=cached,
        )
    kind, said = _failure(answer, lowered.target, compiler, deadline)
    raise CompileError(
        kind=kind,
        target=lowered.target.name,
        reason=said.first,
        detail=reasons.without_places(said.detail) if moved else said.detail,
        where=None if moved else said.where,
        cached=cached,
    )


def _failure(answer: Answer, target: Target, compiler: str, deadline: float) -> tuple[Kind, reasons.Reason]:
    if answer.status == "timeout":
        return "timeout", reasons.Reason(f"{compiler.split(' (')[0]} gave no verdict within {deadline:g} s")
    said = reasons.of_words(answer.header.get("message", ""), answer.log, _silent(answer))
    if answer.status == "unavailable" and answer.header.get("installed"):
        return "unavailable", said
    if answer.status == "unavailable":
        hint = versions.install_hint(target.machine)
        return "unavailable", reasons.Reason(f"{said.first} ({hint})", said.detail)
    return "refused" if answer.status == "refused" else "crashed", said


def _silent(answer: Answer) -> str:
    ended = f"by signal {answer.signal}" if answer.signal else "by itself"
    return f"the compiler's process was ended {ended} and said nothing"


@dataclass(frozen=True)
class Request:
    """One cell of a table: ``fn(*avals)`` for a target."""

    fn: Any
    avals: tuple[Any, ...]
    target: str | Target


def compile_many(
    requests: Sequence[Request],
    *,
    deadline: float = 120.0,
    workers: int = 2,
    progress: Callable[[int, Outcome], None] | None = None,
) -> list[Outcome]:
    """Compiles them all, `workers` at a time; the outcomes are in the order of the requests.

    Functions are traced and lowered one after the other in the calling thread, under its contexts; so is
    `progress` called, with a request's index and outcome as each becomes known.

    Raises:
        Exception: whatever a function itself raises while it is traced.
    """
    outcomes: dict[int, Outcome] = {}
    running: dict[Future[Outcome], int] = {}

    def known(index: int, outcome: Outcome) -> None:
        outcomes[index] = outcome
        if progress is not None:
            progress(index, outcome)

    def collect(seconds: float | None) -> None:
        done = wait(running, seconds, FIRST_COMPLETED).done
        for future in sorted(done, key=running.__getitem__):
            known(running.pop(future), future.result())

    with ThreadPoolExecutor(workers, thread_name_prefix="typedpallas-compile") as threads:
        try:
            for index in sorted(range(len(requests)), key=lambda i: _worker_order(requests[i])):
                lowered = _lowered(requests[index], deadline)
                if isinstance(lowered, CompileError):
                    known(index, lowered)
                else:
                    running[threads.submit(_compiled, lowered, deadline)] = index
                collect(0)
            while running:
                collect(None)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            POOL.interrupt()
            raise
    return [outcomes[index] for index in range(len(requests))]


def _worker_order(request: Request) -> tuple[str, str]:
    """Requests for one kind of worker come together, so that few workers are started."""
    chip = get(request.target) if isinstance(request.target, str) else request.target
    return worker_kind(chip), chip.name


def _lowered(request: Request, deadline: float) -> Lowered | CompileError:
    chip = get(request.target) if isinstance(request.target, str) else request.target
    try:
        versions.compiler_version(chip)
        return lower_for(request.fn, *request.avals, target=chip, deadline=deadline)
    except CompileError as error:
        return error


def _compiled(lowered: Lowered, deadline: float) -> Outcome:
    try:
        return compile_lowered(lowered, deadline)
    except CompileError as error:
        return error
