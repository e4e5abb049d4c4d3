"""What changes the speed of the Hopper matmul, and how its tiles lie."""

from dataclasses import dataclass
from typing import Any, Literal

from jax import lax
from jax.experimental.pallas import mosaic_gpu as plgpu

from typedpallas.launching.errors import LaunchError

type Axis = Literal["m", "n"]

COMPUTE = 2
"""Warpgroups that multiply."""


@dataclass(frozen=True)
class MatmulTuning:
    """Tiles in elements; what does not divide a problem is refused."""

    tile_m: int = 128
    tile_n: int = 256
    tile_k: int = 64
    stages: int = 4
    """Slots of the ring: steps along k that shared memory holds at once."""
    split: Axis = "m"
    """The axis along which the two warpgroups share a tile."""
    across: Axis = "m"
    """Tiles are visited in bands: this axis is across a band."""
    band: int = 8
    """Tiles across a band: a band's operands should fit the L2 cache."""
    cluster: Axis | None = None
    """The axis along which two blocks stand side by side and share the copies of the other operand."""
    store_n: int = 64
    """Columns that are stored at once."""
    store_slots: int = 2
    lag: int = 0
    """Steps by which the second warpgroup starts later: then one multiplies while the other stores."""
    ragged: bool = False
    """Tiles may reach over the ends: copies bring zeros from there, and store nothing there."""
    bare: bool = False
    """No barriers but those written here: every part of shared memory that is stored to is committed first."""

    @property
    def warpgroup_tile(self) -> tuple[int, int]:
        """Rows and columns of one warpgroup."""
        if self.split == "m":
            return self.tile_m // COMPUTE, self.tile_n
        return self.tile_m, self.tile_n // COMPUTE

    @property
    def blocks(self) -> tuple[int, int]:
        """Blocks of a cluster along both axes."""
        return (1 + (self.cluster == "m"), 1 + (self.cluster == "n"))

    def dims(self) -> dict[str, int]:
        """The sizes that the kernel's annotations name."""
        return {
            "S": self.stages,
            "BM": self.tile_m,
            "BK": self.tile_k,
            "BN": self.tile_n,
            "G": COMPUTE,
            "SS": self.store_slots,
            "WM": self.warpgroup_tile[0],
            "WN": self.store_n,
        }

    def check(self, m: int, k: int, n: int) -> None:
        """Whether the tiles divide a product of (m, k) and (k, n), or may reach over its ends.

        Raises:
            LaunchError: they do not.
        """
        rows, columns = (tile * count for tile, count in zip((self.tile_m, self.tile_n), self.blocks, strict=True))
        for name, size, tile in (("m", m, rows), ("n", n, columns), ("k", k, self.tile_k)):
            if size % tile and not self.ragged:
                raise LaunchError(
                    f"matmul: expected {name} a multiple of {tile}, found {size}; {size // tile * tile} and "
                    f"{-(-size // tile) * tile} are the nearest"
                )
        if not 0 <= self.lag < min(self.stages, -(-k // self.tile_k)):
            raise LaunchError(f"matmul: `lag`: expected less than the stages and steps, found {self.lag}")
        if self.warpgroup_tile[1] % self.store_n:
            raise LaunchError(f"matmul: `store_n`: {self.store_n} does not divide {self.warpgroup_tile[1]}")


def default(m: int, k: int, n: int, out_bytes: int = 2) -> MatmulTuning:
    """Fast on an H200: the largest tiles that divide the product, copies shared by two blocks where rows suffice.

    ``out_bytes`` of one element: wide results leave room for one part of a tile at a time.
    """
    ragged = bool(m % 128 or k % 64 or n % 64)
    columns = 256 if ragged and n > 128 else next((size for size in (256, 128, 64) if n % size == 0), 128)
    cluster: Axis | None = "m" if m % 256 == 0 else None
    lag = max(0, min(3, -(-k // 64) - 1))
    slots = 2 if out_bytes <= 2 else 1
    return MatmulTuning(tile_n=columns, cluster=cluster, store_slots=slots, lag=lag, ragged=ragged, bare=True)


@dataclass(frozen=True)
class Tiles:
    """The tiles of a product, in units of clusters, in the order in which they are visited."""

    tuning: MatmulTuning
    rows: int
    columns: int
    clusters: int
    """Clusters at once."""

    @classmethod
    def of(cls, tuning: MatmulTuning, m: int, n: int, clusters: int) -> "Tiles":
        """The tiles of an (m, n) result."""
        across_m, across_n = tuning.blocks
        return cls(tuning, -(-m // (tuning.tile_m * across_m)), -(-n // (tuning.tile_n * across_n)), clusters)

    @property
    def count(self) -> int:
        """All of them."""
        return self.rows * self.columns

    def mine(self) -> Any:
        """How many fall to this cluster."""
        return lax.div(self.count - 1 - lax.axis_index("clusters") + self.clusters, self.clusters)

    def place(self, turn: Any) -> tuple[Any, Any]:
        """Row and column of this block's tile in its ``turn``-th turn, in tiles.

        Bands are walked up and down in turn, so that neighbours in time share operands in the L2 cache.
        """
        number = turn * self.clusters + lax.axis_index("clusters")
        across = 0 if self.tuning.across == "m" else 1
        row, column = plgpu.planar_snake(number, (self.rows, self.columns), across, self.tuning.band)
        if self.tuning.cluster == "m":
            row = row * 2 + lax.axis_index("peer")
        elif self.tuning.cluster == "n":
            column = column * 2 + lax.axis_index("peer")
        return row, column
