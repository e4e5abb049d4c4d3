"""`tp.launch`: a typed kernel and a pattern become a plain function of arrays."""

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import jax

from typedpallas.chips import Target, get
from typedpallas.compilers.ambient import lowering_platform, target_context
from typedpallas.events import Backend
from typedpallas.launching import binding, checks, choose, hints, jaxapi, signature
from typedpallas.launching.choose import Choice
from typedpallas.launching.errors import LaunchError, Unsupported
from typedpallas.launching.plan import Plan
from typedpallas.launching.signature import PatternLike, Signature
from typedpallas.launching.tuning import Tuning


def launch(
    kernel: Callable[..., None],
    pattern: PatternLike,
    *,
    grid: str = "",
    ragged: str | Sequence[str] = (),
    parallel: str | Sequence[str] | None = None,
    dims: Mapping[str, int] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    backend: Backend | None = None,
    interpret: bool | Any | None = None,
    tuning: Tuning | None = None,
) -> "Launch":
    """Make a plain function of arrays out of a typed kernel.

    On TPU it promises the compiler (`pl.multiple_of`) that starts of slices are aligned, where that is proved and the
    compiler asks for it; nothing else in the kernel's body is touched.

    Args:
        kernel: a function of refs, every parameter annotated `In`, `Out`, `InOut` or `Scratch`, in that order.
            An `InOut` parameter takes an input and an output of the pattern.
        pattern: inputs and outputs, ``"(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)"``; or a sequence of such
            pieces and of `tp.spec`, joined by commas.
        grid: the grid axes, outermost first.
        ragged: block sizes (or grid axes) whose last block may be partial. Otherwise every block divides its dim.
        parallel: the grid axes whose steps are independent. Unless given: those that every output depends on.
            The others run in order: trailing grid axes on TPU, a loop inside the kernel on GPU.
        dims: sizes that neither arrays nor blocks give: dims of outputs alone, steps of grid axes.
        dtypes: element types by type parameter, where no input fixes them.
        backend: ``"mosaic_tpu"``, ``"mosaic_gpu"`` or ``"triton"``; unless given, what fits the target or device.
        interpret: run on the CPU step by step: a truth value, or the backend's own interpreter parameters. Unless
            given, that happens where there is no accelerator.
        tuning: what changes the speed alone.

    Raises:
        PatternError, AnnotationError: the pattern or the kernel's signature means nothing by itself.
        PlacementError: pattern and kernel disagree.
        LaunchError: an option means nothing.
    """
    found = signature.read(kernel, pattern, grid)
    given = binding.Given(
        call={},
        dims=dict(dims or {}),
        dtypes=dict(dtypes or {}),
        ragged=frozenset(_names(ragged)),
        parallel=None if parallel is None else tuple(_names(parallel)),
    )
    _check_names(found, given)
    if backend is not None and backend not in choose.BACKENDS:
        raise LaunchError(f"`backend`: expected one of {', '.join(choose.BACKENDS)}, found {backend!r}")
    return Launch(kernel, found, given, backend, interpret, tuning or Tuning())


