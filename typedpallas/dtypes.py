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


class bool_(DType):
    """Truth values."""

    jax_name = "bool"
    bits = 8


class i2(Signed):
    jax_name = "int2"
    bits = 2


class i4(Signed):
    jax_name = "int4"
    bits = 4


class i8(Signed):
    jax_name = "int8"
    bits = 8


class i16(Signed):
    jax_name = "int16"
    bits = 16


class i32(Signed):
    jax_name = "int32"
    bits = 32


class i64(Signed):
    jax_name = "int64"
    bits = 64


class u2(Unsigned):
    jax_name = "uint2"
    bits = 2


class u4(Unsigned):
    jax_name = "uint4"
    bits = 4


class u8(Unsigned):
    jax_name = "uint8"
    bits = 8


class u16(Unsigned):
    jax_name = "uint16"
    bits = 16


class u32(Unsigned):
    jax_name = "uint32"
    bits = 32


class u64(Unsigned):
    jax_name = "uint64"
    bits = 64


class f16(Float):
    jax_name = "float16"
    bits = 16


class bf16(Float):
    jax_name = "bfloat16"
    bits = 16


class f32(Float):
    jax_name = "float32"
    bits = 32


class f64(Float):
    jax_name = "float64"
    bits = 64


class f4_e2m1fn(Float):
    jax_name = "float4_e2m1fn"
    bits = 4


class f6_e2m3fn(Float):
    jax_name = "float6_e2m3fn"
    bits = 6


class f6_e3m2fn(Float):
    jax_name = "float6_e3m2fn"
    bits = 6


class f8_e3m4(Float):
    jax_name = "float8_e3m4"
    bits = 8


class f8_e4m3(Float):
    jax_name = "float8_e4m3"
    bits = 8


class f8_e4m3fn(Float):
    jax_name = "float8_e4m3fn"
    bits = 8


class f8_e4m3fnuz(Float):
    jax_name = "float8_e4m3fnuz"
    bits = 8


class f8_e4m3b11fnuz(Float):
    jax_name = "float8_e4m3b11fnuz"
    bits = 8


class f8_e5m2(Float):
    jax_name = "float8_e5m2"
    bits = 8


class f8_e5m2fnuz(Float):
    jax_name = "float8_e5m2fnuz"
    bits = 8


class f8_e8m0fnu(Float):
    jax_name = "float8_e8m0fnu"
    bits = 8


MARKERS: tuple[type[DType], ...] = (
    bool_,
    *(i2, i4, i8, i16, i32, i64),
    *(u2, u4, u8, u16, u32, u64),
    *(f4_e2m1fn, f6_e2m3fn, f6_e3m2fn),
    *(f8_e3m4, f8_e4m3, f8_e4m3fn, f8_e4m3fnuz, f8_e4m3b11fnuz, f8_e5m2, f8_e5m2fnuz, f8_e8m0fnu),
    *(f16, bf16, f32, f64),
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
