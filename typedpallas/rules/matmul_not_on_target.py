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


_NEVER = frozenset({"bool", "float16", "uint4", "uint8", "uint16", "uint32"})
"""Operand types that no TPU target takes, whatever the other operand is."""
_NEVER_ALIKE = frozenset({"int16", "int32"})
"""Types that no TPU target takes for both operands."""
_SINCE = {"bfloat16": 4, "int4": 5, "int8": 5, "float8_e4m3fn": 5, "float8_e5m2": 5, "float8_e4m3b11fnuz": 5}
"""The first generation that takes both operands of a type; float32 works on every target."""
_MIXED_SINCE = _SINCE | {"int4": 4, "int8": 2}
"""The first generation that takes a type beside another one."""
_DROPPED = {"float8_e4m3b11fnuz": 7}
"""The generation that no longer takes them."""
_MIXED_DROPPED = _DROPPED | {"int16": 7}
_ANY_SUM = 7
"""From this generation on, the sum's type need not be of the operands' kind, and two integer types may meet."""


class MatmulNotOnTarget(Rule):
    """A matrix product of element types, or with a result or a precision, that the chip's matrix unit does not take.

    The unit accumulates in 32 bits: `jnp.dot` of two `bf16` blocks asks for a `bf16` result unless it is told
    `preferred_element_type=jnp.float32`. Up to v6e integers are summed as `int32` and floats as `f32`, an integer
    operand may meet a float one only for an `f32` result, and two integer types may not meet at all. v2 and v3 take
    `f32` operands alone. A precision above the default needs `f32` operands.

    Machines: TPU; on Triton, operands of two types, unsigned ones, and operands that are no matrices.

    Source: libtpu's compiler and JAX's lowerings, asked for every element type and pair of types, for 32-bit and
    narrow results and every precision on v2 to 7x, for pairs of types on h100, and for combinations of ranks on a100
    and h100.
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
    if len(left.shape) != 2 or len(right.shape) != 2:
        return None
    kinds, result = (left.dtype, right.dtype), event.results[0].dtype
    refusal = _of_operands(kinds, chip) or _of_result(kinds, result, chip)
    if refusal is not None or left.dtype != right.dtype:
        return refusal
    if left.dtype != "float32" and _raised(event.parameters.get("precision")):
        return (
            "a TPU",
            "`f32` operands for a precision above the default",
            f"`{dtypes.short(left.dtype)}` ones",
            "leave the precision at its default; the result is accumulated in 32 bits all the same",
        )
    return None


def _of_operands(kinds: tuple[str, str], chip: TpuTarget) -> _Refusal | None:
    """Operand types that the chip does not take, each by itself or the two together."""
    alike = kinds[0] == kinds[1]
    for kind in dict.fromkeys(kinds):
        if kind in _NEVER or (alike and kind in _NEVER_ALIKE) or not _takes(kind, chip, alike):
            # What has no conversion of its own, or too large a range for 16 bits, becomes 32 bits wide.
            wide = "jnp.bfloat16" if chip.generation >= _SINCE["bfloat16"] and kind != "float16" else "jnp.float32"
            expected = f"operands of {_list(chip)}"
            return chip.name, expected, f"`{dtypes.short(kind)}`", f"convert the operands: `.astype({wide})`"
    if not alike and all(map(_whole, kinds)) and chip.generation < _ANY_SUM:
        found = " and ".join(f"`{dtypes.short(kind)}`" for kind in kinds)
        advice = f"convert one operand to the other's type, `.astype(jnp.{_wider(kinds)})`"
        return chip.name, "integer operands of one type", found, advice
    return None


def _of_result(kinds: tuple[str, str], result: str, chip: TpuTarget) -> _Refusal | None:
    """A result of a type that the matrix unit does not sum in."""
    want = "int32" if all(map(_whole, kinds)) else "float32"
    if result in ("bfloat16", "float16", "int8"):
        advice = f"ask for it, `preferred_element_type=jnp.{want}`, and convert the result"
        return "a TPU", "a 32-bit result", f"a `{dtypes.short(result)}` one", advice
    if chip.generation >= _ANY_SUM or result == want or result not in ("int32", "float32"):
        return None
    operands = " and ".join(f"`{dtypes.short(kind)}`" for kind in dict.fromkeys(kinds))
    advice = f"`preferred_element_type=jnp.{want}`, and convert the result"
    if kinds[0] != kinds[1]:
        advice = f"give both operands one integer type, or sum as floats: {advice}"
    return chip.name, f"`{dtypes.short(want)}` sums for {operands}", f"`{dtypes.short(result)}` ones", advice


def _takes(kind: str, chip: TpuTarget, alike: bool) -> bool:
    since, dropped = (_SINCE, _DROPPED) if alike else (_MIXED_SINCE, _MIXED_DROPPED)
    return since.get(kind, 0) <= chip.generation < dropped.get(kind, 1000)


def _whole(kind: str) -> bool:
    return kind.startswith("int")


def _wider(kinds: tuple[str, str]) -> str:
    return max(kinds, key=lambda kind: int(kind.removeprefix("int")))


def _raised(precision: object) -> bool:
    parts = precision if isinstance(precision, tuple) else (precision,)
    return any(str(part).rsplit(".", 1)[-1] in ("HIGH", "HIGHEST") for part in parts)


def _list(chip: TpuTarget) -> str:
    return ", ".join(f"`{dtypes.short(kind)}`" for kind in ("float32", *_SINCE) if _takes(kind, chip, alike=True))
