"""`barrier-arrivals`."""

from collections.abc import Iterator

from typedpallas.events import BarrierOverrun, BarrierStarved, Context, Event
from typedpallas.rules import _moments
from typedpallas.rules._moments import by
from typedpallas.rules.base import Example, Finding, Rule


class BarrierArrivals(Rule):
    """More or fewer arrive at a barrier in each phase than the barrier counts.

    A phase of a barrier ends with its last arrival, ``num_arrivals`` of them. Each copy from global memory is one
    arrival, each `barrier_arrive` of a warpgroup, each commit of products on Blackwell. With fewer, the wait never
    ends and the kernel hangs; with more, a wait ends before the last of them, and what it should protect is used too
    early. The kernel is followed turn by turn in two of its blocks, as far as nothing hangs on data.

    Machines: GPU (Mosaic GPU). Source: JAX's GPU interpret mode reports the second kind and hangs on the first; the
    compiler takes both.
    """

    slug = "barrier-arrivals"
    judges = (BarrierStarved, BarrierOverrun)
    message = "{consequence}: expected {expected} in each phase of `{barrier}`, found {found}"
    example = Example(
        bad=_moments.kernel(arrivals="1"), good=_moments.kernel(), targets=("h100", "h200"), compiler="accepts"
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if isinstance(event, BarrierOverrun):
            yield self._overrun(event)
        elif isinstance(event, BarrierStarved) and event.arrived:
            yield self.refuted(
                barrier=event.barrier,
                consequence=f"a wait for `{event.barrier}` never ends",
                expected=_arrivals(event.arrivals),
                found=event.arrived,
                witness=f"the wait for phase {event.completed} {by(event.when)}: {event.arrived} of {event.arrivals} "
                "arrive, then nothing goes on any more",
                help=f"make `num_arrivals` the number of copies and warpgroups that arrive in a phase: "
                f"{event.arrived} do, or let the others arrive too",
            )

    def _overrun(self, event: BarrierOverrun) -> Finding:
        found = event.total // event.waits if event.total > event.arrivals * event.waits else event.arrivals + 1
        return self.refuted(
            barrier=event.barrier,
            consequence=f"`{event.buffer}` is used too early",
            expected=_arrivals(event.arrivals),
            found=max(found, event.arrivals + 1),
            witness=f"{event.total} arrivals end {event.total // event.arrivals} phases, for {event.waits} waits: "
            f"{_moments.DONE[event.use]} {by(event.when)} comes before the last arrival that it needs",
            help="make `num_arrivals` the number of copies and warpgroups that arrive between two waits",
        )


def _arrivals(count: int) -> str:
    return "1 arrival" if count == 1 else f"{count} arrivals"
