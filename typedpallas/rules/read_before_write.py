"""`read-before-write`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, GarbageResult, NeverStored
from typedpallas.rules._steps import at_step, shown
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ARGS = (jax.ShapeDtypeStruct((256, 512), jnp.float32), jax.ShapeDtypeStruct((512, 256), jnp.float32))

def kernel(x_ref, y_ref, o_ref, acc_ref):
    {before}
    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == 3)
    def _():
        o_ref[...] = acc_ref[...]
        {after}

def run(x, y):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((256, 256), jnp.float32),
        grid=(2, 2, 4),
        in_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
    )(x, y)

def reference(x, y):
    return x @ y
"""
_FIRST = """@pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)
"""


class ReadBeforeWrite(Rule):
    """A buffer is read where nothing was stored yet, and what memory held goes into the result.

    On a TPU a scratch buffer keeps its content from grid step to grid step and holds garbage before the first store;
    an output's block stays while its index does not change, and a new block is not loaded: it holds garbage too. On a
    GPU every program starts anew. So what accumulates is set first, at the first step of the grid axes that it
    accumulates over: at another step, or not at all, the sum starts from garbage. On a chip with two cores in one
    device (v5p) the steps of a `parallel` axis are shared between them, each with its own scratch: what one sets at
    the axis's first step the other never sees. Loads that a select or a mask drops, and buffers that
    an alias fills, are no defect.

    Machines: TPU, GPU (Triton). Source: JAX's TPU interpret mode, which fills such memory with NaN; Pallas's
    documentation of `dimension_semantics`.
    """

    slug = "read-before-write"
    judges = (GarbageResult, NeverStored)
    message = "`{name}` is read before anything is stored to it: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(before="", after="acc_ref[...] = jnp.zeros_like(acc_ref)  # for the next block"),
        good=_KERNEL.format(before=_FIRST, after=""),
        targets=("tpu-v5e",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if isinstance(event, NeverStored):
            yield from self._never_stored(event)
            return
        assert isinstance(event, GarbageResult)
        if event.buffer is None or event.whole_result is False:
            return
        certain = event.everything or event.whole_result is True
        make = self.refuted if certain else self.open
        where = "" if event.element is None else f"element {shown(event.element)} of "
        step = at_step(event.step, "the only step").strip()
        core = "" if event.split_axis is None else ", the first of another core,"
        yield make(
            name=event.buffer,
            expected=_expected(event),
            found=f"a load of what memory held{at_step(event.step)}",
            witness=f"{step}{core} {where}`{event.buffer}` holds garbage, which ends in "
            f"element {shown(event.result_element)} of block {shown(event.block)} of `{event.output}`",
            notes=(_note(event, context),),
            help=_help(event, context),
        )

    def _never_stored(self, event: NeverStored) -> Iterator[Finding]:
        if event.read:
            yield self.refuted(
                name=event.name,
                expected="a store first",
                found="only updates, which read it first" if event.updated else "loads alone",
                notes=(f"nothing in `{event.kernel}` stores to `{event.name}`: it has what memory held",),
                help=f"set `{event.name}` before this line, at the first step of what it accumulates over",
            )


def _expected(event: GarbageResult) -> str:
    if event.split_axis is not None:
        return f"a store on each core that runs steps of the parallel grid axis {event.split_axis}"
    return "a store at or before that step"


def _note(event: GarbageResult, context: Context) -> str:
    if event.split_axis is not None:
        return f"the chip's cores share the steps of grid axis {event.split_axis}, each with scratch of its own"
    if context.machine == "gpu":
        return "each program starts with a block that holds what memory held"
    if event.role == "output":
        return "a TPU does not load an output's block: it holds garbage whenever a new block starts"
    return "scratch keeps its content from step to step, and holds garbage before the first store"


def _help(event: GarbageResult, context: Context) -> str:
    if event.split_axis is not None:
        return f'declare grid axis {event.split_axis} `"arbitrary"`: its steps then run in order on one core'
    if context.machine == "gpu":
        return f"store to `{event.buffer}` first, or give it an input's content with `input_output_aliases`"
    if not event.stays_along:
        return f"store to `{event.buffer}` before this line"
    tests = [f"pl.program_id({axis}) == 0" for axis in event.stays_along]
    first = tests[0] if len(tests) == 1 else " & ".join(f"({test})" for test in tests)
    return f"store to `{event.buffer}` before this line, under `@pl.when({first})`"
