"""The families of generated kernels, one file each."""

from benchmarks.agreement.case import Case
from benchmarks.agreement.families.accumulate import Accumulate, GpuAccumulate
from benchmarks.agreement.families.blocks import Blocks, GpuBlocks
from benchmarks.agreement.families.capacity import Capacity
from benchmarks.agreement.families.constructs import Constructs
from benchmarks.agreement.families.copies import Copies
from benchmarks.agreement.families.guarded import Guarded
from benchmarks.agreement.families.matmuls import Matmul
from benchmarks.agreement.families.mosaic_gpu import MosaicCopy, MosaicProduct
from benchmarks.agreement.families.mosaic_gpu_memory import MosaicBuffers, MosaicPipeline
from benchmarks.agreement.families.padding import Padding
from benchmarks.agreement.families.padding_gpu import GpuPadding
from benchmarks.agreement.families.pipelines import Pipelines
from benchmarks.agreement.families.ring import Ring
from benchmarks.agreement.families.slices import Slices
from benchmarks.agreement.families.slices_dma import SliceCopies
from benchmarks.agreement.families.slices_forms import SliceForms
from benchmarks.agreement.families.spaces import Spaces
from benchmarks.agreement.families.vectors import Vectors

_ALL = (
    Blocks,
    GpuBlocks,
    Accumulate,
    GpuAccumulate,
    Spaces,
    Capacity,
    Slices,
    SliceForms,
    SliceCopies,
    Matmul,
    Copies,
    Padding,
    GpuPadding,
    MosaicProduct,
    MosaicCopy,
    MosaicBuffers,
    MosaicPipeline,
    Pipelines,
    Guarded,
    Ring,
    Constructs,
    Vectors,
)
FAMILIES: dict[str, type[Case]] = {kind.family: kind for kind in _ALL}
