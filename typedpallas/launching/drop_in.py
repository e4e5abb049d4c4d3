"""`tp.pallas_call`: Pallas's own `pl.pallas_call`, checked against the kernel's annotations."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.experimental import pallas as pl

from typedpallas import gpu, tpu
from typedpallas.compilers.ambient import current_target
from typedpallas.dims import Facts, Size
from typedpallas.events import Argument, Context, Event, Operands, RefFact
from typedpallas.launching import checks, jaxapi
from typedpallas.launching.errors import LaunchError, refuse_by_rule
from typedpallas.spaces import MemorySpace
from typedpallas.types import KernelType, Parameter, RefType, kernel_type

_SPACES: Mapping[str, tuple[type[MemorySpace], ...]] = {
    "vmem": (tpu.VMEM,),
    "hbm": (tpu.HBM,),
    "any": (tpu.ANY,),
    "cmem": (tpu.CMEM,),
    "vmem_shared": (tpu.VMEM_SHARED,),
    "gmem": (gpu.GMEM,),
    "tmem": (gpu.TMEM,),
}


def pallas_call(kernel: Callable[..., None], out_shape: Any, **options: Any) -> Callable[..., Any]:
    """`pl.pallas_call` with its own signature, whose kernel's annotations are checked.

    Parameters without an annotation are not looked at. The call is traced once and judged as a launch is.

    Args:
        kernel: as Pallas takes it; refs annotated `Ref`, `In`, `Out`, `InOut` or `Scratch`, in Pallas's order.
        out_shape: as Pallas takes it.
        options: as Pallas takes them.

    Returns:
        A function of arrays, as Pallas returns it.

    Raises:
        AnnotationError: an annotation means nothing by itself.
        PlacementError: when the function is called: a rule is broken.
        LaunchError: when the function is called: an element type is not the annotated one.
    """
    called = pl.pallas_call(kernel, out_shape, **options)
    kind = kernel_type(kernel)
    specs = options.get("grid_spec")
    described = _Described(
        kind,
        prefetched=getattr(specs, "num_scalar_prefetch", 0),
        in_specs=_leaves(getattr(specs, "in_specs", options.get("in_specs"))),
        out_specs=_leaves(getattr(specs, "out_specs", options.get("out_specs"))),
        out_shapes=jax.tree.leaves(out_shape),
        scratch=_leaves(getattr(specs, "scratch_shapes", options.get("scratch_shapes", ()))) or (),
        interpret=bool(options.get("interpret")),
    )

    @functools.wraps(called)
    def checked(*arrays: Any) -> Any:
        described.check(jax.tree.leaves(arrays))
        return _traced(kernel, called, arrays, None if options.get("interpret") else current_target())

    return checked


def _traced(kernel: Callable[..., None], called: Callable[..., Any], arrays: Any, target: Any) -> Any:
    traced, shape = jax.make_jaxpr(called, return_shape=True)(*arrays)
    if checks.wanted():
        checks.check_traced(kernel, traced, target)
    results = jaxapi.evaluate(jaxapi.inner(traced), [*traced.consts, *jax.tree.leaves(arrays)])
    return jax.tree.unflatten(jax.tree.structure(shape), results)


def _leaves(tree: Any) -> list[Any] | None:
    """Block specs or scratch shapes in order; none where Pallas was given none."""
    if tree is None or tree is pl.no_block_spec:
        return None
    return jax.tree.leaves(tree, is_leaf=lambda leaf: leaf is None or isinstance(leaf, pl.BlockSpec))


class _Described:
    """A kernel's annotations beside what one `pallas_call` hands it."""

    def __init__(
        self,
        kernel: KernelType,
        *,
        prefetched: int,
        in_specs: Sequence[Any] | None,
        out_specs: Sequence[Any] | None,
        out_shapes: Sequence[Any],
        scratch: Sequence[Any],
        interpret: bool,
    ) -> None:
        self.kernel = kernel
        self.prefetched = prefetched
        self.in_specs = in_specs
        self.out_specs = out_specs
        self.out_shapes = out_shapes
        self.scratch = scratch
        self.interpret = interpret

    def check(self, arrays: Sequence[Any]) -> None:
        """Judge the arity, and what each annotated parameter gets."""
        directions = tuple((p.name, p.type.direction if p.type is not None else None) for p in self.kernel.parameters)
        arity = Operands(
            kernel=self.kernel.name,
            parameters=directions,
            inputs=len(arrays),
            outputs=len(self.out_shapes),
            scratch=len(self.scratch),
            source="`pallas_call`",
        )
        context = Context(facts=self.kernel.facts)
        if all(direction is not None for _, direction in directions):  # a parameter without one may be a pytree
            refuse_by_rule([arity], context, kernel=self.kernel.name)
        given = [*self._operands(arrays), *map(_of_scratch, self.scratch)]
        if len(given) != len(self.kernel.parameters):
            return
        sizes: dict[str, int] = {}
        events: list[Event] = []
        for parameter, (block, dtype, space, source) in zip(self.kernel.parameters, given, strict=True):
            if parameter.type is not None:
                _check_dtype(self.kernel.name, parameter, dtype)
                events.append(_argument(self.kernel.name, parameter, parameter.type, block, space, source, sizes))
        refuse_by_rule(events, Context(facts=Facts()), kernel=self.kernel.name)

    def _operands(self, arrays: Sequence[Any]) -> list[tuple[Any, Any, Any, str]]:
        tables, blocked = arrays[: self.prefetched], arrays[self.prefetched :]
        found = [(tuple(table.shape), table.dtype, tpu.SMEM, "a prefetched array") for table in tables]
        found += _blocks(self.in_specs, blocked, "in_specs")
        return found + _blocks(self.out_specs, self.out_shapes, "out_specs")


