"""Walk a kernel's body: what each load gets, what each store leaves, which copies are under way."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.flow import cells, numbers, regions
from typedpallas.tracing.flow import garbage as flow_garbage
from typedpallas.tracing.flow import masks as flow_masks
from typedpallas.tracing.flow.claims import Claim
from typedpallas.tracing.flow.masks import Facts, Kind, Later, Scope
from typedpallas.tracing.flow.names import STEP, Name, Naming, Question, is_data
from typedpallas.tracing.flow.numbers import Number
from typedpallas.tracing.flow.plan import Plan, Plans, Step
from typedpallas.tracing.flow.regions import Region
from typedpallas.tracing.flow.spans import Span
from typedpallas.tracing.flow.state import DOUBTFUL, PLAIN, Bound, Buffer, Flight, Ids, Origin, State

type Frame = dict[Any, Bound]
"""What the variables in scope stand for; those that are plain are left out."""


type Handler = Callable[[Run, Any, Plan, Frame], Sequence[Bound]]
"""What one kind of equation does, and what its results stand for."""

_HANDLERS: dict[str, Handler] = {}
_KINDS: tuple[Kind, ...] = ("memory", "truth", "padding", "nan")
"""Of garbage of several kinds the first is what the rest of it is taken for."""


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Enter a handler for operations of these names; ``unknown`` is for all others that reach memory."""

    def enter(handler: Handler) -> Handler:
        _HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return enter


class NotFollowed(Exception):
    """The kernel does something that this walk has no model of, or is too long to walk."""


