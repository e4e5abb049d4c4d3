"""`dtype-mismatch`."""

from collections.abc import Iterator

from typedpallas import dtypes
from typedpallas.events import Access, Argument, Context, Copied, Event, Operation
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(x: In[BLOCK, f32, L[16], L[128]], o: Out[BLOCK, bf16, L[16], L[128]]) -> None:
    o[...] = {value}
"""


def _module(value: str) -> str:
    return module(
        typed="from typedpallas import BLOCK, In, Out, bf16, f32\n",
        args=(array("16, 128"),),
        kernel=_KERNEL.format(value=value),
        call="pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((16, 128), jnp.bfloat16))(x)",
        reference="(x * 2.0).astype(jnp.bfloat16)",
    )


class DtypeMismatch(Rule):
    """Element types that do not fit: a value and the ref that it is stored to, the operands of an operation, the two
    ends of a copy, or what a launch gives a kernel and the parameter's annotation.

    A store to a ref converts nothing, neither wider nor narrower, and a loop's carry keeps its element type. A copy
    moves bytes and converts nothing either; whether an integer has a sign makes no difference to it.

    Machines: all; copies on TPUs. Source: JAX's abstract evaluation of ref stores ("Invalid dtype for `swap`") and of
    the operation refuses it while tracing; of copies libtpu 0.0.48 says "DMA source and target element type mismatch"
    on every chip from v2 to 7x.
    """

    slug = "dtype-mismatch"
    judges = (Access, Operation, Argument, Copied)
    message = "{what}: expected {expected}, found {found}"
    example = Example(
        bad=_module("x[...] * 2.0"),
        good=_module("(x[...] * 2.0).astype(o.dtype)"),
        targets=("tpu-v5e", "h100"),
        levels=("types", "trace"),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if isinstance(event, Operation):
            if event.kind == "dtype":
                yield self._operation(event)
            return
        if isinstance(event, Argument):
            yield from self._argument(event)
            return
        if isinstance(event, Copied):
            yield from self._copied(event, context)
            return
        assert isinstance(event, Access)
        want, have = event.ref.dtype, event.value_dtype
        if event.op != "store" or want is None or have is None or want == have:
            return
        yield self.refuted(
            what=f"cannot store to `{event.ref.name}`",
            expected=f"`{dtypes.short(want)}`",
            found=f"`{dtypes.short(have)}`",
            blame="value",
            help=f"convert at the store: `.astype({event.ref.name}.dtype)`",
        )

    def _operation(self, event: Operation) -> Finding:
        return self.refuted(
            what=f"`{event.function}` cannot take these element types",
            expected="element types that fit",
            found=", ".join(f"`{operand}`" for operand in event.operands) or "others",
            notes=(f"{event.by} says: {event.refusal}",),
            help="convert one side with `.astype(...)`; a loop's carry must come back with the type it went in with",
        )

    def _argument(self, event: Argument) -> Iterator[Finding]:
        want, have = event.ref.dtype, event.dtype
        if want is None or have is None or want == have:
            return
        yield self.refuted(
            what=f"`{event.kernel}` gives back another element type than its annotation"
            if event.what == "result"
            else f"`{event.ref.name}` of `{event.kernel}` has another element type than its annotation",
            expected=f"`{dtypes.short(want)}`",
            found=f"`{dtypes.short(have)}`",
            notes=tuple(f"`{name}` is {origin}" for name, origin in event.origins.items()),
            help="convert it, or annotate "
            f"{'the result' if event.what == 'result' else f'`{event.ref.name}`'} with `{dtypes.short(have)}`",
        )

    def _copied(self, event: Copied, context: Context) -> Iterator[Finding]:
        want, have = event.target.dtype, event.source.dtype
        machine = context.machine or (event.target.space.machine if event.target.space is not None else None)
        if machine != "tpu" or want is None or have is None or _without_sign(want) == _without_sign(have):
            return
        if "bool" in (want, have):
            return
        yield self.refuted(
            what=f"cannot copy `{event.source.name}` to `{event.target.name}`",
            expected=f"`{dtypes.short(want)}`",
            found=f"`{dtypes.short(have)}`",
            blame="value",
            help=f"make the buffer `{dtypes.short(have)}` and convert what is loaded from it: `.astype(...)`",
        )


def _without_sign(dtype: str) -> str:
    return dtype.removeprefix("u") if dtype.startswith("uint") else dtype
