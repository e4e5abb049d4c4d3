"""What the backward attention works on: arrays, and slots in shared memory."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Whole:
    """The arrays, in global memory; segments if there are any."""

    q: Any
    k: Any
    v: Any
    d_out: Any
    lse: Any
    delta: Any
    d_q: Any
    d_k: Any
    d_v: Any
    q_ids: Any = None
    k_ids: Any = None


@dataclass(frozen=True)
class Slots:
    """What lies in shared memory besides the rings.

    ``ready`` and ``done`` tell of each slot of ``d_scores`` that every warpgroup has written its part, and that every
    warpgroup has read it.
    """

    k: Any
    v: Any
    d_scores: Any
    d_q: Any
    ready: Any
    done: Any
    k_ids: Any = None
