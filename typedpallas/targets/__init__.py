"""Moved to `typedpallas.chips` (the name `targets` belongs to the public function); use that."""

from typedpallas.chips import *  # noqa: F403
from typedpallas.chips import GpuTarget, Machine, Target, TpuTarget, UnknownTarget, for_device_kind, get, targets  # noqa: F401
