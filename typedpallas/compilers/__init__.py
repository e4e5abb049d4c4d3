"""Level 3: the vendors' own compilers, asked without the vendors' hardware.

`compile` lowers a function for a target on this machine's CPU and has the vendor's compiler, in a worker
process with a deadline, compile it. A refusal, a crash, a hang and a missing compiler are a `CompileError`.
"""

from typedpallas.compilers.lowering import Lowered, lower_for
from typedpallas.compilers.pool import POOL
from typedpallas.compilers.results import Compiled, CompileError, KernelCode, MemoryFigures
from typedpallas.compilers.session import Outcome, Request, compile, compile_lowered, compile_many
from typedpallas.compilers.versions import compiler_version

__all__ = [
    "CompileError",
    "Compiled",
    "KernelCode",
    "Lowered",
    "MemoryFigures",
    "Outcome",
    "Request",
    "compile",
    "compile_lowered",
    "compile_many",
    "compiler_version",
    "lower_for",
    "shutdown",
]


def shutdown() -> None:
    """Ends the idle compiler processes; also done when Python ends."""
    POOL.shutdown()
