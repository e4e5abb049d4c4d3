"""What real kernels are written in, one construct each: moves, picks, loops, blocks of every kind, transformations.

Each is a few lines of a kernel over blocks of rows, beside the same in numpy. None is broken on purpose: what the
compiler refuses is of shapes, element types and axes that it does not know the construct for.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from benchmarks.agreement.case import Arrays, Case, Outcome
from benchmarks.agreement.families.common import HEAD

type Draw = Callable[[random.Random, int, int], tuple[str, str]]
"""From rows and columns of a block ``x``: lines that end with a value ``y`` of its shape, and the same in numpy."""

_KINDS: dict[str, Draw] = {}
_SHAPES = ((8, 128), (16, 128), (32, 256), (64, 128), (8, 256), (16, 384), (24, 128), (40, 256), (12, 128), (16, 100))
_DTYPES = ("float32", "float32", "int32", "bfloat16", "int16", "int8")


def _kind(draw: Draw) -> Draw:
    _KINDS[draw.__name__.strip("_")] = draw
    return draw


@_kind
def _where_chain(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    axis, step, most = rng.choice((0, 1)), rng.choice((2, 3, 8)), rng.choice((1, 5, 100))
    text = f"y = where((at % {step} == 0) & (at < {most}), x, where(at > {most}, zeros_like(x), x + x))"
    return (
        f"at = lax.broadcasted_iota(jnp.int32, x.shape, {axis})\n{text}",
        f"at = np.indices(x.shape)[{axis}]\n{text}",
    )


@_kind
def _largest_index(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    axis, which = rng.choice((0, 1)), rng.choice(("argmax", "argmin"))
    mine = f"y = jnp.broadcast_to(jnp.{which}(x, axis={axis}, keepdims=True), x.shape).astype(x.dtype)"
    return mine, mine.replace("jnp.", "np.")


@_kind
def _top(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    turns = rng.choice((1, 2, 4))
    text = "y, left = zeros_like(x), x\n" + "".join(
        f"best = left.max(1, keepdims=True)\ny = where(at == {turn}, best, y)\n"
        "left = where(left == best, zeros_like(x) - 9, left)\n"
        for turn in range(turns)
    )
    return f"at = lax.broadcasted_iota(jnp.int32, x.shape, 1)\n{text}", f"at = np.indices(x.shape)[1]\n{text}"


@_kind
def _strided(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    stride, start = rng.choice((2, 4)), rng.choice((0, 1))
    size = (rows - start + stride - 1) // stride
    part = f"x_ref[pl.ds({start}, {size}, stride={stride}), :]"
    store = f"y = zeros_like(x)\no_ref[...] = y\no_ref[0:{size}, :] = {part}\ny = None"
    return store, f"y = zeros_like(x)\ny[0:{size}] = x[{start}::{stride}]"


@_kind
def _strided_store(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    stride = rng.choice((2, 4))
    size = rows // stride
    mine = f"o_ref[...] = zeros_like(x)\no_ref[pl.ds(0, {size}, stride={stride}), :] = x[0:{size}, :]\ny = None"
    return mine, f"y = zeros_like(x)\ny[0:{size * stride}:{stride}] = x[0:{size}]"


@_kind
def _roll(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    axis = rng.choice((0, 1))
    shift = rng.choice((0, 1, 3, (rows, columns)[axis] - 1, 8))
    amount = rng.choice((str(shift), f"{shift} + 0 * pl.program_id(0)", f"jnp.int32({shift})"))
    how = rng.choice((f"pltpu.roll(x, {amount}, {axis})", f"jnp.roll(x, {shift}, {axis})"))
    return f"y = {how}", f"y = np.roll(x, {shift}, {axis})"


@_kind
def _bits(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    how = rng.choice(("lax.bitcast_convert_type(x, {u})", "pltpu.bitcast(x, {u})"))
    unsigned = "jnp.dtype(f'int{x.dtype.itemsize * 8}')"
    return f"b = {how.format(u=unsigned)}\ny = {how.format(u='x.dtype').replace('(x,', '(b,')}", "y = x"


@_kind
def _narrow(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    dtype = rng.choice(("int4", "int8", "int16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "bool", "uint8"))
    if dtype in ("bool",):
        return "y = (x != 0).astype(x.dtype)", "y = (x != 0).astype(x.dtype)"
    first = "abs(x)" if dtype == "uint8" else "x"
    return f"y = {first}.astype(jnp.{dtype}).astype(x.dtype)", f"y = {first}"


@_kind
def _repeat(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    axis = rng.choice((0, 1))
    half = f"x[:{rows // 2}]" if axis == 0 else f"x[:, :{columns // 2}]"
    how = rng.choice(("jnp.repeat({h}, 2, axis={a})", "jnp.tile({h}, {t})", "jnp.concatenate([{h}, {h}], {a})"))
    tiles = "(2, 1)" if axis == 0 else "(1, 2)"
    same = f"np.repeat({half}, 2, axis={axis})" if "jnp.repeat" in how else f"np.tile({half}, {tiles})"
    return f"y = {how.format(h=half, a=axis, t=tiles)}", f"y = {same}"


@_kind
def _picked(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    axis = rng.choice((0, 1))
    size = (rows, columns)[axis]
    index = f"({size - 1} - lax.broadcasted_iota(jnp.int32, x.shape, {axis}))"
    return f"y = jnp.take_along_axis(x, {index}, axis={axis})", f"y = np.flip(x, {axis})"


@_kind
def _flipped(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    axis = rng.choice((0, 1))
    return f"y = jnp.flip(x, {axis})", f"y = np.flip(x, {axis})"


@_kind
def _summed_up(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    axis = rng.choice((0, 1))
    how = rng.choice(("max", "min", "sum"))
    if how == "sum":
        text = f"s = x.sum({axis}, keepdims=True)\ny = where(s > -99999, x, -x)"
        return text, text
    text = f"y = x - x.{how}({axis}, keepdims=True)"
    return text, text


@_kind
def _turned(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    how = rng.choice(
        ("x.T.T", "jnp.swapaxes(x, 0, 1).swapaxes(0, 1)", f"x.reshape({rows // 4}, 4, -1).reshape(x.shape)")
    )
    more = (
        f"x.reshape(1, {rows}, -1)[0]",
        "x[None].sum(0)",
        f"jnp.concatenate([x[:{rows // 2}], x[{rows // 2}:]], 0)",
    )
    wide = f"jnp.concatenate([x[:, :{columns // 2}], x[:, {columns // 2}:]], 1)"
    return f"y = {rng.choice((how, *more, wide))}", "y = x"


@_kind
def _looped(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    unit = rng.choice([n for n in (1, 2, 4, 8) if rows % n == 0])
    unroll = rng.choice((1, 2, 4, rows // unit))
    while rows // unit % unroll:
        unroll -= 1
    head = rng.choice(
        (f"@pl.loop(0, {rows // unit}, unroll={unroll})\ndef _(i):", f"for i in range({rows // unit}):")
    )
    return (
        f"{head}\n    o_ref[pl.ds(i * {unit}, {unit}), :] = x_ref[pl.ds(i * {unit}, {unit}), :] * 2\ny = None",
        "y = x * 2",
    )


@_kind
def _carried(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    turns = rng.choice((0, 1, 3))
    loop = f"lax.fori_loop(0, {turns}, lambda i, c: c + x, zeros_like(x))"
    asked = f"lax.while_loop(lambda c: c[0] < {turns}, lambda c: (c[0] + 1, c[1] + x), (0, zeros_like(x)))[1]"
    return f"y = {rng.choice((loop, asked))}", f"y = x * x.dtype.type({turns})"


@_kind
def _branched(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    count = rng.choice((2, 3))
    one = f"lax.switch(pl.program_id(0) % {count}, [lambda: x, lambda: x + x, lambda: zeros_like(x)][:{count}])"
    return f"y = {one}", f"y = (x, x + x, zeros_like(x))[step % {count}]"


@_kind
def _scoped(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    dtype = rng.choice(("x_ref.dtype", "jnp.float32"))
    body = f"""def outer(a):
    a[...] = x.astype(a.dtype)
    def inner(b):
        b[...] = a[...] + a[...]
        o_ref[...] = b[...].astype(o_ref.dtype)
    pl.run_scoped(inner, pltpu.VMEM(x.shape, {dtype}))