@dataclass
class Run:
    """A walk in progress. ``unroll``: loops of at most so many turns are walked turn by turn."""

    unroll: int
    budget: int
    """Equations that may still be visited."""
    phased: bool = False
    """Whether the turns of longer loops are told apart by the remainders that their bodies take."""
    extents: tuple[int, ...] = ()
    """Steps along each grid axis, as the body counts axes."""
    ids: Ids = ()
    state: State = field(default_factory=State)
    guards: frozenset[int] = frozenset()
    """The conditions of unknown outcome under which we are."""
    claims: list[Claim] = field(default_factory=list)
    waited: set[int] = field(default_factory=set)
    """Semaphores that some path waits for."""
    starts: dict[tuple[int, int | None], Flight] = field(default_factory=dict)
    """The last copy started on each semaphore."""
    remote: frozenset[int] = frozenset()
    """Semaphores that other devices signal."""
    shared: set[int] = field(default_factory=set)
    """Semaphores that are found to be such."""
    begun: set[int] = field(default_factory=set)
    """Semaphores that something was signalled on so far, on any path."""
    waits: dict[tuple[int, int], tuple[Any, Ids, int]] = field(default_factory=dict)
    """The last wait for each element of those that other devices signal: its step, and how much it takes."""
    plans: Plans = field(default_factory=Plans)
    buffers: dict[Any, Buffer] = field(default_factory=dict)
    padded: dict[int, Kind] = field(default_factory=dict)
    """What lies past the ends of inputs whose blocks do not divide them, by the numbers of their windows."""
    ending: set[int] = field(default_factory=set)
    """Inputs of a GPU's program whose windows end where their arrays end: a load may go on behind that."""
    tables: dict[int, Any] = field(default_factory=dict)
    """Scalars fetched ahead whose contents are known, as arrays of int64, by the numbers of their buffers."""
    outside: dict[tuple[int, int], tuple[Any, int, Ids]] = field(default_factory=dict)
    """By load of one entry of a known table and axis: an index that the table does not have, and its step."""
    written: set[int] = field(default_factory=set)
    """Buffers that something is stored to."""
    undecided: bool = False
    """Whether a branch or a loop that starts copies or waits for them hangs on what is not known."""
    naming: Naming | None = None
    """Gives unknown numbers names, and takes some of them to be known; none where nothing asks."""
    questions: dict[Question, None] = field(default_factory=dict)
    """What is undecided, in order, where names are given."""
    tokens: int = 0
    spent: int = 0
    """Equations that were visited."""

    def anew(self) -> "Run":
        """The same walk from the start, with the semaphores known that other devices signal."""
        remote, budget = self.remote | self.shared, self.budget + self.spent
        naming = None if self.naming is None else replace(self.naming, here=None)
        return Run(self.unroll, budget, self.phased, naming=naming, remote=remote)

    def buffer(self, key: Any, make: Callable[[int], Buffer]) -> Buffer:
        """The buffer that a variable stands for; the same each time that it is made."""
        if key not in self.buffers:
            self.buffers[key] = make(len(self.buffers))
        return self.buffers[key]

    def guard(self) -> frozenset[int]:
        """A new condition of unknown outcome."""
        self.tokens += 1
        return self.guards | {self.tokens}

    def ask(self, eqn: Any, name: Name | None, turn: int | None = None) -> None:
        """Something is undecided."""
        if not self.plans.counts(eqn) or jaxapi.is_of_pipeline(eqn):
            return
        self.undecided = True
        if self.naming is not None and self.naming.here is not None:
            self.questions[Question(eqn, (id(eqn), self.naming.here), name, turn)] = None

    @property
    def step(self) -> Name | None:
        """The name of a number that is another one at other steps or turns."""
        return None if self.naming is None else STEP

    def inner(self, jaxpr: Any, arguments: Sequence[Bound], at: tuple[Any, ...] | None = None) -> list[Bound]:
        """Walk a jaxpr whose inputs are these. ``at``: where that is, from here; none where in several turns."""
        opened = jaxapi.open_jaxpr(jaxpr)
        if len(opened.invars) != len(arguments):
            raise NotFollowed(f"{len(arguments)} operands for {len(opened.invars)}")
        frame = {var: bound for var, bound in zip(opened.invars, arguments, strict=True) if bound is not PLAIN}
        plan = self.plans.of(opened)
        if self.naming is None:
            self.walk(plan, frame)
        else:
            here, self.naming.here = self.naming.here, None if at is None else self.naming.inside(*at)
            self.walk(plan, frame)
            self.naming.here = here
        return [self.given(plan, frame, atom) for atom in opened.outvars]

    def given(self, plan: Plan, frame: Frame, atom: Any) -> Bound:
        """What an operand stands for in another jaxpr, which may ask for the elements of a mask."""
        bound = read(frame, atom)
        if not self.padded or bound.known is not None or jaxapi.is_ref(atom.aval):
            return bound
        if not getattr(atom.aval, "shape", ()) and not (jaxapi.is_literal(atom) and bound.number is None):
            return bound
        return replace(bound, known=Later(scope(plan, frame), atom))

    def walk(self, plan: Plan, frame: Frame) -> None:
        """Walk every equation of a jaxpr."""
        visited = 0
        for step in plan.steps:
            eqn = step.eqn
            if step.kind == "number":
                frame[eqn.outvars[0]] = self._number(step, plan, frame)
            elif step.kind == "value":
                if not frame.keys().isdisjoint(step.read):
                    self._value(step, plan, frame)
                continue
            elif (step.refs or step.counts or self._is_tainted(step, frame)) and not self._is_calm(step, frame):
                self._enter(step, plan, frame)
            visited += 1
        self.spend(visited)

    def spend(self, equations: int) -> None:
        """So many equations were visited.

        Raises:
            NotFollowed: that were too many.
        """
        self.budget -= equations
        self.spent += equations
        if self.budget < 0:
            raise NotFollowed("too long")

    def _is_tainted(self, step: Step, frame: Frame) -> bool:
        return any(cells.worst(frame[var].cells) for var in step.read if var in frame)

    def _is_calm(self, step: Step, frame: Frame) -> bool:
        """Whether an equation only makes something meant of what is meant: then nothing of it is looked at."""
        if step.calm is None or self.state.flights or self.naming is not None:
            return False
        held = self.state.cells
        for var in step.read:
            bound = frame.get(var, PLAIN)
            if self.tables and bound.buffer is not None and bound.buffer.number in self.tables:
                return False
            if cells.worst(bound.cells if bound.buffer is None else held.get(bound.buffer.number, cells.MAYBE)):
                return False
        reached = [frame[step.eqn.invars[k]].buffer for k in step.calm.masked]
        if any(buffer is None or buffer.number in self.ending for buffer in reached):
            return False
        for buffer in [frame[step.eqn.invars[k]].buffer for k in step.calm.stored]:
            assert buffer is not None
            self.tables.pop(buffer.number, None)
            self.written.add(buffer.number)
        return True

    def _enter(self, step: Step, plan: Plan, frame: Frame) -> None:
        handler = _HANDLERS.get(step.eqn.primitive.name, _HANDLERS["unknown"])
        results = handler(self, step.eqn, plan, frame)
        for var, bound in zip(step.eqn.outvars, results, strict=True):
            frame[var] = bound

    def _number(self, step: Step, plan: Plan, frame: Frame) -> Bound:
        eqn, name = step.eqn, step.eqn.primitive.name
        if name in ("program_id", "num_programs"):
            return Bound(self._of_grid(name, eqn.params["axis"]), name=self.step if name == "program_id" else None)
        bounds = [
            read(frame, atom) if known is None else known for atom, known in zip(eqn.invars, step.known, strict=True)
        ]
        found = numbers.result(eqn, [bound.number for bound in bounds])
        if name == "not":
            found = numbers.negated(eqn, bounds[0].number)
        if self.naming is not None:
            data = functools.partial(is_data, self.naming, plan.made, frame)
            found, called = self.naming.result(eqn, [(b.number, b.name) for b in bounds], found, data)
            if called is not None and not any(cells.worst(bound.cells) for bound in bounds):
                return Bound(found, name=called)
        if not any(cells.worst(bound.cells) for bound in bounds):
            return Bound(found)
        return self._mixed(eqn, (plan, frame), bounds, found)

    def _of_grid(self, name: str, axis: int) -> Number:
        if axis >= len(self.ids):
            return None
        return self.ids[axis] if name == "program_id" else (self.extents[axis],) * 2

    def _value(self, step: Step, plan: Plan, frame: Frame) -> None:
        eqn, plainly = step.eqn, _plainly_doubtful(step, frame)
        if plainly is not None:
            frame.update(dict.fromkeys(eqn.outvars, DOUBTFUL) if plainly else ())
            return
        bounds = [read(frame, atom) for atom in eqn.invars]
        if any(cells.worst(bound.cells) for bound in bounds):
            mixed = self._mixed(eqn, (plan, frame), bounds, None)
            for var in eqn.outvars:
                frame[var] = mixed

    def _mixed(self, eqn: Any, where: tuple[Plan, Frame], bounds: Sequence[Bound], number: Number) -> Bound:
        plan, frame = where
        which = bounds[0].number if eqn.primitive.name == "select_n" else None
        facts = Facts(plan.made, which, self._kind(bounds), scope(plan, frame).of)
        held = flow_garbage.through(eqn, [bound.cells for bound in bounds], facts)
        origin = self._origin(eqn, bounds)
        return Bound(number, held, origin)

    def _kind(self, bounds: Sequence[Bound]) -> Kind:
        """What the certain garbage among operands is."""
        spoiled = [bound for bound in bounds if cells.worst(bound.cells) >= cells.SPOILED]
        kinds = {self._kind_of(bound.origin) for bound in spoiled}
        return next((kind for kind in _KINDS if kind in kinds), "memory")

    def _kind_of(self, origin: Origin | None) -> Kind:
        kind: Kind = "memory" if origin is None else self.padded.get(origin.buffer.number, "memory")
        if origin is None or origin.made is None or kind == "memory":
            return kind
        return "truth" if origin.made == "truth" else "padding"

    def _origin(self, eqn: Any, bounds: Sequence[Bound]) -> Origin | None:
        """Where most of the garbage comes from."""
        found = [(cells.share(b.cells), b.origin) for b in bounds if b.origin is not None and cells.worst(b.cells)]
        if not found:
            return None
        made = flow_garbage.made_of(eqn)
        _, origin = max(found, key=lambda each: (each[0], each[1].mixed is not None))
        if made is not None and origin.made != "truth":
            origin = replace(origin, made=made)
        if origin.mixed is None and eqn.primitive.name in flow_garbage.MIXES and origin.buffer.number in self.padded:
            return replace(origin, mixed=eqn)
        return origin


