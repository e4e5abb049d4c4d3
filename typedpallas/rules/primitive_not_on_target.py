"""`primitive-not-on-target`."""

from collections.abc import Iterator

from typedpallas.chips import GpuTarget
from typedpallas.events import Applied, Context, Event
from typedpallas.rules import _positions, _random, _refused
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(x: In[BLOCK, f32, L[16]], o: Out[BLOCK, f32, L[8]]) -> None:
    o[...] = x[{ref}]{value}
"""


def _module(ref: str, value: str) -> str:
    return module(
        typed="from typedpallas import BLOCK, In, Out, f32\n",
        args=(array("16,"),),
        kernel=_KERNEL.format(ref=ref, value=value),
        call="pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32))(x)",
        reference="x[0:8]",
    )


_BACKENDS = {"mosaic_tpu": "Mosaic TPU", "mosaic_gpu": "Mosaic GPU", "triton": "Triton"}
_INSTEAD = {
    "slice": "slice the ref when it is loaded, `x[0:8]`, not the value, `x[...][0:8]`",
    "dynamic_slice": "slice the ref when it is loaded: `x[pl.ds(start, size)]`",
    "run_scoped": "keep the values in variables or a loop's carry: there is no memory of the kernel's own",
    "dot_general": "use `plgpu.wgmma` or `plgpu.tcgen05_mma`, or `tp.mma`, which chooses",
    "gather": "index the ref with an array of indices when it is loaded",
    "sort": "sort before or after the kernel",
}
_INSTEAD_ON_CHIP = {
    "gather": "compare and select: `jnp.where(rows == k, x[k : k + 1, :], found)` for each row `k`",
    "concatenate": "select by position: `jnp.where(place < n, first, second)`, or store the parts one by one",
}
_HOPPER = frozenset({"wgmma_ref", "wgmma_accumulator_deref", "wgmma_wait"})
"""Warp-group matrix products: of compute capability 9.0 alone."""
_BLACKWELL = frozenset({"tcgen05_mma", "tcgen05_commit_arrive"})
"""Matrix products through TMEM: of compute capability 10 and newer."""


class PrimitiveNotOnTarget(Rule):
    """An operation that the backend cannot lower, or that the chip has no instruction for.

    Each backend of Pallas lowers its own set of JAX's operations. What is missing is reported here by the name that
    JAX gives the operation: `x[0:8]` on a loaded value is `slice`, `jnp.dot` is `dot_general`.

    An operation on refs that JAX has no meaning for, a primitive of somebody's own, is left open by its name.

    Machines: all. Source: the lowering tables of the installed JAX; for `wgmma` and `tcgen05`, the compiler's
    refusals on b200 and h100; else the compilers, asked about each operation in several shapes and on each element
    type (`benchmarks/operations.py`), and about random keys and bits. With another version of JAX than the one
    asked, what the table says is left open.
    """

    slug = "primitive-not-on-target"
    judges = (Applied,)
    message = "`{primitive}` is not there on {where}: expected {expected}, found `{found}`"
    example = Example(
        bad=_module("...", "[0:8]"),
        good=_module("0:8", ""),
        targets=("h100",),
        levels=("trace",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Applied)
        if not event.known:
            yield self._unknown(event, context)
        if event.lowered is False and context.backend is not None:
            backend = _BACKENDS[context.backend]
            yield self._missing(event, backend, f"an operation that {backend} lowers")
        elif context.backend == "mosaic_tpu" and (form := _form(event, context)) is not None:
            yield self._form(event, *form)
        elif isinstance(context.target, GpuTarget):
            major = context.target.capability[0]
            if event.primitive in _HOPPER and major != 9:
                yield self._missing(event, context.target.name, "an operation of every GPU, or `plgpu.tcgen05_mma`")
            if event.primitive in _BLACKWELL and major < 10:
                yield self._missing(event, context.target.name, "an operation of every GPU, or `plgpu.wgmma`")
        if event.lowered is not False and event.on_data and any(operand.shape for operand in event.operands):
            yield from self._asked(event, context)

    def _asked(self, event: Applied, context: Context) -> Iterator[Finding]:
        """What the compiler was asked about, and refused on every element type."""
        refusal = _refused.refusal(event, context)
        if refusal is None or refusal.instead:
            return
        assert context.target is not None
        notes = [f"the compiler's words: {refusal.words}"]
        if not refusal.certain:
            notes.append(f"jax {refusal.asked} refuses it; the installed one was not asked")
        make = self.refuted if refusal.certain else self.open
        yield make(
            primitive=event.primitive,
            where=context.target.name,
            expected="an operation that the chip has",
            found=_refused.key(event),
            notes=tuple(notes),
            help=_INSTEAD_ON_CHIP.get(
                event.primitive, "compute it before or after the kernel, or from other operations"
            ),
        )

    def _form(self, event: Applied, expected: str, found: str, instead: str) -> Finding:
        where = _BACKENDS["mosaic_tpu"]
        return self.refuted(primitive=event.primitive, where=where, expected=expected, found=found, help=instead)

    def _unknown(self, event: Applied, context: Context) -> Finding:
        where = _BACKENDS[context.backend] if context.backend is not None else "any backend"
        return self.open(
            primitive=event.primitive,
            where=where,
            expected="an operation of JAX's on refs",
            found=event.primitive,
            notes=("what it does to the kernel's memory is not known: nothing is said about that",),
            help="compile the kernel for the target to know: `tp.compile`",
        )

    def _missing(self, event: Applied, where: str, expected: str) -> Finding:
        return self.refuted(
            primitive=event.primitive,
            where=where,
            expected=expected,
            found=event.primitive,
            help=_INSTEAD.get(event.primitive, "compute it before or after the kernel, or from other operations"),
        )


def _form(event: Applied, context: Context) -> tuple[str, str, str] | None:
    """What the lowering names and still refuses: expected, found, and what to write instead."""
    return _random.refused(event) or _positions.refused(event, context)
