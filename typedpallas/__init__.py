"""typedpallas: typed Pallas kernels, placement as a static obligation, judged by the vendors' compilers.

Names are loaded when they are first used: annotations, patterns and the rule book import no JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "dtypes": (
        "DType Number Float Integer Signed Unsigned bool_ i2 i4 i8 i16 i32 i64 u2 u4 u8 u16 u32 u64 f16 bf16 f32 f64 "
        "f4_e2m1fn f6_e2m3fn f6_e3m2fn f8_e3m4 f8_e4m3 f8_e4m3fn f8_e4m3fnuz f8_e4m3b11fnuz f8_e5m2 f8_e5m2fnuz "
        "f8_e8m0fnu"
    ),
    "types": "Ref In Out InOut Scratch Block Array Dim Multiple Mul Add FloorDiv CDiv AnnotationError",
    "spaces": "MemorySpace BLOCK ACC STATE",
    "chips": "targets UnknownTarget",
    "diagnostics": "Diagnostic PlacementError",
    "pattern": "PatternError",
    "launching": "launch spec pallas_call Launch Spec LaunchError Unsupported Tuning",
    "launching.mesh_kernel": "kernel Mesh MeshKernel",
    "portable": "mma dot first last load_rows broadcast_rows grid_index grid_size OutsideLaunch",
    "tracing": "check debug Report",
    "compilers": "compile Compiled CompileError",
    "drawing": "draw",
    "autotuning": "autotune Tuned",
    "typing": "typed SignatureError",
}
_MODULE = {name: module for module, names in _HOME.items() for name in names.split()}

__version__ = "0.1.0"
__all__ = sorted(_MODULE)

if TYPE_CHECKING:
    # Only the stub package has this module. A checker run in this checkout finds the package before its stubs.
    from typedpallas._public import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        if name not in _MODULE:
            raise AttributeError(f"module `typedpallas` has no attribute `{name}`")
        value = getattr(importlib.import_module(f"{__name__}.{_MODULE[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return [*__all__, "__version__"]