def _names(text: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(text.split()) if isinstance(text, str) else tuple(text)


def _check_names(found: Signature, given: binding.Given) -> None:
    axes, blocks = found.pattern.grid, found.pattern.blocks
    for name in given.parallel or ():
        if name not in axes:
            raise LaunchError(f"`parallel`: expected grid axes ({', '.join(axes)}), found `{name}`")
    for name in given.ragged:
        if name not in (*axes, *blocks):
            raise LaunchError(f"`ragged`: expected block sizes ({', '.join(blocks)}), found `{name}`")


_MOST_PASSED = 256


@dataclass(frozen=True, eq=False)
class Launch:
    """A kernel with its pattern: call it with arrays. It jits, vmaps and runs inside `jax.shard_map`."""

    kernel: Callable[..., None]
    signature: Signature
    given: binding.Given
    backend: Backend | None
    interpret: Any
    tuning: Tuning
    _compiled: dict[Any, Any] = field(default_factory=dict, repr=False)
    """The jitted call for each set of sizes, types and chips."""
    _plans: dict[Any, Plan] = field(default_factory=dict, repr=False)
    _passed: set[Any] = field(default_factory=set, repr=False)
    """Which of the calls were checked, each with JAX's settings at the time."""

    @property
    def __name__(self) -> str:
        return self.signature.kernel.name

    def __call__(self, *arrays: Any, **sizes: int) -> Any:
        """Run the kernel.

        Args:
            arrays: one for each input of the pattern.
            sizes: block sizes by name, in elements.

        Returns:
            The output, or a tuple of them if the pattern has several.

        Raises:
            PlacementError: a rule is broken; every diagnostic has the line.
            LaunchError: the arrays do not fit.
        """
        return self._dispatch(arrays, sizes, checked=checks.wanted())

    def bind(self, *, tuning: Tuning | None = None, **sizes: int) -> "Launch":
        """The same launch with block sizes (in elements) given in advance; a call may replace them."""
        bound = replace(self.given, bound={**self.given.bound, **sizes})
        return replace(self, given=bound, tuning=tuning or self.tuning, _compiled={}, _plans={}, _passed=set())

    def spec(self, *avals: Any, target: str | None = None, **sizes: int) -> Any:
        """What Pallas would be given for arrays like ``avals``. Print it to read it."""
        with _aimed(target):
            way = choose.choices(self.backend, self.interpret)[0]
            plan = self._plan(avals, sizes, None if way.interpret else way.target)
            return self._call(plan, replace(way, asked=True))

    def check(self, *avals: Any, target: str | Sequence[str] | None = None, **sizes: int) -> Any:
        """`tp.check` of this launch: a report, nothing raised for what the rules refuse."""
        from typedpallas import tracing

        def unchecked(*arrays: Any) -> Any:
            return self._dispatch(arrays, sizes, checked=False)

        return tracing.check(unchecked, *avals, target=target)

    def compile(self, *avals: Any, target: str, **sizes: int) -> Any:
        """`tp.compile` of this launch: the vendor's compiler asked for ``target``, which need not be here."""
        from typedpallas import compilers  # type: ignore[attr-defined,unused-ignore]

        return compilers.compile(functools.partial(self, **sizes), *avals, target=target)

    def lower(self, *avals: Any, target: str | None = None, **sizes: int) -> Any:
        """`jax.stages.Lowered` of this launch, for the default device or for ``target``."""
        with _aimed(target):
            traced = jax.jit(functools.partial(self, **sizes)).trace(*avals)
            platforms = None if target is None else (lowering_platform(get(target)),)
            return traced.lower(lowering_platforms=platforms)

    def _plan(self, arrays: Sequence[Any], sizes: Mapping[str, int], target: Target | None) -> Plan:
        """The plan for arrays of these types, made once for each set of them."""
        types = tuple((type(a), getattr(a, "shape", None), getattr(a, "dtype", None)) for a in arrays)
        key = (types, tuple((name, type(size), size) for name, size in sizes.items()), target)
        try:
            known = self._plans.get(key)
        except TypeError:  # A size that is no number: binding says so.
            return binding.bind(self.signature, arrays, replace(self.given, call=dict(sizes)), target)
        if known is None:
            known = binding.bind(self.signature, arrays, replace(self.given, call=dict(sizes)), target)
            self._plans[key] = known
        return known

    def _call(self, plan: Plan, way: Choice) -> Any:
        return backend_module(way.backend).prepare(plan, self.tuning, way, self.interpret)

    def _dispatch(self, arrays: Sequence[Any], sizes: Mapping[str, int], checked: bool) -> Any:
        """Run on the best backend that can; ``checked``: refuse what the trace checker refutes."""
        arrays = tuple(x if isinstance(x, jax.Array) else _as_array(x) for x in arrays)
        ways = choose.choices(self.backend, self.interpret)
        refusals: list[str] = []
        for way in ways:
            plan = self._plan(arrays, sizes, None if way.interpret else way.target)
            try:
                return self._jitted(plan, way, arrays, checked)(*arrays)
            except Unsupported as refusal:
                if len(ways) == 1:
                    raise
                refusals.append(f"{way.backend}: {refusal}")
        raise Unsupported(f"no backend runs `{self.__name__}` here. " + " ".join(refusals))

    def _jitted(self, plan: Plan, way: Choice, arrays: Sequence[Any], checked: bool) -> Callable[..., Any]:
        """The call for these sizes, types and chips; checked in the one trace that JAX makes of it."""
        key = (tuple((a.shape, a.dtype) for a in arrays), tuple(sorted(plan.sizes.items())), way)
        if key not in self._compiled:

            def run(*operands: Any) -> Any:
                return _unpacked(self._call(plan, way).run(self.kernel, operands))

            run.__name__ = self.__name__
            made = jax.jit(run, inline=True)
            target = None if way.interpret else way.target
            hinted = way.backend == "mosaic_tpu"
            self._compiled[key] = hints.given(made, arrays, target) if hinted else made
        call = self._compiled[key]
        if checked:
            self._check_once(key, call, arrays, None if way.interpret else way.target)
        found: Callable[..., Any] = call
        return found

    def _check_once(self, key: Any, call: Any, arrays: Sequence[Any], target: Target | None) -> None:
        """Judge a call, unless it passed before.

        The trace made for this is the one that JAX finds again when the call is made. What JAX forgets and traces
        anew (`jax.clear_caches`) is the same program, as for all that is jitted, and is not judged again.
        """
        passed = (key, target, jaxapi.settings())
        if passed in self._passed:
            return
        checks.check_traced(self.kernel, call.trace(*arrays).jaxpr, target)
        if len(self._passed) >= _MOST_PASSED:
            self._passed.clear()
        self._passed.add(passed)


def _unpacked(results: Sequence[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


def _as_array(x: Any) -> Any:
    """NumPy arrays as JAX's; what is no array stays, and binding refuses it by name."""
    return jax.numpy.asarray(x) if hasattr(x, "__array__") else x


def _aimed(target: str | None) -> Any:
    return nullcontext() if target is None else target_context(target)


def backend_module(backend: Backend) -> Any:
    """The module that turns plans into calls for this backend; loaded when it is first needed."""
    if backend == "mosaic_tpu":
        from typedpallas.launching import mosaic_tpu

        return mosaic_tpu
    if backend == "triton":
        from typedpallas.launching import triton

        return triton
    from typedpallas.launching import mosaic_gpu

    return mosaic_gpu
