"""`kernel-returns-value`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, KernelReturns
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(x_ref, o_ref):
    {body}
"""


def _module(body: str) -> str:
    return module(
        args=(array("8, 128"),),
        kernel=_KERNEL.format(body=body),
        call="pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(x)",
        reference="x * 2.0",
    )


class KernelReturnsValue(Rule):
    """A kernel returns its result instead of storing it.

    What a kernel computes leaves it through its output refs; Pallas has no use for a returned value.

    Machines: all. Source: Pallas refuses it while tracing ("should return None").
    """

    slug = "kernel-returns-value"
    judges = (KernelReturns,)
    message = "`{kernel}` returns {found}: expected {expected}"
    example = Example(
        bad=_module("return x_ref[...] * 2.0"),
        good=_module("o_ref[...] = x_ref[...] * 2.0"),
        targets=("tpu-v5e", "h100"),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, KernelReturns)
        count = event.count
        yield self.refuted(
            kernel=event.kernel,
            found="values" if count is None else "a value" if count == 1 else f"{count} values",
            expected="results to be stored in the output refs",
            help="store it: `o_ref[...] = value`, and return nothing",
        )
