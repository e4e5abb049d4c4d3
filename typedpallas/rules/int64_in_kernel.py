"""`int64-in-kernel`."""

from collections.abc import Iterator

from typedpallas import dtypes
from typedpallas.events import Applied, Context, Event, Value
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(x: In[BLOCK, f32, L[16]], o: Out[BLOCK, i32, L[16]]) -> None:
    best = {best}
    o[...] = jnp.full((16,), best, jnp.int32)

def argmax(x: jax.Array) -> jax.Array:
    with jax.enable_x64(True):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((16,), jnp.int32))(x)
"""


def _module(best: str) -> str:
    return module(
        typed="from typedpallas import BLOCK, In, Out, f32, i32\n",
        args=(array("16,"),),
        kernel=_KERNEL.format(best=best),
        call="argmax(x)",
        reference="jnp.full((16,), jnp.argmax(x), jnp.int32)",
    )


_WIDE = frozenset({"int64", "uint64", "float64"})


class Int64InKernel(Rule):
    """A 64-bit value where the machine has only 32-bit ones.

    With `jax_enable_x64`, an integer that nothing says the type of has 64 bits: what `jnp.argmax` returns, the `0`
    of an index map `lambda i: (i, 0)`, a grid bound. The TPU has no 64-bit values at all; Triton has them, but its
    argmax does not.

    Machines: TPU: operands, arrays in the body, grid bounds, and index maps wherever there is a grid (loop counters
    are taken care of); GPU through Triton: `argmax` and `argmin`. Source: libtpu's compiler and JAX's lowerings,
    asked with `jax_enable_x64` on v5e, 7x and h100.
    """

    slug = "int64-in-kernel"
    judges = (Applied, Value)
    message = "{what} is 64 bits wide: expected {expected} on {where}, found `{found}`"
    example = Example(
        bad=_module("jnp.argmax(x[...])"),
        good=_module("jax.lax.argmax(x[...], 0, jnp.int32)"),
        targets=("h100",),
        levels=("trace",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if isinstance(event, Value):
            if event.dtype in _WIDE and context.backend == "mosaic_tpu":
                yield self._wide(event.primitive, event.dtype, "a TPU")
            return
        assert isinstance(event, Applied)
        wide = next((result for result in event.results if result.dtype in _WIDE), None)
        if wide is None:
            return
        if context.backend == "mosaic_tpu" and wide.shape:
            yield self._wide(f"the result of `{event.primitive}`", wide.dtype, "a TPU")
        elif context.backend == "triton" and event.primitive in ("argmax", "argmin"):
            yield self._wide(f"the result of `{event.primitive}`", wide.dtype, "Triton")

    def _wide(self, what: str, dtype: str, where: str) -> Finding:
        narrow = f"{dtype.removesuffix('64')}32"
        return self.refuted(
            what=what,
            where=where,
            expected=f"`{dtypes.short(narrow)}`",
            found=dtypes.short(dtype),
            help=f"say the type: `.astype(jnp.{narrow})`, `jnp.{narrow}(0)` in an index map, "
            "`jax.lax.argmax(x, axis, jnp.int32)`; or leave `jax_enable_x64` off around the kernel",
        )
