"""The blocks of a kernel's operands."""

from collections.abc import Iterator

from typedpallas.events import Context
from typedpallas.tracing.located import Located
from typedpallas.tracing.walk import KernelCall


def events(kernel: KernelCall, context: Context) -> Iterator[Located]:
    """No events yet: the trace does not look here so far."""
    yield from ()
