"""Where a buffer lives against how it is reached: vectors and scalars in VMEM, SMEM and HBM."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np

from benchmarks.agreement.case import Arrays, Case, Outcome
from benchmarks.agreement.families.common import HEAD

_READS = {
    "whole": "v = s[...]",
    "row": "v = s[0, :]",
    "element": "v = s[1, 2]",
    "slice": "v = s[0:1, :]",
    "dynamic": "v = s[jnp.minimum(pl.program_id(0), 1), 2]",
    "copy": "pltpu.sync_copy(s, stage)\n    v = stage[...]",
    "copy-element": "pltpu.sync_copy(s, stage)\n    v = stage[1, 2]",
}
_WRITES = {
    "whole": "t[...] = jnp.full(t.shape, 7, t.dtype)",
    "element": "t[0, 0] = jnp.asarray(7, t.dtype)",
    "element-of-sum": "t[0, 0] = jnp.sum(x[...]).astype(t.dtype)",
    "row": "t[0, :] = jnp.full(t.shape[1:], 7, t.dtype)",
    "python": "t[0, 0] = 7",
    "none": "pass",
}


@dataclass(frozen=True)
class Spaces(Case):
    """One read from an operand in some space, one write to a scratch buffer in some space, on a TPU."""

    family: ClassVar[str] = "spaces"
    machine: ClassVar[Literal["tpu", "gpu"]] = "tpu"

    source_space: str
    scratch_space: str
    dtype: str
    shape: tuple[int, int]
    read: str
    write: str
    stage_space: str

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """Any space with any way to reach it; about half of the pairs fit."""
        source = rng.choice(("VMEM", "VMEM", "SMEM", "SMEM", "HBM", "ANY"))
        if rng.random() < 0.6:
            read = rng.choice(
                {
                    "VMEM": ("whole", "row", "slice", "element"),
                    "SMEM": ("element", "dynamic"),
                    "HBM": ("copy",),
                    "ANY": ("copy",),
                }[source]
            )
        else:
            read = rng.choice(tuple(_READS))
        return cls(
            source,
            rng.choice(("VMEM", "SMEM")),
            rng.choice(("float32", "float32", "int32", "bfloat16")),
            rng.choice(((8, 128), (16, 128), (2, 4), (8, 256))),
            read,
            rng.choice(tuple(_WRITES)),
            rng.choice(("VMEM", "VMEM", "SMEM")),
        )

    def source(self) -> str:
        """A module with one `pallas_call`."""
        space = "pl.ANY" if self.source_space == "ANY" else f"pltpu.{self.source_space}"
        return f"""{HEAD}
ARGS = (
    jax.ShapeDtypeStruct((8, 128), jnp.float32),
    jax.ShapeDtypeStruct({self.shape!r}, jnp.{self.dtype}),
)

def kernel(x, s, o, t, stage):
    {_READS[self.read]}
    {_WRITES[self.write]}
    o[...] = x[...] + jnp.sum(v.astype(jnp.float32))

def run(x, s, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=ARGS[0],
        grid=(1,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (0, 0)), pl.BlockSpec(memory_space={space})],
        out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
        scratch_shapes=[
            pltpu.{self.scratch_space}({self.shape!r}, jnp.{self.dtype}),
            pltpu.{self.stage_space}({self.shape!r}, jnp.{self.dtype}),
        ],
        interpret=interpret,
    )(x, s)
"""

    def oracle(self, inputs: Arrays) -> Outcome:
        """The sum of what was read, added everywhere."""
        x, s = inputs
        read = {
            "row": s[0],
            "slice": s[0:1],
            "element": s[1, 2],
            "dynamic": s[0, 2],
            "copy-element": s[1, 2],
        }.get(self.read, s)
        return Outcome(((x + np.sum(read.astype(np.float32))).astype(np.float32),))
