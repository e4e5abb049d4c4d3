"""`captured-constant`."""

from collections.abc import Iterator

from typedpallas.events import Capture, Context, Event
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_BAD = """
def scaled(x: jax.Array, scale: jax.Array) -> jax.Array:
    def kernel(x: In[BLOCK, f32, L[8], L[128]], o: Out[BLOCK, f32, L[8], L[128]]) -> None:
        o[...] = x[...] * scale

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(x)
"""
_GOOD = """
def scaled(x: jax.Array, scale: jax.Array) -> jax.Array:
    def kernel(
        x: In[BLOCK, f32, L[8], L[128]], scale: In[BLOCK, f32, L[1], L[1]], o: Out[BLOCK, f32, L[8], L[128]]
    ) -> None:
        o[...] = x[...] * scale[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(x, scale.reshape(1, 1))
"""


def _module(kernel: str) -> str:
    return module(
        typed="from typedpallas import BLOCK, In, Out, f32\n",
        names=("x", "scale"),
        args=(array("8, 128"), array("")),
        kernel=kernel,
        call="scaled(x, scale)",
        reference="x * scale",
    )


class CapturedConstant(Rule):
    """A kernel or an index map closes over an array.

    What a kernel works on comes in through its refs. An array of the enclosing function (a traced value under
    `jit`, or a `jnp`/`np` constant) has no ref; Python numbers are fine, they become part of the code.

    Machines: all. Source: Pallas refuses it while tracing ("captures constants", "must not capture constants").
    """

    slug = "captured-constant"
    judges = (Capture,)
    message = "{kind} `{function}` closes over {found}: expected {expected}"
    example = Example(bad=_module(_BAD), good=_module(_GOOD), targets=("tpu-v5e", "h100"), levels=("trace",))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Capture)
        inside = event.kind == "kernel"
        yield self.refuted(
            kind=event.kind,
            function=event.function,
            found=", ".join(f"`{kind}`" for kind in event.types),
            expected="arrays to come in through refs" if inside else "grid ids, prefetched scalars and Python ints",
            help="pass it as an operand, or make it a Python number (a static argument under `jit`)"
            if inside
            else "make it a Python int, or pass it by scalar prefetch (`pltpu.PrefetchScalarGridSpec`)",
        )
