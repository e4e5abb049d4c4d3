"""`matmul-not-on-target`."""

from collections.abc import Iterator

from typedpallas import dtypes
from typedpallas.chips import TpuTarget
from typedpallas.events import Applied, Context, Event
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(
    x: In[VMEM, bf16, L[128], L[128]], y: In[VMEM, bf16, L[128], L[128]], o: Out[VMEM, f32, L[128], L[128]]
) -> None:
    o[...] = jnp.dot(x[...], y[...]{wanted}){cast}
"""


def _module(wanted: str, cast: str) -> str:
    return module(
        typed="from typedpallas import In, Out, bf16, f32\nfrom typedpallas.tpu import VMEM\n",
        names=("x", "y"),
        args=(array("128, 128", "bfloat16"), array("128, 128", "bfloat16")),
        kernel=_KERNEL.format(wanted=wanted, cast=cast),
        call="pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((128, 128), jnp.float32))(x, y)",
        reference="jnp.dot(x, y, preferred_element_type=jnp.float32)",
    )


_NEVER = frozenset({"float16", "int16", "int32", "uint4", "uint8", "uint16", "uint32"})
"""Operand types that no TPU target takes."""
_SINCE = {"int4": 5, "int8": 5, "float8_e4m3fn": 5, "float8_e5m2": 5, "float8_e4m3b11fnuz": 5}
"""The first generation that takes operands of a type; float32 and bfloat16 work on every target."""
_DROPPED = {"float8_e4m3b11fnuz": 7}
"""The generation that no longer takes them."""


class MatmulNotOnTarget(Rule):
    """A matrix product of element types, or with a result or a precision, that the chip's matrix unit does not take.

    The unit accumulates in 32 bits: `jnp.dot` of two `bf16` blocks asks for a `bf16` result unless it is told
    `preferred_element_type=jnp.float32`. A precision above the default needs `f32` operands.

    Machines: TPU; on Triton, operands of two types, unsigned ones, and operands that are no matrices.

    Source: libtpu's compiler and JAX's lowerings, asked for every element type, for both result types and every
    precision on v4, v5e, v5p, v6e and 7x, for pairs of types on h100, and for combinations of ranks on a100 and h100.
    """

    slug = "matmul-not-on-target"
    judges = (Applied,)
    message = "this matrix product is not there on {where}: expected {expected}, found {found}"
    example = Example(
        bad=_module("", ".astype(o.dtype)"),
        good=_module(", preferred_element_type=jnp.float32", ""),
        targets=("tpu-v4", "tpu-v5e"),
        levels=("trace",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Applied)
        if event.primitive != "dot_general" or len(event.operands) != 2 or not event.results:
            return
        refusal = None
        if context.backend == "triton":
            refusal = _on_triton(event)
        elif isinstance(context.target, TpuTarget) and context.backend == "mosaic_tpu":
            refusal = _on_tpu(event, context.target)
        if refusal is None:
            return
        where, expected, found, advice = refusal
        yield self.refuted(where=where, expected=expected, found=found, help=advice)


type _Refusal = tuple[str, str, str, str]
"""Where, expected, found, and what to do."""


def _on_triton(event: Applied) -> _Refusal | None:
    left, right = (operand.dtype for operand in event.operands)
    found = f"`{dtypes.short(left)}` and `{dtypes.short(right)}`"
    if left.startswith("uint") or right.startswith("uint"):
        return "Triton", "signed or floating operands", found, "convert the operands to `jnp.int8` or a float"
    ranks = [len(operand.shape) for operand in event.operands]
    if ranks != [2, 2]:
        found = f"operands of rank {ranks[0]} and {ranks[1]}"
        return "Triton", "two matrices", found, "multiply and sum: `jnp.sum(v[:, None] * m, axis=0)`"
    if left != right:
        return "Triton", "operands of one element type", found, "convert one operand: `.astype(jnp.bfloat16)`"
    return None


def _on_tpu(event: Applied, chip: TpuTarget) -> _Refusal | None:
    left, right = event.operands
    if len(left.shape) != 2 or len(right.shape) != 2 or left.dtype != right.dtype:
        return None
    kind, result = left.dtype, event.results[0].dtype
    taken = kind in ("float32", "bfloat16") or _SINCE.get(kind, 0) <= chip.generation < _DROPPED.get(kind, 1000)
    if kind in _NEVER or not taken:
        wide = "jnp.float32" if kind == "float16" else "jnp.bfloat16"
        return (
            chip.name,
            f"operands of {_list(chip)}",
            f"`{dtypes.short(kind)}`",
            f"convert the operands: `.astype({wide})`",
        )
    if result in ("bfloat16", "float16", "int8"):
        wide = "int32" if result == "int8" else "float32"
        return (
            "a TPU",
            "a 32-bit result",
            f"a `{dtypes.short(result)}` one",
            f"ask for it, `preferred_element_type=jnp.{wide}`, and convert the result",
        )
    if kind != "float32" and _raised(event.parameters.get("precision")):
        return (
            "a TPU",
            "`f32` operands for a precision above the default",
            f"`{dtypes.short(kind)}` ones",
            "leave the precision at its default; the result is accumulated in 32 bits all the same",
        )
    return None


def _raised(precision: object) -> bool:
    parts = precision if isinstance(precision, tuple) else (precision,)
    return any(str(part).rsplit(".", 1)[-1] in ("HIGH", "HIGHEST") for part in parts)


def _list(chip: TpuTarget) -> str:
    kinds = [kind for kind, first in _SINCE.items() if first <= chip.generation < _DROPPED.get(kind, 1000)]
    return ", ".join(f"`{dtypes.short(kind)}`" for kind in ("float32", "bfloat16", *kinds))
