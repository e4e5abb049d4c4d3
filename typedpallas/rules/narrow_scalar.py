"""`narrow-scalar`."""

from collections.abc import Iterator

from typedpallas import dtypes, spaces, tpu
from typedpallas.events import Context, Event
from typedpallas.events_slices import Scalar
from typedpallas.rules._blocks import bits
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_WORD = 32
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
    is refused wherever its value is used: load a slice, make it wide, and take the element out of that. Truth values
    are words already. Scalar memory holds narrow elements, but a constant of a narrow float type cannot be stored
    there: store a wide constant that is rounded when it is computed, or keep the buffer wide.

    Machines: TPU, every chip from v4 to 7x. Source: libtpu 0.0.48 ("Only 32-bit scalar vector.extracts", "failed to
    legalize unresolved materialization"), asked for each element type.
    """

    slug = "narrow-scalar"
    judges = (Scalar,)
    message = "cannot {action} in `{space}`: expected {expected}, found `{found}`"
    example = Example(
        bad=_example("x_ref[1, 2].astype(jnp.float32)"),
        good=_example("x_ref[1:2, 2:3].astype(jnp.float32)"),
        targets=("tpu-v5e", "tpu-7x"),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Scalar)
        width = bits(event.dtype)
        if context.machine != "tpu" or width is None or width >= _WORD or event.dtype is None:
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
