"""Pictures of kernels: which blocks of each array the grid visits, and what the kernel takes of on-chip memory."""

from typedpallas.drawing.picture import MissingMatplotlib as MissingMatplotlib
from typedpallas.drawing.picture import draw as draw