pl.run_scoped(outer, pltpu.VMEM(x.shape, {dtype}))
y = None"""
    return body, "y = x + x"


@_kind
def _noted(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    what = rng.choice(
        ('pl.debug_print("step {}", pl.program_id(0))', 'pl.debug_check(pl.program_id(0) >= 0, "step")')
    )
    return f"{what}\ny = x", "y = x"


@_kind
def _multiplied(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    how = rng.choice(("x @ x.T", "lax.dot_general(x, x, (((1,), (1,)), ((), ())))"))
    sums = f"jnp.dot(x, x.T, preferred_element_type=jnp.{rng.choice(('float32', 'int32'))})"
    chosen = rng.choice((how, sums))
    return f"z = {chosen}\ny = where(z[:, :1] > -99999, x, -x)", "y = x"


@_kind
def _random(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    draw = rng.choice(("pltpu.prng_random_bits(x.shape)", "pltpu.stateful_bernoulli(x.shape, 0.5)"))
    return f"pltpu.prng_seed(pl.program_id(0))\nb = {draw}\ny = where(b != 7, x, -x)", "y = x"


@_kind
def _sorted_out(rng: random.Random, rows: int, columns: int) -> tuple[str, str]:
    axis, how = rng.choice((0, 1)), rng.choice(("jnp.cumsum", "jnp.sort", "lax.cummax"))
    if how == "lax.cummax":
        return f"y = lax.cummax(x, {axis})", f"y = np.maximum.accumulate(x, {axis})"
    return f"y = {how}(x, {axis}).astype(x.dtype)", f"y = np.{how[4:]}(x, {axis}).astype(x.dtype)"


_BLOCKS = ("plain", "plain", "plain", "squeezed", "element", "bounded", "whole", "reversed", "two", "aliased")
_AROUND = ("plain", "plain", "plain", "plain", "jit", "vmap", "map", "remat", "grad")


@dataclass(frozen=True)
class Constructs(Case):
    """One construct over the blocks of rows of an array, on a TPU.

    ``blocks``: how the array is cut. ``around``: what is done to the call.
    """

    family: ClassVar[str] = "constructs"
    machine: ClassVar[Literal["tpu", "gpu"]] = "tpu"

    kind: str
    shape: tuple[int, int]
    dtype: str
    steps: int
    blocks: str
    around: str
    lines: str
    same: str

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """Any construct with any shape, element type, blocks and surroundings."""
        kind, shape = rng.choice(list(_KINDS)), rng.choice(_SHAPES)
        lines, same = _KINDS[kind](rng, *shape)
        around = rng.choice(_AROUND)
        blocks = rng.choice(_BLOCKS)
        dtype = "float32" if around == "grad" else rng.choice(_DTYPES)
        return cls(kind, shape, dtype, rng.choice((1, 2, 4)), blocks, around, lines, same)

    def source(self) -> str:
        """A module with one `pallas_call`."""
        rows, columns = self.shape
        whole = (self.steps * rows, columns)
        array = (self.steps, rows, columns) if self.blocks == "squeezed" else whole
        block, index = {
            "squeezed": (f"(None, {rows}, {columns})", "lambda i: (i, 0, 0)"),
            "element": (f"(pl.Element({rows}), pl.Element({columns}))", f"lambda i: (i * {rows}, 0)"),
            "bounded": (f"(pl.BoundedSlice({rows}), {columns})", f"lambda i: (pl.ds(i * {rows}, {rows}), 0)"),
            "reversed": (f"({rows}, {columns})", f"lambda i: ({self.steps - 1} - i, 0)"),
        }.get(self.blocks, (f"({rows}, {columns})", "lambda i: (i, 0)"))
        outs = [f"jax.ShapeDtypeStruct({array!r}, jnp.{self.dtype})"]
        specs = [f"pl.BlockSpec({block}, {index})"]
        more = ""
        if self.blocks == "two":
            outs.append(f"jax.ShapeDtypeStruct(({rows}, {columns}), jnp.{self.dtype})")
            specs.append(f"pl.BlockSpec(({rows}, {columns}), lambda i: (0, 0))")
            more = "\n    p_ref[...] = x"
        body = (
            self.lines.replace("where(", "jnp.where(")
            .replace("zeros_like(", "jnp.zeros_like(")
            .replace("\n", "\n    ")
            .rstrip()
        )
        call = f"""    call = pl.pallas_call(
        kernel,
        grid=({self.steps},),
        in_specs=[pl.BlockSpec({block}, {index})],
        out_specs=[{", ".join(specs)}],
        out_shape=[{", ".join(outs)}],{self._aliases()}
        interpret=interpret,
    )
