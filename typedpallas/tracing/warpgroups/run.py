"""Follow a GPU kernel turn by turn: the warpgroups of one block, each until it waits for another."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.warpgroups import numbers
from typedpallas.tracing.warpgroups import refs as async_refs
from typedpallas.tracing.warpgroups.memory import access
from typedpallas.tracing.warpgroups.numbers import Frame
from typedpallas.tracing.warpgroups.plan import Plan, Plans, Step
from typedpallas.tracing.warpgroups.state import Barrier, Buffer, Claim, How, NotFollowed, Stamp, Starved, Thread
from typedpallas.tracing.warpgroups.views import View

type Results = Sequence[Any]
type Handler = Callable[[Run, Thread, Step, Frame], Results]
"""What an operation does at once, and what its results stand for."""
type Waiter = Callable[[Run, Thread, Step, Frame], Generator[None, None, Results]]
"""The same for what may have to wait: it yields while it does."""

_HANDLERS: dict[str, Handler] = {}
_WAITERS: dict[str, Waiter] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Enter what is done for operations of these names."""

    def enter(handler: Handler) -> Handler:
        _HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return enter


def waits(*names: str) -> Callable[[Waiter], Waiter]:
    """Enter what is done for operations that may have to wait."""

    def enter(waiter: Waiter) -> Waiter:
        _WAITERS.update(dict.fromkeys(names, waiter))
        return waiter

    return enter


@dataclass
class Run:
    """A block that is followed. ``groups``: its warpgroups."""

    budget: int
    """Equations that may still be visited."""
    groups: list[Thread]
    threads: list[Thread] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    plans: Plans = field(default_factory=Plans)
    buffers: dict[Any, Buffer] = field(default_factory=dict)
    meetings: dict[Any, dict[int, dict[Any, int]]] = field(default_factory=dict)
    semaphores: dict[Any, int] = field(default_factory=dict)
    """What those who signalled any semaphore know."""
    complete: bool = False
    """Whether every thread came to its end."""

    def say(self, claim: Claim) -> None:
        """Something is wrong."""
        self.claims.append(claim)

    def follow(self, body: Callable[[Thread], Iterator[None]]) -> None:
        """Follow every warpgroup to the end, or as far as the model goes."""
        for thread in self.groups:
            self.start(thread, body(thread))
        try:
            while self.threads:
                if not self._round():
                    self._stuck()
                    return
        except NotFollowed:
            return
        self.complete = True

    def start(self, thread: Thread, walk: Iterator[None]) -> None:
        """One more thread."""
        thread.walk, thread.done = walk, False
        self.threads.append(thread)

    def _round(self) -> bool:
        """Let every thread go on until it waits; whether any could."""
        before = self.budget
        moved = False
        for thread in list(self.threads):
            assert thread.walk is not None
            if next(thread.walk, self) is self:
                thread.done, moved = True, True
                self.threads.remove(thread)
        return moved or self.budget < before

    def _stuck(self) -> None:
        for thread in self.threads:
            if thread.blocked is not None:
                self.say(Starved(thread.blocked[0], thread.blocked[1], thread.moment()))

    def walk(self, thread: Thread, plan: Plan, frame: Frame) -> Generator[None, None, None]:
        """Every equation of a jaxpr that matters."""
        for step in plan.steps:
            self.budget -= 1
            if step.compute is not None:
                frame[step.eqn.outvars[0]] = step.compute(frame)
                continue
            waiter = _WAITERS.get(step.name)
            if waiter is not None:
                results = yield from waiter(self, thread, step, frame)
            else:
                results = _HANDLERS.get(step.name, unknown)(self, thread, step, frame)
            for var, value in zip(step.eqn.outvars, results, strict=False):
                frame[var] = value
        if self.budget < 0:
            raise NotFollowed("too long")

    def inner(self, thread: Thread, jaxpr: Any, arguments: Sequence[Any]) -> Generator[None, None, list[Any]]:
        """A jaxpr whose inputs are these."""
        opened = jaxapi.open_jaxpr(jaxpr)
        frame = dict(zip(opened.invars, arguments, strict=True))
        yield from self.walk(thread, self.plans.of(opened), frame)
        return [numbers.read(frame, atom) for atom in opened.outvars]

    def uses(
        self, thread: Thread, step: Step, frame: Frame, operand: tuple[Any, View], how: How, stamp: Stamp, **more: Any
    ) -> None:
        """An operation's access to one of its refs."""
        ref, view = operand
        buffer = numbers.read(frame, ref)
        if isinstance(buffer, Buffer):
            access(self.say, thread, buffer, view.part(frame), how, stamp, step.eqn, **more)

    def barrier(self, frame: Frame, operand: tuple[Any, View]) -> Barrier:
        """The one barrier that an operation is about."""
        ref, view = operand
        buffer = numbers.read(frame, ref)
        if not isinstance(buffer, Buffer) or not buffer.barriers:
            raise NotFollowed("an unknown barrier")
        element = view.element(frame, buffer.shape)
        if element is None:
            raise NotFollowed("one of several barriers")
        return buffer.barriers[element]

    def buffer(self, key: Any, name: str, aval: Any) -> Buffer:
        """The buffer of a variable: the same each time that its scope is entered, as is its memory."""
        found = self.buffers.get(key)
        if found is None:
            found = self.buffers[key] = _buffer(len(self.buffers), name, aval)
        return found


def _buffer(number: int, name: str, aval: Any) -> Buffer:
    shape = jaxapi.shape_of(aval) or ()
    if any(extent is None for extent in shape):
        raise NotFollowed("a buffer of unknown size")
    sizes = tuple(extent or 0 for extent in shape)
    arrivals = async_refs.barrier_arrivals(aval)
    kind = "barrier" if arrivals is not None else async_refs.gpu_memory(aval)
    buffer = Buffer(name, kind, sizes)
    for k in range(_count(sizes) if arrivals is not None else 0):
        buffer.barriers.append(Barrier(_element(name, k, sizes), (number, k), arrivals or 0))
    return buffer


def _count(sizes: Sequence[int]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found


def _element(name: str, element: int, sizes: Sequence[int]) -> str:
    if not sizes:
        return name
    index: list[str] = []
    for extent in reversed(sizes):
        index.append(str(element % extent))
        element //= extent
    return f"{name}[{', '.join(reversed(index))}]"


def unknown(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    """An operation without a model. With on-chip memory or a barrier in its hands it may do anything."""
    for atom in step.eqn.invars:
        buffer = numbers.read(frame, atom)
        if isinstance(buffer, Buffer) and buffer.kind != "elsewhere":
            raise NotFollowed(step.name)
    return ()
