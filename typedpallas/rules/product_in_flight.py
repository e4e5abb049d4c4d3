"""`product-in-flight`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, SharedInUse
from typedpallas.rules import _moments
from typedpallas.rules._moments import DONE, by
from typedpallas.rules.base import Example, Finding, Rule


class ProductInFlight(Rule):
    """The operands of a product are overwritten, or its sums are read, while it may still run.

    Hopper's ``wgmma`` and Blackwell's ``tcgen05_mma`` only begin a product. Its operands in shared memory may be
    overwritten, and a slot of a ring may be given back, when the product has ended: after ``wgmma_wait(n)`` all but
    the last ``n`` products of the warpgroup have; reading the accumulator waits for all. On Blackwell the barrier of
    the product, or of a commit, must be waited for. A warpgroup that gives back a slot while a product of it is in
    flight lets the copy of the next block run into it.

    Where one warpgroup both multiplies and copies and has begun a further product since, nothing is said: JAX's own
    ragged product rests on the order in which products end.

    Machines: GPU (Mosaic GPU). Source: PTX's rules for ``wgmma.wait_group`` and ``tcgen05.commit``. Neither the
    compiler nor interpret mode notices. On an H200 the first kind got 8.4 of 17 million sums wrong in each of 3 runs;
    with two slots and a further product begun since, none.
    """

    slug = "product-in-flight"
    judges = (SharedInUse,)
    message = "`{buffer}` is used while a product with it may still run: expected {expected}, found {found}"
    example = Example(
        bad=_moments.kernel(product=""), good=_moments.kernel(), targets=("h100", "h200"), compiler="accepts"
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, SharedInUse)
        if event.other != "product":
            return
        yield self.refuted(
            buffer=event.buffer,
            expected="a wait for the product first",
            found=DONE[event.use],
            witness=f"the product was begun {by(event.began)}; {DONE[event.use]} "
            f"{by(event.when, event.began)} is not ordered after its end",
            help="call `plgpu.wgmma_wait(n)` with the number of products that may still run before this buffer is "
            "given back or filled anew; on Blackwell wait for the barrier that the product arrives at",
        )
