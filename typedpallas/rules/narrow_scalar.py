"""`narrow-scalar`."""

from collections.abc import Iterator

from typedpallas import dtypes, spaces, tpu
from typedpallas.events import Applied, Context, Event, Scalar
from typedpallas.rules._blocks import bits
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_WORD = 32
_TO_ONE_ELEMENT = ("squeeze", "reduce_max", "reduce_min", "reduce_sum")
"""Operations whose lowering takes an element out of a vector where their result has no dims."""
_KERNEL = """
def kernel(x_ref, o_ref):
    o_ref[...] = jnp.zeros((8, 128), jnp.float32) + {element}
"""


def _example(element: str) -> str:
    return module(
        kernel=_KERNEL.format(element=element),
        call="pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(x)",
        reference="jnp.zeros((8, 128), jnp.float32) + x[1, 2].astype(jnp.float32)",
        args=(array("8, 128", "bfloat16"),),
    )


class NarrowScalar(Rule):
    """One element of fewer than 32 bits is taken out of vector memory, or a constant one put into scalar memory.

    A TPU's vector unit hands only words of 32 bits to the scalar unit, so `x_ref[1, 2]` of a narrower ref in `VMEM`
    is refused wherever its value is used: load a slice, make it wide, and take the element out of that. So are a
    squeeze of a narrow vector to one element and a reduction of narrow floats to one. Loads of truth values are words
    already. Scalar memory holds narrow elements, but a constant of a narrow float type cannot be stored there: keep
    the buffer wide.

    Machines: TPU, every chip from v4 to 7x. Source: libtpu 0.0.48 ("Only 32-bit scalar vector.extracts", "failed to
    legalize unresolved materialization") and JAX's Mosaic TPU lowering ("can be converted to scalars"), asked for
    each element type.
    """

    slug = "narrow-scalar"
    judges = (Scalar, Applied)
    message = "cannot {action} in `{space}`: expected {expected}, found `{found}`"
    example = Example(
        bad=_example("x_ref[1, 2].astype(jnp.float32)"),
        good=_example("x_ref[1:2, 2:3].astype(jnp.float32)"),
        targets=("tpu-v5e", "tpu-7x"),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if context.machine != "tpu":
            return
        if isinstance(event, Applied):
            yield from self._applied(event)
        elif isinstance(event, Scalar):
            yield from self._moved(event)

    def _applied(self, event: Applied) -> Iterator[Finding]:
        if event.primitive not in _TO_ONE_ELEMENT or len(event.results) != 1 or event.results[0].shape:
            return
        dtype = event.results[0].dtype
        width = 1 if dtype == "bool" else bits(dtype)
        if width is None or width >= _WORD or not event.operands or not event.operands[0].shape:
            return
        if event.primitive == "squeeze" or _is_float(dtype):
            yield self.refuted(
                action=f"make one element of a vector by `{event.primitive}`",
                space=spaces.name(tpu.VMEM),
                expected="elements of 32 bits",
                found=dtypes.short(dtype),
                notes=("the vector unit hands only words of 32 bits to the scalar unit",),
                help="convert the vector to 32 bits first, `.astype(jnp.float32)` or `.astype(jnp.int32)`",
            )

    def _moved(self, event: Scalar) -> Iterator[Finding]:
        width = bits(event.dtype)
        if width is None or width >= _WORD or event.dtype is None:
            return
        element = dtypes.short(event.dtype)
        if event.op == "load" and event.space is tpu.VMEM:
            yield self.refuted(
                blame="index",
                action=f"load one element of `{event.name}`",
                space=spaces.name(event.space),
                expected="an element of 32 bits",
                found=element,
                notes=("the vector unit hands only words of 32 bits to the scalar unit",),
                help="load a slice of length 1, `[i:i+1, j:j+1]`, and convert it to 32 bits",
            )
        elif event.op == "store" and event.space is tpu.SMEM and event.constant and _is_float(event.dtype):
            yield self.refuted(
                blame="value",
                action=f"store a constant to `{event.name}`",
                space=spaces.name(event.space),
                expected="a constant of 32 bits",
                found=element,
                notes=("the compiler has no constants of narrow float types in scalar memory",),
                help=f"keep `{event.name}` in 32 bits and convert what is loaded from it",
            )


def _is_float(dtype: str) -> bool:
    marker = dtypes.from_jax_name(dtype)
    return marker is not None and issubclass(marker, dtypes.Float)
