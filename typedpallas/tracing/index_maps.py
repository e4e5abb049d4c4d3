"""The index maps of a kernel's operands over its grid."""

from collections.abc import Iterator

from typedpallas.events import Context
from typedpallas.tracing.located import Located
from typedpallas.tracing.walk import KernelCall


def events(kernel: KernelCall, context: Context) -> Iterator[Located]:
    """No events yet: the trace does not look here so far."""
    yield from ()
