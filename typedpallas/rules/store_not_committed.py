"""`store-not-committed`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, StoreUncommitted
from typedpallas.rules import _moments
from typedpallas.rules._moments import DONE, by
from typedpallas.rules.base import Example, Finding, Rule


class StoreNotCommitted(Rule):
    """A copy or a product reads shared memory that was stored to and not committed.

    Copies and products read shared memory by another path than loads and stores. What a warpgroup stores is certainly
    there for them only after ``plgpu.commit_smem()``. Where another warpgroup stored it and handed it on through a
    barrier, or where a copy only overwrites what was stored (18 runs of 40,000 blocks on an H200), no wrong result
    was ever seen: that stays open.

    Machines: GPU (Mosaic GPU). Source: PTX's ``fence.proxy.async``; JAX's GPU interpret mode reports the race. The
    compiler takes it. On an H200 a kernel that stores 8 rows and copies them out uncommitted got 43,000 to 66,000 of
    41 million elements wrong in each of 5 runs, and none committed; with a barrier of its own between, 32 in 4 runs.
    """

    slug = "store-not-committed"
    judges = (StoreUncommitted,)
    message = "a store to `{buffer}` may not be there yet for {action}: expected {expected}, found {found}"
    example = Example(
        bad=_moments.kernel(commit=""), good=_moments.kernel(), targets=("h100", "h200"), compiler="accepts"
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, StoreUncommitted)
        say = self.open if event.handed_on or event.use == "copy to" else self.refuted
        yield say(
            action=DONE[event.use],
            buffer=event.buffer,
            expected="`plgpu.commit_smem()` between them",
            found="none",
            witness=f"`{event.buffer}` was stored to {by(event.stored)}; {DONE[event.use]} was begun "
            f"{by(event.when, event.stored)}, with no commit between them",
            help="call `plgpu.commit_smem()` after the store, in the warpgroup that stores",
        )
