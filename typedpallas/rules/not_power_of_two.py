"""`not-power-of-two`."""

from collections.abc import Iterator

from typedpallas.dims import Size
from typedpallas.events import Access, Applied, ArrayType, Context, Event, Shape
from typedpallas.rules._kernels import array, module
from typedpallas.rules._shapes import shown
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(x: In[BLOCK, f32, L[8], L[{width}]], o: Out[BLOCK, f32, L[8], L[{width}]]) -> None:
    o[...] = x[...] + 1.0
"""


def _module(width: int, spec: str) -> str:
    return module(
        typed="from typedpallas import BLOCK, In, Out, f32\n",
        args=(array("8, 96"),),
        kernel=_KERNEL.format(width=width),
        call=f"pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 96), jnp.float32){spec})(x)",
        reference="x + 1.0",
    )


_GOOD_SPEC = """,
        grid=(3,),
        in_specs=[pl.BlockSpec((8, 32), lambda j: (0, j))],
        out_specs=pl.BlockSpec((8, 32), lambda j: (0, j))"""

_REDUCED = frozenset(
    {
        *("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "argmax", "argmin"),
        *("cumsum", "cumprod", "cummax", "cummin", "dot_general"),
    }
)
"""Operations whose operands the compiler was seen to refuse; any other array ends in one of these or in a store."""


class NotPowerOfTwo(Rule):
    """An array in a Triton kernel whose number of elements is not a power of two.

    Triton's tensors have power-of-two sizes: what is loaded, stored or reduced at once needs one. The whole array
    may have any size: cut it into blocks of a power of two that divides it. A block that runs past the array's end
    needs a mask of its own (`plt.load`, `plt.store`): Triton's lowering puts none.

    Machines: GPU through Triton. Source: the load and store rules of JAX's Triton lowering, and Triton's verifier
    for reductions, scans and dots; asked on a100, h100 and b200. Mosaic GPU has no such rule.
    """

    slug = "not-power-of-two"
    judges = (Access, Applied)
    message = "{what} has {found} elements: expected {expected} in a Triton kernel"
    example = Example(
        bad=_module(96, ""),
        good=_module(32, _GOOD_SPEC),
        targets=("h100",),
        levels=("trace",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if context.backend != "triton":
            return
        if isinstance(event, Access):
            verb = "the load from" if event.op == "load" else "the store to"
            what = f"{verb} `{event.ref.name}`"
            yield from self._check(what, ArrayType(shape=event.moved or (), dtype=event.ref.dtype or "?"))
        elif isinstance(event, Applied) and event.primitive in _REDUCED:
            for operand in event.operands:
                yield from self._check(f"an operand of `{event.primitive}`", operand)

    def _check(self, what: str, found: ArrayType) -> Iterator[Finding]:
        axis = _offending(found.shape)
        if axis is None:
            return
        size = found.shape[axis]
        assert size is not None and size.const is not None
        divides, covers = size.const & -size.const, 1 << (size.const - 1).bit_length()
        yield self.refuted(
            what=f"{what}, `{shown(found.shape, found.dtype)}`,",
            expected="a power of two",
            found=_product(found.shape),
            help=f"axis {axis}: work on blocks of {divides}, which divide {size.const}, or on {covers} elements with "
            "a mask (`plt.load(..., mask=..., other=...)`, `plt.store`)",
        )


def _offending(shape: Shape) -> int | None:
    """The first axis whose size is known and no power of two; none too if an axis is empty."""
    sizes = [dim.const if isinstance(dim, Size) else None for dim in shape]
    if 0 in sizes:
        return None
    return next((i for i, size in enumerate(sizes) if size is not None and size & (size - 1)), None)


def _product(shape: Shape) -> str:
    total = Size.of(1)
    for dim in shape:
        if dim is None:
            return "an odd multiple of"
        total = total * dim
    return str(total)
