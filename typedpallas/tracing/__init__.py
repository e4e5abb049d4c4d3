"""Level 2: what a trace shows of any JAX function's kernels, judged by the rule book."""

from typedpallas.tracing.check import Report as Report
from typedpallas.tracing.check import check as check
from typedpallas.tracing.check import check_launch as check_launch
from typedpallas.tracing.outer.debug import debug as debug
