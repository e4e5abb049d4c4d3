"""Whether what a body does to an output goes wrong where programs share a block, or a block comes back."""

from collections.abc import Mapping

import numpy as np

from typedpallas.tracing.grid.bodies import DATA, OLD, Body, Ints, Touch, Tri


def stored_together(body: Body, ids: Ints, points: Ints, axes: Mapping[int, int]) -> Tri:
    """Whether two points that share a block (equal ``ids``) store different values to the same elements of it.

    Args:
        body: the touches.
        ids: each point's block as one number.
        points: the grid points themselves, a row for each.
        axes: the grid axes whose points may run at once, and how the body counts them.
    """
    verdict: Tri = "no"
    for touch in body.touches:
        if touch.kind == "load":
            continue
        if touch.kind == "other" or touch.when is None or touch.starts is None:
            verdict = "unknown"
            continue
        at = np.nonzero(touch.when)[0]
        keys = np.stack([ids[at], *(start[at] for start in touch.starts)], axis=1)
        if len(np.unique(keys, axis=0)) == len(keys):
            verdict = verdict if touch.whole or _one_size_apart(keys, touch) else "unknown"
        elif touch.masked:
            verdict = "unknown"
        elif touch.depends & ({axes[axis] for axis in _differing(keys, points[at]) & axes.keys()} | {OLD}):
            return "yes"
        elif DATA in touch.depends:
            verdict = "unknown"
    return verdict


def _differing(keys: Ints, points: Ints) -> set[int]:
    """The axes along which points of equal keys differ."""
    order = np.lexsort(keys.T)
    sorted_keys, sorted_points = keys[order], points[order]
    same = (sorted_keys[1:] == sorted_keys[:-1]).all(axis=1)
    differ = (sorted_points[1:] != sorted_points[:-1]) & same[:, None]
    return {int(axis) for axis in np.nonzero(differ.any(axis=0))[0]}


def _one_size_apart(keys: Ints, touch: Touch) -> bool:
    """Whether stores that start at different elements of a block cannot overlap: they differ by whole sizes."""
    starts = keys[:, 1:]
    return bool(touch.sizes) and bool((starts % np.array(touch.sizes) == 0).all())


def builds_on_stale(body: Body, ids: Ints) -> Tri:
    """Whether the last visit of a block that comes back builds on what was in it, or leaves it unwritten.

    ``ids``: each point's block, in the order in which the points run.
    """
    starts = np.concatenate([[0], np.nonzero(ids[1:] != ids[:-1])[0] + 1])
    ends = np.concatenate([starts[1:], [len(ids)]])
    last = {int(ids[start]): run for run, start in enumerate(starts)}
    counts: dict[int, int] = {}
    for start in starts:
        counts[int(ids[start])] = counts.get(int(ids[start]), 0) + 1
    runs = [run for block, run in last.items() if counts[block] > 1]
    position, end = starts[runs], ends[runs]
    while len(position):
        open_runs = np.ones(len(position), dtype=bool)
        for touch in body.touches:
            if touch.when is None or touch.kind == "other":
                return "unknown"
            now = touch.when[position] & open_runs
            if touch.kind == "load" and now.any():
                return "unknown" if body.selects_old else "yes"
            if touch.kind == "store" and now.any():
                if not touch.whole:
                    return "unknown"
                open_runs &= ~now
        left = open_runs & (position + 1 == end)
        if left.any():
            return "yes"
        keep = open_runs & (position + 1 < end)
        position, end = position[keep] + 1, end[keep]
    return "no"
