"""`register-pressure`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, RegisterUse
from typedpallas.rules import _products
from typedpallas.rules.base import Example, Finding, Rule

_OTHER = 24
"""Registers that a product and the loop around it need beside the accumulator, in the least kernel."""


class RegisterPressure(Rule):
    """An accumulator that leaves a thread too few registers: it spills, and products wait for each other.

    An accumulator of M by N float32 takes M * N / 128 registers of each thread of its warpgroup. A thread can name
    255; a block of three warpgroups has 168 for each thread, one of four 128, unless `plgpu.set_max_registers` moves
    some. The numbers stay right, and nothing warns. What is lost is most of the speed: on an H200 a product of 128 by
    256 tiles on one warpgroup fell from 600 to 90 TFLOP/s, for the assembler also puts every product behind the one
    before ("wgmma.mma_async instructions are serialized"). So this is said as `open`, never as an error;
    `typedpallas compile` says what the assembler has spilled.

    Machines: GPU (Mosaic GPU), Hopper. Source: the assembler's own figures for h200, asked over accumulators of 64
    and 128 rows and up to 256 columns, with one, two and three warpgroups that multiply and with
    `plgpu.set_max_registers`: it spilled wherever at most 24 registers were left, and nowhere else.
    """

    slug = "register-pressure"
    judges = (RegisterUse,)
    message = (
        "an accumulator of `{kernel}` may not fit the registers beside everything else: expected at most {expected}, "
        "found {found}"
    )
    example = Example(
        bad=_products.module(m=128, n=256),
        good=_products.module(m=128, n=128),
        targets=("h100",),
        compiler="accepts",
        verdict="open",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, RegisterUse)
        if event.limit - event.registers > _OTHER:
            return
        rows, columns = event.accumulator
        yield self.open(
            kernel=event.kernel,
            expected=f"{event.limit - _OTHER - 1} registers of a thread",
            found=f"{event.registers}",
            witness=f"{rows} x {columns} by 128 threads is {event.registers} of {event.limit}, {event.limit_from}",
            notes=("registers that do not fit go to memory, and products then wait for each other",),
            help="give each warpgroup a smaller tile, or the tile to more warpgroups",
        )