def _blocks(specs: Sequence[Any] | None, arrays: Sequence[Any], name: str) -> list[tuple[Any, Any, Any, str]]:
    found = []
    for i, array in enumerate(arrays):
        spec = specs[i] if specs is not None and i < len(specs) else None
        block = getattr(spec, "block_shape", None)
        shape = tuple(array.shape) if block is None else _seen(block)
        source = "a whole array" if block is None else f"`{name}[{i}]`, blocks of {_text(block)}"
        found.append((shape, array.dtype, _space(getattr(spec, "memory_space", None)), source))
    return found


def _seen(block: Sequence[Any]) -> tuple[int | None, ...]:
    """What the kernel sees of a block shape: squeezed dims are gone."""
    kept = [size for size in block if size is not None and not isinstance(size, pl.Squeezed)]
    return tuple(size if isinstance(size, int) else getattr(size, "block_size", None) for size in kept)


def _text(block: Sequence[Any]) -> str:
    return str(tuple(getattr(size, "block_size", size) for size in block))


def _space(space: Any) -> type[MemorySpace] | None:
    """The class of a memory space that has one name on all machines; none elsewhere."""
    kinds = _SPACES.get(str(getattr(space, "value", space)), ())
    if str(getattr(space, "value", space)) == "smem":
        return gpu.SMEM if "mosaic_gpu" in type(space).__module__ else tpu.SMEM
    return kinds[0] if kinds else None


def _of_scratch(scratch: Any) -> tuple[Any, Any, Any, str]:
    shape = getattr(scratch, "shape", None)
    source = "`scratch_shapes`"
    return shape, getattr(scratch, "dtype", None), _space(getattr(scratch, "memory_space", None)), source


def _argument(
    kernel: str,
    parameter: Parameter,
    kind: RefType,
    block: Any,
    space: type[MemorySpace] | None,
    source: str,
    sizes: dict[str, int],
) -> Argument:
    """What a parameter gets beside its annotation, the sizes of its dims read off the first block that has them."""
    expected = kind.shape if kind.space.data else None
    if expected is not None and block is not None and len(expected) == len(block):
        for size, found in zip(expected, block, strict=True):
            if len(size.names) == 1 and size == Size.of(next(iter(size.names))) and found is not None:
                sizes.setdefault(next(iter(size.names)), found)
    shape = None if expected is None else tuple(size.substitute(sizes) for size in expected)
    return Argument(
        kernel=kernel,
        ref=RefFact(name=parameter.name, space=kind.space, dtype=None, shape=shape, direction=kind.direction),
        source=source,
        space=space,
        block=None if block is None else tuple(None if n is None else Size.of(n) for n in block),
    )


def _check_dtype(kernel: str, parameter: Parameter, found: Any) -> None:
    assert parameter.type is not None
    expected = parameter.type.dtype
    if not isinstance(expected, type) or found is None:
        return
    if jax.numpy.dtype(found).name != expected.jax_name:
        raise LaunchError(
            f"`{parameter.name}` of `{kernel}`: expected {expected.__name__}, found {jax.numpy.dtype(found).name}"
        )
