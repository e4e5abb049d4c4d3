"""JAX's refusals about a call, not about what a kernel's body does: arity, returned values, shards."""

import inspect
import re

from typedpallas.diagnostics import Place
from typedpallas.events import Event, KernelReturns, Operands, Shard, ShardedOperand
from typedpallas.tracing import tracebacks

_ARITY = re.compile(
    r"takes (?:from )?\d+.* positional arguments? but \d+ (?:was|were) given|missing \d+ required pos"
)
_RETURNS = re.compile(
    r"kernel function in the pallas_call (?P<name>\S+)(?: at \S+)? should return None\. .*PyTreeDef\((?P<tree>.*)\)"
)
_PUT = re.compile(
    r"One of (?P<what>.+?) was given the sharding .*\) implies that array axis (?P<axis>\d+) is "
    r"partitioned (?P<parts>\d+) times, but the dimension size is (?P<size>\d+)"
)
_MAPPED = re.compile(
    r"the passed (?P<what>\S+) of shape \S+?, .*corresponds to in_specs of value .*, "
    r"which maps array axis (?P<axis>\d+) "
    r"\(of size (?P<size>\d+)\) to mesh ax[ei]s (?P<names>.*?) \(of (?:total )?size (?P<parts>\d+)\)"
)
_SPEC = re.compile(
    r"Sharding spec (?P<spec>.+?) implies that array axis (?P<axis>\d+) is partitioned (?P<parts>\d+) times, "
    r"but does not evenly divide the dimension size (?P<size>\d+)"
)


def shard(words: str) -> Event | None:
    """The axis that a sharding does not divide, in the words of `jax.device_put`, `jax.jit` or `jax.shard_map`."""
    for pattern in (_PUT, _MAPPED, _SPEC):
        found = pattern.search(words)
        if found is not None:
            groups = found.groupdict()
            return Shard(
                what=_named(groups.get("what") or "the array"),
                axis=int(found["axis"]),
                size=int(found["size"]),
                parts=int(found["parts"]),
                mesh_axes=tuple(re.findall(r"'(\w+)'", groups.get("names") or "")),
            )
    return None


def explicit(words: str) -> Event | None:
    """A kernel called where a mesh's axes are explicit, which `jax.shard_map` would have made manual."""
    if not re.search(r"requires all mesh axes to be Manual, got", words):
        return None
    return ShardedOperand(kernel="pallas_call", name="", spec="the mesh's explicit axes", devices=0)


def returned(words: str) -> Event | None:
    """A kernel that returns something."""
    found = _RETURNS.search(words)
    return KernelReturns(kernel=found["name"], count=found["tree"].count("*") or None) if found else None


def arity(error: Exception, words: str) -> tuple[Event, Place] | None:
    """The refs that a launch hands its kernel, where Pallas could not even call it; with the kernel's place."""
    if not isinstance(error, TypeError) or not _ARITY.search(words):
        return None
    launch = tracebacks.kernel_being_called(error)
    if launch is None:
        return None
    function, inputs, outputs, scratch = launch
    try:
        names = [
            parameter.name
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        return None
    while hasattr(function, "func"):
        function = function.func
    event = Operands(
        kernel=getattr(function, "__name__", "the kernel"),
        parameters=tuple((name, None) for name in names),
        inputs=inputs,
        outputs=outputs,
        scratch=scratch,
        source="its launch",
    )
    code = getattr(function, "__code__", None)
    return event, Place(file=code.co_filename, line=code.co_firstlineno) if code is not None else Place()


_GIVEN = re.compile(r"pjit (?P<kind>argument|output)s with pytree key path (?P<path>\S+)")


def _named(what: str) -> str:
    """JAX's name of an array, as messages write it."""
    found = _GIVEN.search(what)
    if found is not None:
        return f"{found['kind']} `{found['path']}`"
    return "the array that `jax.device_put` gets" if what == "device_put args" else what
