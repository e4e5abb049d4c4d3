"""When turns along an axis of a grid have come to do the same."""

from collections.abc import Mapping
from dataclasses import dataclass

from typedpallas.tracing.flow import cells
from typedpallas.tracing.flow.cells import Cells


@dataclass(frozen=True)
class Settled:
    """The memory that a turn along an axis starts from, and how many claims and known tables there are then."""

    cells: Mapping[int, Cells]
    claims: int
    tables: int

    def same(self, other: "Settled") -> bool:
        """Whether a turn did nothing that a next one would not find as it was."""
        if (self.claims, self.tables, self.cells.keys()) != (other.claims, other.tables, other.cells.keys()):
            return False
        return all(cells.equal(held, other.cells[number]) for number, held in self.cells.items())
