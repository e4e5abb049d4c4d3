"""How much fits: windows and scratch from far below to far above what a chip has."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np

from benchmarks.agreement.case import Arrays, Case, Outcome
from benchmarks.agreement.families.common import HEAD


@dataclass(frozen=True)
class Capacity(Case):
    """Windows of ``rows`` x ``columns`` and a scratch buffer of as many rows again times ``extra``, on a TPU."""

    family: ClassVar[str] = "capacity"
    machine: ClassVar[Literal["tpu", "gpu"]] = "tpu"

    rows: int
    columns: int
    steps: int
    dtype: str
    extra: int
    limit_mib: int | None
    constant: bool
    inputs_count: int

    @classmethod
    def draw(cls, rng: random.Random) -> Self:
        """Between 1 and 200 MiB in all."""
        return cls(
            rng.choice((256, 512, 1024, 2048, 4096)),
            rng.choice((128, 256, 512, 640, 1024, 96)),
            rng.choice((1, 2, 4)),
            rng.choice(("float32", "bfloat16")),
            rng.choice((0, 0, 1, 2, 5)),
            rng.choice((None, None, 8, 32, 64, 100, 150)),
            rng.random() < 0.3,
            rng.choice((1, 2, 3)),
        )

    def source(self) -> str:
        """A module with one `pallas_call`."""
        shape = (self.rows * self.steps, self.columns)
        scratch = f"pltpu.VMEM({(self.rows * self.extra, self.columns)!r}, jnp.{self.dtype})" if self.extra else ""
        names = [f"x{i}" for i in range(self.inputs_count)]
        first = f"pl.BlockSpec({(self.rows, self.columns)!r}, lambda i: ({'0' if self.constant else 'i'}, 0))"
        other = f"pl.BlockSpec({(self.rows, self.columns)!r}, lambda i: (i, 0))"
        specs = ", ".join([first, *[other] * (self.inputs_count - 1)])
        use = f"\n    scratch[0][0:{self.rows}, :] = x0[...]" if self.extra else ""
        return f"""{HEAD}
ARGS = (jax.ShapeDtypeStruct({shape!r}, jnp.{self.dtype}),) * {self.inputs_count}

def kernel({", ".join(names)}, o, *scratch):{use}
    o[...] = {" + ".join(f"{name}[...]" for name in names)}

def run({", ".join(names)}, interpret=False):
    return pl.pallas_call(
        kernel,
        out_shape=ARGS[0],
        grid=({self.steps},),
        in_specs=[{specs}],
        out_specs=pl.BlockSpec({(self.rows, self.columns)!r}, lambda i: (i, 0)),
        scratch_shapes=[{scratch}],
        compiler_params=pltpu.CompilerParams(
            vmem_limit_bytes={None if self.limit_mib is None else self.limit_mib << 20},
        ),
        interpret=interpret,
    )({", ".join(names)})
"""

    def oracle(self, inputs: Arrays) -> Outcome:
        """The sum of the operands; the first one's first block throughout if its map is constant."""
        first = inputs[0]
        if self.constant:
            first = np.concatenate([first[: self.rows]] * self.steps)
        total = first
        for other in inputs[1:]:
            total = total + other
        return Outcome((total,))
