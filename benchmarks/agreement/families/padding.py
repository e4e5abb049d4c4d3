"""Blocks that do not divide their arrays: sums, maxima and products over the ragged axis, masked rightly or wrongly.

The kernel's text runs twice: by Pallas, and in numpy on plain arrays, once for each thing that memory may hold past
an array's end. Where the results differ, padding has reached them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from benchmarks.agreement.case import Arrays, Case, Outcome
from benchmarks.agreement.families.common import HEAD, map_function, map_text, spec_text, steps
from benchmarks.agreement.simulate import Operand, Tainted, fetch, write_back

type Array = np.ndarray[Any, Any]

_REDUCTIONS = {
    "sum": ("jnp.sum({}, axis={}, keepdims=True)", "{} + {}", "0"),
    "max": ("jnp.max({}, axis={}, keepdims=True)", "jnp.maximum({}, {})", "-99"),
    "min": ("jnp.min({}, axis={}, keepdims=True)", "jnp.minimum({}, {})", "99"),
}
_FUNCTIONS = ("{}", "{} * 2 + 1", "({0} > 1).astype(jnp.{1})", "{0} * {0}", "jnp.abs({})")
"""Of a value and its element type. The last two let a minimum forget what is not zero."""
_RIGHT = (
    "{p} < {n}",
    "{i} < {n} - {k} * {b}",
    "{p} <= {n} - 1",
    "({p} >= 0) & ({p} < {n})",
    "jnp.logical_not({p} >= {n})",
    "jnp.minimum({p}, {n}) < {n}",
    "({p} < {n} - 1) | ({p} == {n} - 1)",
    "{p} + 1 < {n}",
)
"""The last one masks one element too many, which lets no padding in."""
_WRONG = ("{p} < {n} + 1", "{i} < {n}", "{p} < {whole}", "{p} > -1", "{p} <= {n}", "({p} < {n}) | ({i} == {b} - 1)")
_KINDS = ("accumulate", "scratch", "product", "row", "chunks", "down", "branch", "slice", "centre", "mirror")


@dataclass(frozen=True)
class Padding(Case):
    """One pass over a matrix in blocks, on a TPU. ``masks``: for each operand the text of its mask, or nothing."""

    family: ClassVar[str] = "padding"
    machine: ClassVar[Literal["tpu", "gpu"]] = "tpu"
    dtypes: ClassVar[tuple[str, ...]] = ("float32",) * 7 + ("int32",)

    rows: int
    columns: int
    block: tuple[int, int]
    dtype: str
    kind: str
    reduction: str
    function: str
    masks: tuple[str, str]
    style: Literal["before", "after", "times"]

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """A matrix with ragged columns, and now and then ragged rows."""
        rows, columns = rng.choice((8, 16, 16, 20, 40)), rng.choice((130, 200, 256, 300, 500, 640))
        block = (rng.choice((8, 16)) if rows > 8 else 8, rng.choice((128, 256, 384, 512)))
        kind = rng.choice(_KINDS)
        if kind in ("row", "chunks", "centre"):
            block = (block[0], -(-columns // 128) * 128)
        right = rng.random() < 0.6
        masks = tuple(rng.choice(_RIGHT if right or rng.random() < 0.3 else (*_WRONG, "", "")) for _ in range(2))
        reduction = rng.choice(tuple(_REDUCTIONS))
        style = rng.choices(("before", "after", "times"), (6, 3, 0 if kind == "product" else 1))[0]
        return cls(
            rows,
            columns,
            block,
            rng.choice(cls.dtypes),
            kind,
            reduction,
            rng.choice(_FUNCTIONS[:3] if reduction == "min" else _FUNCTIONS),
            masks,  # type: ignore[arg-type]
            style,  # type: ignore[arg-type]
        )

    @property
    def grid(self) -> tuple[int, int]:
        """Steps over the rows and the columns."""
        return steps(self.rows, self.block[0]), steps(self.columns, self.block[1])

    def _masked(self, value: str, mask: str, axis: int = 1, at: str = "step", shape: str = "") -> str:
        """An operand's text with its function and its mask."""
        total, block = ((self.rows, self.block[0]), (self.columns, self.block[1]))[axis]
        neutral = "0" if self.kind in ("product", "centre") else _REDUCTIONS[self.reduction][2]
        applied = self.function.format(value, self.dtype)
        if not mask:
            return applied
        here = f"jax.lax.broadcasted_iota(jnp.int32, {shape or self.block}, {axis})"
        place = {"p": f"({at} * {block} + {here})", "i": here, "k": at, "b": block, "n": total}
        test = mask.format(**place, whole=-(-total // block) * block)
        if self.style == "times" and neutral == "0":
            return f"({applied}) * ({test}).astype(jnp.{self.dtype})"
        fill = f"jnp.{self.dtype}({neutral})"
        if self.style == "after" or self.function == "{}":
            return f"jnp.where({test}, {applied}, {fill})"
        return f"jnp.where({test}, {self.function.format(f'jnp.where({test}, {value}, {fill})', self.dtype)}, {fill})"

    def _body(self) -> list[str]:
        """The lines of the kernel."""
        reduce, join, neutral = _REDUCTIONS[self.reduction]
        x = self._masked("x[...]", self.masks[0])
        part = reduce.format(x, 1)
        first = ["@pl.when(step == 0)", "def _():", f"    {{}}[...] = jnp.full_like({{}}, {neutral})"]
        kind = self.kind
        if kind in ("accumulate", "scratch", "branch", "slice"):
            into = "acc" if kind == "scratch" else "o"
            start = [line.format(into, into) for line in first]
            gather = f"{into}[...] = {join.format(f'{into}[...]', '{}')}"
            if kind == "branch":
                last = f"step == {self.grid[1] - 1}"
                plain = reduce.format(self.function.format("x[...]", self.dtype), 1)
                ways = ((last, part), (f"jnp.logical_not({last})", plain))
                both = [(f"@pl.when({when})", "def _():", "    " + gather.format(what)) for when, what in ways]
                return [*start, *both[0], *both[1]]
            if kind == "slice":
                half = self._masked("x[...]", self.masks[0])
                return [*start, f"v = {half}", gather.format(reduce.format(f"v[:, :{self.block[1] // 2}]", 1))]
            end = ["@pl.when(step == pl.num_programs(1) - 1)", "def _():", "    o[...] = acc[...]"]
            return [*start, gather.format(part), *(end if kind == "scratch" else [])]
        if kind == "product":
            y = self._masked(
                "y[...]", self.masks[1].replace("{n}", str(self.columns)), 0, shape=f"({self.block[1]}, 128)"
            )
            zero = [line.format("acc", "acc").replace(neutral, "0") for line in first]
            return [
                *zero,
                f"acc[...] += jnp.dot({x}, {y}, preferred_element_type=jnp.{self.dtype})",
                "o[...] = acc[...]",
            ]
        if kind == "row":
            return [f"o[...] = {part}"]
        if kind == "centre":
            return [f"v = {x}", "o[...] = x[...] - jnp.sum(v, axis=1, keepdims=True)"]
        if kind == "mirror":
            return [f"o[...] = {self._masked('x[...]', '')} + 1"]
        if kind == "down":
            return [f"o[...] = {self._down(reduce)}"]
        return self._chunks(reduce, join, neutral)

    def _down(self, reduce: str) -> str:
        """A reduction over the rows of a block, which may be ragged too."""
        mask = self.masks[0]
        return (
            reduce.format(self._masked("x[...]", mask, 0, "row"), 0) + f" + jnp.zeros({self.block}, jnp.{self.dtype})"
        )

    def _chunks(self, reduce: str, join: str, neutral: str) -> list[str]:
        """A loop over 128 columns each."""
        rows = self.block[0]
        mask = self.masks[0].replace("{k} * {b}", "{k} * 128").replace("{b} - 1", "127")
        shape = f"({rows}, 128)"
        part = self._masked("x[:, pl.ds(j * 128, 128)]", mask, 1, "j", shape).replace(
            f"j * {self.block[1]}", "j * 128"
        )
        init = f"jnp.full(({rows}, 1), {neutral}, jnp.{self.dtype})"
        return [
            "def chunk(j, best):",
            f"    return {join.format('best', reduce.format(part, 1))}",
            f"o[...] = jax.lax.fori_loop(0, {self.block[1] // 128}, chunk, {init})",
        ]

    @property
    def _output(self) -> tuple[tuple[int, int], tuple[int, int], str]:
        """Shape, block and index map of the result."""
        if self.kind == "product":
            return (self.rows, 128), (self.block[0], 128), map_text(("i", "k"), ("i", "0"))
        if self.kind in ("centre", "mirror", "down"):
            index = ("i", f"{self.grid[1] - 1} - k") if self.kind == "mirror" else ("i", "k")
            return (self.rows, self.columns), self.block, map_text(("i", "k"), index)
        return (self.rows, 1), (self.block[0], 1), map_text(("i", "k"), ("i", "0"))

    @property
    def _inputs(self) -> list[tuple[tuple[int, int], tuple[int, int], str]]:
        found = [((self.rows, self.columns), self.block, map_text(("i", "k"), ("i", "k")))]
        if self.kind == "product":
            found.append(((self.columns, 128), (self.block[1], 128), map_text(("i", "k"), ("k", "0"))))
        return found

    @property
    def _scratch(self) -> tuple[int, int] | None:
        return {"scratch": (self.block[0], 1), "product": (self.block[0], 128)}.get(self.kind)

    def _kernel(self) -> str:
        ids = ["row, step = pl.program_id(0), pl.program_id(1)"]
        names = ["x", *(["y"] if self.kind == "product" else []), "o", *(["acc"] if self._scratch else [])]
        return "\n".join([f"def kernel({', '.join(names)}):", *("    " + line for line in [*ids, *self._body()])])

    def source(self) -> str:
        """A module with one `pallas_call`."""
        avals = [f"jax.ShapeDtypeStruct({shape}, jnp.{self.dtype})" for shape, _, _ in self._inputs]
        specs = [spec_text(block, index) for _, block, index in self._inputs]
        shape, block, index = self._output
        scratch = [f"pltpu.VMEM({self._scratch}, jnp.{self.dtype})"] if self._scratch else []
        return f"""{HEAD}
ARGS = ({", ".join(avals)},)

{self._kernel()}

def run(*arrays, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct({shape}, jnp.{self.dtype}),
        grid={self.grid},
        in_specs=[{", ".join(specs)}],
        out_specs={spec_text(block, index)},
        scratch_shapes=[{", ".join(scratch)}],
        interpret=interpret,
    )(*arrays)
"""

    def oracle(self, inputs: Arrays) -> Outcome:
        """Runs the grid in numpy with one thing after another past the arrays' ends.

        NaN is left out where a kernel multiplies by truth values: XLA makes a choice of that.
        """
        wild = np.nan if self.dtype == "float32" and self.style != "times" else -1000
        found = [self._run(inputs, fill) for fill in (3, wild, 1000)]
        for other in found[1:]:
            if not np.array_equal(found[0], other, equal_nan=True):
                return Outcome(None, "garbage: what lies past an array's end changes the result")
        return Outcome((found[0],))

    def _run(self, inputs: Arrays, fill: float) -> Array:
        shape, block, index = self._output
        out = Operand(shape, block, map_function(index))
        result = Tainted.unwritten(shape, self.dtype)
        window, at = Tainted.unwritten(block, self.dtype), None
        scratch = [np.zeros(self._scratch, self.dtype)] if self._scratch else []
        operands = [
            (Tainted.clean(a), Operand(s, b, map_function(m)))
            for a, (s, b, m) in zip(inputs, self._inputs, strict=True)
        ]
        for point in np.ndindex(self.grid):
            where = out.slices(point)
            if where != at:
                window, at = Tainted.unwritten(block, self.dtype), where
                window.values[...] = fill
            blocks = [_filled(fetch(array, own, own.slices(point)), fill) for array, own in operands]
            in_numpy(self._kernel(), point, self.grid)(*blocks, window.values, *scratch)
            write_back(result, out, where, window)
        return result.values


def _filled(block: Tainted, fill: float) -> Array:
    return np.where(block.garbage, np.asarray(fill, block.values.dtype), block.values)


def in_numpy(text: str, point: tuple[int, ...], grid: tuple[int, ...], **more: Any) -> Callable[..., None]:
    """A kernel's text as a function of plain arrays, at one step of a grid. ``more``: what else it names."""

    def when(condition: bool) -> Callable[[Callable[[], None]], None]:
        return lambda body: body() if condition else None

    def loop(start: int, end: int, body: Callable[[int, Any], Any], carry: Any) -> Any:
        for turn in range(start, end):
            carry = body(turn, carry)
        return carry

    def iota(dtype: Any, shape: tuple[int, ...], axis: int) -> Array:
        return np.broadcast_to(
            np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))]), shape
        )

    def product(left: Array, right: Array, preferred_element_type: Any) -> Array:
        return (left @ right).astype(preferred_element_type)

    lax = SimpleNamespace(fori_loop=loop, broadcasted_iota=iota)
    names = {name: getattr(np, name) for name in ("sum", "max", "min", "abs", "where", "maximum", "minimum", "full")}
    names |= {name: getattr(np, name) for name in ("logical_not", "full_like", "zeros", "float32", "int32", "arange")}
    scope: dict[str, Any] = {
        "pl": SimpleNamespace(
            program_id=lambda axis: point[axis],
            num_programs=lambda axis: grid[axis],
            when=when,
            ds=lambda start, size: slice(start, start + size),
        ),
        "jax": SimpleNamespace(lax=lax),
        "jnp": SimpleNamespace(**names, dot=product),
        **more,
    }
    with np.errstate(all="ignore"):
        exec(compile(text, "<kernel>", "exec"), scope)
    return scope["kernel"]  # type: ignore[no-any-return]
