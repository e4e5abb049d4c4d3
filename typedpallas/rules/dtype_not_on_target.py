"""`dtype-not-on-target`."""

from collections.abc import Iterator

from typedpallas import dtypes, gpu, tpu
from typedpallas.events import Access, Applied, Context, Event
from typedpallas.rules import _refused
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(x: In[BLOCK, i8, L[32], L[128]], o: Out[BLOCK, i8, L[32], L[128]]) -> None:
    o[...] = {value}
"""


def _module(value: str) -> str:
    return module(
        typed="from typedpallas import BLOCK, In, Out, i8\n",
        args=(array("32, 128", "int8"),),
        kernel=_KERNEL.format(value=value),
        call="pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((32, 128), jnp.int8))(x)",
        reference="x + x",
    )


class DtypeNotOnTarget(Rule):
    """The chip has the operation, but not for this element type.

    Arithmetic is done in few types: a TPU's vector unit adds 32-bit and, by chip, 16-bit numbers; int8 and the 8-bit
    floats are for memory and for the matrix unit. Convert to 32 bits, compute, and convert the result back.

    Machines: TPU, GPU (Triton). Source: the compilers, asked about each operation on each element type, loaded as it
    is or converted in the kernel, in several shapes (`benchmarks/operations.py`); refused is what they refuse in all
    of them. With another version of JAX than the one asked, the verdict is left open.
    """

    slug = "dtype-not-on-target"
    judges = (Applied, Access)
    message = "there is no {operation} of {found}: expected {expected}"
    example = Example(
        bad=_module("x[...] + x[...]"),
        good=_module("(x[...].astype(jnp.int32) + x[...]).astype(jnp.int8)"),
        targets=("tpu-v4", "tpu-v5e"),
        levels=("trace",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Applied | Access)
        if not _judged(event):
            return
        refusal = _refused.refusal(event, context)
        if refusal is None or not (refusal.instead or isinstance(event, Access)):
            return
        make = self.refuted if refusal.certain else self.open
        yield make(
            operation="load" if isinstance(event, Access) else f"`{event.primitive}`",
            found=_types(event),
            expected=_wanted(event, refusal),
            notes=(f"the compiler's words: {refusal.words}", *(() if refusal.certain else (_asked(refusal),))),
            help=_help(event, refusal),
        )


def _asked(refusal: _refused.Refusal) -> str:
    return f"jax {refusal.asked} refuses it; the installed one was not asked"


def _judged(event: Applied | Access) -> bool:
    """Whether it is a vector operation on data, or a load of one from vector memory."""
    if isinstance(event, Access):
        return event.op == "load" and event.ref.space in (tpu.VMEM, gpu.GMEM) and bool(event.moved)
    return bool(event.on_data) and event.lowered is not False and any(operand.shape for operand in event.operands)


def _types(event: Applied | Access) -> str:
    if isinstance(event, Access):
        return f"`{dtypes.short(event.ref.dtype or '')}`"
    kinds = list(dict.fromkeys(f"`{dtypes.short(operand.dtype)}`" for operand in event.operands))
    if event.primitive == "convert_element_type":
        kinds.append(f"`{dtypes.short(event.results[0].dtype)}`")
        return " to ".join(kinds)
    return " and ".join(kinds)


def _wide(kind: str) -> str:
    return "float32" if "float" in kind else "int32"


def _wanted(event: Applied | Access, refusal: _refused.Refusal) -> str:
    if isinstance(event, Access):
        return "`bf16` or `f32`" if "float" in (event.ref.dtype or "") else "a wider type"
    if event.primitive == "convert_element_type":
        return "a conversion by way of 32 bits"
    return f"`{dtypes.short(refusal.instead or '')}`"


def _help(event: Applied | Access, refusal: _refused.Refusal) -> str:
    if isinstance(event, Access):
        return "convert the array before the kernel: `x.astype(jnp.bfloat16)`"
    if event.primitive == "convert_element_type":
        source, result = event.operands[0].dtype, event.results[0].dtype
        steps = [kind for kind in dict.fromkeys((_wide(source), _wide(result))) if kind not in (source, result)]
        through = "".join(f".astype(jnp.{kind})" for kind in steps)
        return (
            f"convert in steps: `value{through}.astype(jnp.{result})`" if steps else "convert outside of the kernel"
        )
    return f"compute in 32 bits: `value.astype(jnp.{refusal.instead})`, and convert the result back"
