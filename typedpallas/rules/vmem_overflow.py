"""`vmem-overflow`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, MemoryUse
from typedpallas.rules import _bytes
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((65536, 1024), jnp.float32),)
BLOCK = pl.BlockSpec(({rows}, 1024), lambda i: (i, 0))

def kernel(x_ref, o_ref):
    o_ref[...] = jnp.maximum(x_ref[...] * 2.0 + 1.0, 0.0)

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((65536, 1024), jnp.float32),
        grid=(65536 // {rows},),
        in_specs=[BLOCK],
        out_specs=BLOCK,
    )(x)

def reference(x):
    return jnp.maximum(x * 2.0 + 1.0, 0.0)
"""


class VmemOverflow(Rule):
    """The blocks and the scratch of a kernel need more VMEM than a kernel gets.

    A block that moves with the grid costs two buffers, so that one is copied while the other is worked on; one that
    stays costs one. Buffers are padded to tiles of 8 rows and 128 lanes. A kernel gets 16 or 32 MiB unless it asks
    for more with `vmem_limit_bytes`; asking for more than the chip has is allowed and gives what the chip has.

    What the compiler keeps for itself (temporaries) is only bounded, usually by the result of a matrix product, on
    v2 and v3 also by two values of 16 bits, which these chips widen to 32 before they compute with them. Where the
    rest fits, and does not with that much more, the verdict is left open. Where XLA may keep a whole array in VMEM
    around the kernel, its window may cost nothing: then the verdict is left open too. So it is for scratch that
    a store fills before anything is loaded from it, which the compiler may do without.

    Machines: TPU. Source: libtpu, whose message says what a kernel asked for, over generated kernels on v4 to 7x;
    the limits by bisection.
    """

    slug = "vmem-overflow"
    judges = (MemoryUse,)
    message = "the kernel needs {found} of VMEM: expected at most {expected}"
    example = Example(bad=_KERNEL.format(rows=4096), good=_KERNEL.format(rows=512), targets=("tpu-v5e", "tpu-v4"))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, MemoryUse)
        if event.space != "vmem" or event.usual <= event.limit:
            return
        certain = event.low > event.limit
        make = self.refuted if certain else self.open
        yield make(
            found=_bytes.written(event.low) if certain else f"up to {_bytes.written(event.high)}",
            expected=f"{_bytes.written(event.limit)}, {event.limit_from}",
            witness=_bytes.largest(event),
            notes=() if certain else _doubts(event),
            help=_help(event),
        )


def _doubts(event: MemoryUse) -> tuple[str, ...]:
    """Why it is not certain that the kernel does not fit."""
    own = sum(item.high for item in event.items if not item.temporary)
    temporary = event.high - own
    if own <= event.limit:
        return (
            f"windows and scratch take {_bytes.written(own)} of {_bytes.written(event.limit)}; the compiler's "
            f"temporaries of up to {_bytes.written(temporary)} come on top",
        )
    return ("XLA may keep a whole array in VMEM around the kernel: then its window is free",)


def _help(event: MemoryUse) -> str:
    edits = []
    if event.fitting is not None:
        size, smaller = event.fitting
        edits.append(f"use blocks of {smaller} where they are {size}")
    if event.most is not None and event.low <= event.most and event.most > event.limit:
        needed = -(-event.high // (1 << 20)) << 20
        edits.append(f"ask for `vmem_limit_bytes={min(needed, event.most)}` in `pltpu.CompilerParams`")
    return " or ".join(edits) or "use smaller blocks or less scratch"
