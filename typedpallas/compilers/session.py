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
from typedpallas.compilers.results import Compiled, CompileError, KernelCode, MemoryFigures

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
        return _given(_remembered(known, exact), lowered, compiler, cached=True)
    job = Job(
        target=lowered.target,
        code=lowered.code,
        partitions=lowered.partitions,
        options=lowered.options,
        deadline=deadline,
    )
    verdict, lasting = _verdict(POOL.ask(job), job, compiler)
    if lasting:
        cache.write(name, verdict | {"exact": exact})
    return _given(verdict, lowered, compiler, cached=False)


def _verdict(answer: Answer, job: Job, compiler: str) -> tuple[dict[str, Any], bool]:
    """The answer as a plain dictionary, and whether the same job would be answered so again."""
    if answer.status == "compiled":
        return {"kind": "compiled", "module": answer.payload.decode(), **answer.header}, True
    if answer.status == "timeout":
        reason = reasons.Reason(f"{compiler.split(' (')[0]} gave no verdict within {job.deadline:g} s")
        return _failure("timeout", reason), False
    said = reasons.of_words(answer.header.get("message", ""), answer.log, _silent(answer))
    if answer.status == "unavailable":
        hint = versions.install_hint(job.target.machine)
        return _failure("unavailable", reasons.Reason(f"{said.first} ({hint})", said.detail)), False
    if answer.status == "refused":
        return _failure("refused", said), True
    return _failure("crashed", said), answer.status == "crashed" and answer.signal not in _KILLED


def _silent(answer: Answer) -> str:
    ended = f"by signal {answer.signal}" if answer.signal else "by itself"
    return f"the compiler's process was ended {ended} and said nothing"


def _failure(kind: str, reason: reasons.Reason) -> dict[str, Any]:
    return {"kind": kind, "reason": reason.first, "detail": reason.detail, "where": reason.where}


def _remembered(verdict: dict[str, Any], exact: str) -> dict[str, Any]:
    """A verdict from the cache; where the source has moved since, without the lines it names."""
    if verdict["kind"] == "compiled" or verdict["exact"] == exact:
        return verdict
    return verdict | {"where": None, "detail": reasons.without_places(verdict["detail"])}


def _given(verdict: dict[str, Any], lowered: Lowered, compiler: str, cached: bool) -> Compiled:
    if verdict["kind"] != "compiled":
        where = verdict["where"]
        raise CompileError(
            kind=verdict["kind"],
            target=lowered.target.name,
            reason=verdict["reason"],
            detail=verdict["detail"],
            where=(where[0], where[1]) if where else None,
            cached=cached,
        )
    return Compiled(
        target=lowered.target.name,
        compiler=compiler,
        memory=MemoryFigures(**verdict["memory"]),
        module=verdict["module"],
        kernels=tuple(KernelCode(**kernel) for kernel in verdict["kernels"]),
        notes=lowered.notes,
        seconds=verdict["seconds"],
        cached=cached,
    )


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
