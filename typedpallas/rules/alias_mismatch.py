"""`alias-mismatch`."""

from collections.abc import Iterator

from typedpallas.events import Alias, Context, Event
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(x: In[BLOCK, f32, L[16], L[128]], o: Out[BLOCK, {dtype}, L[16], L[128]]) -> None:
    o[...] = (x[...] + 1.0).astype(o.dtype)
"""


def _module(dtype: str, jax_dtype: str) -> str:
    return module(
        typed=f"from typedpallas import BLOCK, In, Out, {', '.join(sorted({'f32', dtype}))}\n",
        args=(array("16, 128"),),
        kernel=_KERNEL.format(dtype=dtype),
        call=f"""pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((16, 128), jnp.{jax_dtype}),
        input_output_aliases={{0: 0}},
    )(x)""",
        reference=f"(x + 1.0).astype(jnp.{jax_dtype})",
    )


class AliasMismatch(Rule):
    """An input and an output that share a buffer have different types.

    `input_output_aliases` gives an output the input's buffer, so both have one shape and one element type.

    Machines: all. Source: Pallas refuses it while tracing.
    """

    slug = "alias-mismatch"
    judges = (Alias,)
    message = "input {input} and output {output} cannot share a buffer: expected `{expected}`, found `{found}`"
    example = Example(
        bad=_module("bf16", "bfloat16"),
        good=_module("f32", "float32"),
        targets=("tpu-v5e", "h100"),
        levels=("trace",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Alias)
        if event.input_type == event.output_type:
            return
        yield self.refuted(
            input=event.input,
            output=event.output,
            expected=event.input_type,
            found=event.output_type,
            help=f"give the output the input's type, `{event.input_type}`, or leave the alias out",
        )
