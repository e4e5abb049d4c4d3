"""`store-not-committed`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, StoreUncommitted
from typedpallas.rules import _moments
from typedpallas.rules._moments import DONE, by
from typedpallas.rules.base import Example, Finding, Rule


class StoreNotCommitted(Rule):
    """A copy or a product reads shared memory that was stored to and not committed.

    Copies and products read shared memory by another path than loads and stores. What a warpgroup stores is certainly
    there for them only after ``plgpu.commit_smem()``.

    Machines: GPU (Mosaic GPU). Source: PTX's ``fence.proxy.async``; JAX's GPU interpret mode reports the race. The
    compiler takes it.
    """

    slug = "store-not-committed"
    judges = (StoreUncommitted,)
    message = "{reader} reads a store to `{buffer}` that may not be there yet: expected {expected}, found {found}"
    example = Example(
        bad=_moments.kernel(commit=""), good=_moments.kernel(), targets=("h100", "h200"), compiler="accepts"
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, StoreUncommitted)
        yield self.refuted(
            reader="a copy" if event.reader == "copy from" else "a product",
            buffer=event.buffer,
            expected="`plgpu.commit_smem()` between them",
            found="none",
            witness=f"`{event.buffer}` was stored to {by(event.stored)}; {DONE[event.reader]} was begun "
            f"{by(event.when, event.stored)}, with no commit between them",
            help="call `plgpu.commit_smem()` after the store, in the warpgroup that stores",
        )