def _plainly_doubtful(step: Step, frame: Frame) -> bool | None:
    """Whether results may be garbage, where that is plain; none where operands have to be looked at closely."""
    doubtful = False
    for var in step.read:
        bound = frame.get(var, PLAIN)
        held = bound.cells
        if not isinstance(held, int) or held > cells.MAYBE or bound.origin is not None:
            return None
        doubtful = doubtful or held == cells.MAYBE
    return doubtful if not doubtful or step.eqn.primitive.name in flow_garbage.STAYS_DOUBTFUL else None


def read(frame: Frame, atom: Any) -> Bound:
    """What an equation's operand stands for."""
    if jaxapi.is_literal(atom):
        return Bound(numbers.literal(atom.val))
    return frame.get(atom, PLAIN)


def number_of(frame: Frame) -> Callable[[Any], Number]:
    """Reads parts of an index."""

    def of(part: Any) -> Number:
        if jaxapi.is_literal(part):
            return numbers.literal(part.val)
        return frame.get(part, PLAIN).number if hasattr(part, "aval") else numbers.literal(part)

    return of


def region(run: Run, frame: Frame, transforms: Sequence[Any], shape: tuple[int, ...]) -> Region | None:
    """The box that the views of one of `Plans.operands` take of a buffer, made once for the same numbers."""
    key = id(transforms), shape
    views = run.plans.views.get(key)
    if views is None or views.transforms is not transforms:
        views = run.plans.views[key] = regions.Views(transforms, shape)
    return views.at(tuple([frame[var].number if var in frame else None for var in views.asked]))


def scope(plan: Plan, frame: Frame) -> Scope:
    """Reads the elements of masks, where they follow from numbers that are known."""

    def of(atom: Any) -> Span:
        bound = frame.get(atom)
        if bound is None:
            return None
        return flow_masks.of_number(bound.number) if bound.known is None else bound.known.get()

    return Scope(plan.made, of)
