"""Level 1 against the launch itself, on generated kernels, patterns, arrays and sizes.

What the plugin refutes, the launch refuses; what the launch refuses by one of the rules below, the plugin refutes;
and where both accept, the shapes of the outputs are the same.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from dataclasses import dataclass
from typing import Literal as L
from typing import TypeVar

import jax
import jax.numpy as jnp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import typedpallas as tp
from typedpallas import pattern as patterns
from typedpallas import rules
from typedpallas.diagnostics import PlacementError
from typedpallas.dims import Size
from typedpallas.events import Context, RefFact
from typedpallas.launching import binding, signature
from typedpallas.launching.errors import LaunchError
from typedpallas.tpu import HBM, VMEM
from typedpallas.types import KernelType, Multiple, kernel_type
from typedpallas_mypy.handlers import calls_match
from typedpallas_mypy.handlers.calls_apply import Call, Settled
from typedpallas_mypy.handlers.calls_kernel import Kernel, Parameter

RULES = {"wrong-arity", "wrong-block", "block-conflict", "not-a-multiple", "unknown-size", "missing-size"}
RULES |= {"windowed-any", "ragged-block"}
AXES = ("i", "j")
DIMS = {name: TypeVar(name, bound=tp.Dim) for name in ("D", "E")}
BLOCKS = {name: TypeVar(name, bound=Multiple[L[4]]) for name in ("BM", "BN")}
NAMES = {**DIMS, **BLOCKS}


@dataclass(frozen=True)
class Sample:
    """One launch with one call of it."""

    kernel: object
    pattern: str
    grid: str
    shapes: tuple[tuple[int, ...], ...]
    sizes: dict[str, int]
    ragged: frozenset[str]


_size = st.sampled_from([1, 4, 8, 12, 16])
_part = st.one_of(
    st.tuples(st.just("cut"), st.sampled_from(AXES), st.sampled_from(["BM", "BN", "8"])),
    st.tuples(st.just("step"), st.sampled_from(AXES)),
    st.tuples(st.just("whole"), st.sampled_from(["D", "E", "4"])),
)


def _text(part):
    return f"({part[1]} {part[2]})" if part[0] == "cut" else part[1]


@st.composite
def _operand(draw):
    """Parts in which every axis occurs at most once."""
    parts = draw(st.lists(_part, min_size=1, max_size=3))
    axes = [part[1] for part in parts if part[0] != "whole"]
    assume(len(axes) == len(set(axes)))
    return parts


def _dims(draw, parts):
    """Mostly the annotation that fits; now and then another dim, or one too few."""
    fitting = [part[-1] for part in parts if part[0] != "step"]
    if draw(st.integers(0, 7)) == 7:
        fitting = [draw(st.sampled_from([*NAMES, "4"])) for _ in fitting]
    if draw(st.integers(0, 11)) == 11:
        fitting = fitting[1:]
    return [NAMES[name] if name in NAMES else L[int(name)] for name in fitting]


def _kernel(annotations):
    """A function of refs with these annotations."""
    scope: dict[str, object] = {}
    exec(f"def kernel({', '.join(annotations)}): ...", scope)
    scope["kernel"].__annotations__ = annotations
    return scope["kernel"]


@st.composite
def samples(draw):
    inputs = draw(st.lists(_operand(), min_size=1, max_size=2))
    outputs = draw(st.lists(_operand(), min_size=1, max_size=2))
    used = [axis for axis in AXES if any(p[0] != "whole" and p[1] == axis for o in inputs + outputs for p in o)]
    annotations = {}
    for i, parts in enumerate(inputs):
        space = draw(st.sampled_from([VMEM, VMEM, VMEM, VMEM, HBM]))
        annotations[f"x{i}"] = tp.In[(space, tp.f32, *_dims(draw, parts))]
    for i, parts in enumerate(outputs):
        annotations[f"o{i}"] = tp.Out[(VMEM, tp.f32, *_dims(draw, parts))]
    extent = {name: draw(_size) for name in (*NAMES, *AXES)}
    shapes = tuple(tuple(_extent(draw, part, extent) for part in parts) for parts in inputs)
    text = " -> ".join(", ".join(" ".join(map(_text, parts)) for parts in side) for side in (inputs, outputs))
    named = [name for name in (*BLOCKS, *DIMS) if draw(st.integers(0, 3)) and f"{name}" in text]
    sizes = {name: extent[name] for name in named if name in BLOCKS or draw(st.booleans())}
    if draw(st.integers(0, 15)) == 15:
        sizes["BX"] = 8
    ragged = frozenset(draw(st.sets(st.sampled_from([*AXES, *BLOCKS, "8"]))))
    return Sample(_kernel(annotations), text, " ".join(used), shapes, sizes, ragged)


def _extent(draw, part, extent):
    if draw(st.integers(0, 15)) == 15:
        return draw(_size)
    if part[0] == "cut":
        rest = draw(st.sampled_from([0, 0, 0, 2]))
        return extent[part[1]] * (extent[part[2]] if part[2] in extent else int(part[2])) + rest
    return extent[part[1]] if part[1] in extent else int(part[1])


def _plugin_kernel(found: KernelType) -> Kernel:
    types = [(p.name, p.type) for p in found.parameters]
    facts = [RefFact(name=n, space=t.space, dtype="float32", shape=t.shape, direction=t.direction) for n, t in types]
    return Kernel(found.name, tuple(map(Parameter, facts)), False, found.facts.multiples)


def _refuted(events, facts):
    context = Context(facts=facts)
    return {f.rule for event in events for f in rules.judge(event, context) if f.verdict == "refuted"}


def _level_1(sample: Sample):
    """The slugs that the plugin refutes, and the shapes that it gives the outputs."""
    kernel = _plugin_kernel(kernel_type(sample.kernel))
    parsed = patterns.parse(sample.pattern, sample.grid)
    match = calls_match.match(parsed, kernel)
    events = [calls_match.operands(parsed, kernel), *(event for _, event in calls_match.arguments(match))]
    refuted = _refuted(events, kernel.facts)
    if refuted:
        return refuted, None
    call = Call(match, Settled(ragged=sample.ragged), kernel.name)
    call.name_sizes({name: Size.of(size) for name, size in sample.sizes.items()}, complete=True)
    shapes = [tuple(map(Size.of, shape)) for shape in sample.shapes]
    call.check_count(len(shapes))
    call.take(shapes)
    call.said += call.windows(shapes)
    refuted = _refuted([event for event, _ in call.said], kernel.facts)
    outputs = [tuple(None if d is None else d.const for d in call.array(slot)) for slot in match.outputs]
    return refuted, outputs


def _launch(sample: Sample):
    """The slugs by which the launch refuses (none for what has no rule), or the shapes of its outputs."""
    avals = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in sample.shapes]
    try:
        read = signature.read(sample.kernel, sample.pattern, sample.grid)
        plan = binding.bind(read, avals, binding.Given(call=sample.sizes, ragged=sample.ragged))
    except PlacementError as error:
        return {d.rule for d in error.diagnostics}, None
    except LaunchError:
        return {"no rule"}, None
    return set(), [planned.array for planned in plan.outputs]


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(samples())
def test_agrees_with_the_launch(sample):
    said, shapes = _level_1(sample)
    refused, arrays = _launch(sample)
    if said:
        assert refused, f"a false alarm: {said}"
    if refused & RULES:
        assert said, f"missed: {refused}"
    if not refused:
        assert shapes == arrays
