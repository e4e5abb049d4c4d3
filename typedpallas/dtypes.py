"""Element types as classes: what a `Ref` or a `Block` holds. They import no JAX; names are JAX's.

Families (`Float`, `Integer`, ...) serve as bounds: ``def k[T: tp.Float, BM: Dim](x: In[VMEM, T, BM])``.
"""

from typing import ClassVar


class DType:
    """Any element type. ``jax_name`` is the name in `jax.numpy`; ``bits`` is the size of one element."""

    jax_name: ClassVar[str] = ""
    bits: ClassVar[int] = 0


class Number(DType):
    """Integers and floats."""


class Float(Number):
    """Floating point of any width."""


class Integer(Number):
    """Integers of any width and sign."""


class Signed(Integer):
    """Signed integers."""


class Unsigned(Integer):
    """Unsigned integers."""


def _marker(name: str, family: type[DType], jax_name: str, bits: int) -> type[DType]:
    return type(name, (family,), {"jax_name": jax_name, "bits": bits, "__module__": __name__})


class bool_(DType):
    """Truth values."""

    jax_name = "bool"
    bits = 8


i4 = _marker("i4", Signed, "int4", 4)
i8 = _marker("i8", Signed, "int8", 8)
i16 = _marker("i16", Signed, "int16", 16)
i32 = _marker("i32", Signed, "int32", 32)
i64 = _marker("i64", Signed, "int64", 64)
u4 = _marker("u4", Unsigned, "uint4", 4)
u8 = _marker("u8", Unsigned, "uint8", 8)
u16 = _marker("u16", Unsigned, "uint16", 16)
u32 = _marker("u32", Unsigned, "uint32", 32)
u64 = _marker("u64", Unsigned, "uint64", 64)
f16 = _marker("f16", Float, "float16", 16)
bf16 = _marker("bf16", Float, "bfloat16", 16)
f32 = _marker("f32", Float, "float32", 32)
f64 = _marker("f64", Float, "float64", 64)
f4_e2m1fn = _marker("f4_e2m1fn", Float, "float4_e2m1fn", 4)
f8_e4m3fn = _marker("f8_e4m3fn", Float, "float8_e4m3fn", 8)
f8_e5m2 = _marker("f8_e5m2", Float, "float8_e5m2", 8)
f8_e4m3b11fnuz = _marker("f8_e4m3b11fnuz", Float, "float8_e4m3b11fnuz", 8)
f8_e8m0fnu = _marker("f8_e8m0fnu", Float, "float8_e8m0fnu", 8)

MARKERS: tuple[type[DType], ...] = (
    bool_,
    *(i4, i8, i16, i32, i64),
    *(u4, u8, u16, u32, u64),
    *(f4_e2m1fn, f8_e4m3fn, f8_e5m2, f8_e4m3b11fnuz, f8_e8m0fnu, f16, bf16, f32, f64),
)
_BY_JAX_NAME = {marker.jax_name: marker for marker in MARKERS}
_BY_NAME = {marker.__name__: marker for marker in MARKERS}


def from_jax_name(name: str) -> type[DType] | None:
    """The marker for JAX's name (``"bfloat16"``), or none if Pallas has no such array."""
    return _BY_JAX_NAME.get(name)


def from_name(name: str) -> type[DType] | None:
    """The marker of this name (``"bf16"``), or none."""
    return _BY_NAME.get(name)


def short(jax_name: str) -> str:
    """How messages write an element type: ``bf16`` for ``bfloat16``; other names stay as they are."""
    marker = from_jax_name(jax_name)
    return marker.__name__ if marker else jax_name