"""
        return f"""{HEAD}
from jax import lax

ARGS = (jax.ShapeDtypeStruct({self._given(array)!r}, jnp.{self.dtype}),)

def kernel(x_ref, o_ref{", p_ref" if more else ""}):
    x = x_ref[...]
    {body}
    if y is not None:
        o_ref[...] = y{more}

def run(x, interpret=False):
{call}{_SURROUNDED[self.around]}
"""

    def _aliases(self) -> str:
        return "\n        input_output_aliases={0: 0}," if self.blocks == "aliased" else ""

    def _given(self, array: tuple[int, ...]) -> tuple[int, ...]:
        return (2, *array) if self.around in ("vmap", "map") else array

    def oracle(self, inputs: Arrays) -> Outcome:
        """The construct in numpy, block by block."""
        if self.blocks == "bounded" or self.kind == "random":
            return Outcome(None)  # interpret mode knows neither
        if self.around == "grad":
            made = self._made(inputs[0])
            return Outcome((made.sum(), np.ones_like(inputs[0])))
        made = self._made(inputs[0])
        if self.blocks != "two":
            return Outcome((made,))
        parts = inputs[0].reshape(-1, *self.shape)
        last = parts.reshape(*inputs[0].shape[: len(inputs[0].shape) - 2], self.steps, *self.shape)[..., -1, :, :]
        return Outcome((made, last))

    def _made(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        parts = array.reshape(-1, *self.shape)
        made = [self._one(part, number % self.steps) for number, part in enumerate(parts)]
        return np.stack(made).reshape(array.shape)

    def _one(self, part: np.ndarray[Any, Any], block: int) -> Any:
        step = self.steps - 1 - block if self.blocks == "reversed" else block
        scope: dict[str, Any] = {
            "np": np,
            "x": part.copy(),
            "where": np.where,
            "zeros_like": np.zeros_like,
            "step": step,
        }
        exec(self.same, scope)
        return scope["y"].astype(part.dtype)


_SURROUNDED = {
    "plain": "    return call(x)",
    "jit": "    return jax.jit(call)(x)",
    "vmap": "    return jax.vmap(call)(x)",
    "map": "    return lax.map(call, x)",
    "remat": "    return jax.checkpoint(call)(x)",
    "grad": """    @jax.custom_vjp
    def through(x):
        return call(x)[0]
    through.defvjp(lambda x: (through(x), None), lambda _, g: (g,))
    return jax.value_and_grad(lambda x: through(x).sum())(x)""",
}
"""What is done to the call."""
