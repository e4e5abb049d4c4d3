"""JAX's refusals about a call, not about what a kernel's body does: arity, returned values, shards."""

import inspect
import re

from typedpallas.diagnostics import Place
from typedpallas.events import Event, KernelReturns, MeshAxis, Operands, Shard, ShardedOperand, ShardRank
from typedpallas.tracing.refusals import tracebacks

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


_LONG = re.compile(
    r"given an (?P<side>in|out)_specs entry which is too long .*?_specs\S* is (?P<spec>\w+\(.*?\)) "
    r"which has length (?P<length>\d+), but .*? has shape \S+, which has rank (?P<rank>\d+)"
)
_RANK = re.compile(
    r"Sharding .*?(?P<spec>(?:PartitionSpec|P)\(.*?\)).* is only valid for values of rank at least "
    r"(?P<length>\d+), but was applied to a value of rank (?P<rank>\d+)"
)
_UNBOUND = re.compile(r"[Uu]nbound axis name: (?P<name>\w+)")
_SPEC_AXIS = re.compile(
    r"shard_map (?P<side>in|out)_specs argument must refer to an axis .*?\(frozenset\((?P<known>.*?)\)\), but: "
    r"\w+ refers to '(?P<name>\w+)'"
)
_MANUAL = re.compile(
    r"requires axis_names=frozenset\((?P<names>.*?)\) to be a subset of mesh\.axis_names=\S*?\((?P<known>.*?)\)"
)
_RESOURCE = re.compile(r"Resource axis: (?P<name>\w+) of .* (?:is )?not found in mesh: \((?P<known>.*?)\)")


def mesh(words: str) -> Event | None:
    """An axis that the mesh does not have, or a spec that is longer than its array."""
    found = _LONG.search(words)
    if found is not None:
        what = f"`{found['side']}_specs`"
        return ShardRank(what=what, spec=found["spec"], length=int(found["length"]), rank=int(found["rank"]))
    found = _RANK.search(words)
    if found is not None:
        return ShardRank(what="a sharding", spec=found["spec"], length=int(found["length"]), rank=int(found["rank"]))
    found = _SPEC_AXIS.search(words)
    if found is not None:
        return MeshAxis(name=found["name"], known=_listed(found["known"]), where=f"`{found['side']}_specs`")
    found = _MANUAL.search(words)
    if found is not None:
        known = _listed(found["known"])
        wrong = next((name for name in _listed(found["names"]) if name not in known), None)
        return None if wrong is None else MeshAxis(name=wrong, known=known, where="`axis_names`")
    found = _RESOURCE.search(words)
    if found is not None:
        return MeshAxis(name=found["name"], known=_listed(found["known"]), where="a partition spec")
    return None


def unbound(words: str) -> Event | None:
    """An axis that nothing around a kernel has named."""
    found = _UNBOUND.search(words)
    return None if found is None else MeshAxis(name=found["name"], known=None, where="the kernel")


def _listed(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"'(\w+)'", text))


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
