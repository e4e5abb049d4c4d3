"""Blackwell's products and tensor memory."""

from typing import Any

from typedpallas.tracing.warpgroups.numbers import Frame
from typedpallas.tracing.warpgroups.operations import _split
from typedpallas.tracing.warpgroups.plan import Step, operand
from typedpallas.tracing.warpgroups.run import Results, Run, handles
from typedpallas.tracing.warpgroups.state import NotFollowed, Thread


def _commit_products(run: Run, thread: Thread, frame: Frame, barrier: Any) -> None:
    """The barrier gets one arrival when all products begun so far have ended."""
    knows = dict(thread.knows)
    knows["product", thread.number] = thread.issued.get("product", 0)
    found = run.barrier(frame, barrier)
    found.arrivers.add(thread.number)
    found.arrive(knows)


@handles("tcgen05_mma")
def _mma(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    params = step.eqn.params
    if params.get("collective_axis") is not None:
        raise NotFollowed("a product of two blocks")
    acc, left, right, _, *rest = step.eqn.invars
    at = rest.pop(0) if params["arrive"] else None
    scales = [rest.pop(0) for _ in range(2)] if params["scaled"] else [None, None]
    sparse = rest.pop(0) if params["sparse"] else None
    names = ("acc", "a", "b", "barrier", "a_scale", "b_scale", "a_sparse_metadata")
    trees = [params[f"{name}_transforms_tree"] for name in names]
    parts = _split(rest, *trees)
    stamp = thread.begin("product")
    refs = dict(zip(names, (acc, left, right, at, *scales, sparse), strict=True))
    for k, (name, ref) in enumerate(refs.items()):
        if ref is not None and name not in ("acc", "barrier"):
            run.uses(
                thread, step, frame, operand(step, name, ref, trees[k], parts[k]), "product", stamp, writes=False
            )
    run.uses(thread, step, frame, operand(step, "acc", acc, trees[0], parts[0]), "product", stamp, writes=True)
    if at is not None:
        _commit_products(run, thread, frame, operand(step, "barrier", at, trees[3], parts[3]))
    return ()


@handles("tcgen05_commit_arrive")
def _commit_arrive(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    if step.eqn.params.get("collective_axis") is not None:
        raise NotFollowed("a product of two blocks")
    ref, *leaves = step.eqn.invars
    tree = step.eqn.params["barrier_transforms_tree"]
    _commit_products(run, thread, frame, operand(step, "barrier", ref, tree, leaves))
    return ()


@handles("async_load")
def _load(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    """The value may be used at once; the memory may not be overwritten before the wait."""
    ref, *leaves = step.eqn.invars
    given = operand(step, "ref", ref, step.eqn.params["tree"], leaves)
    run.uses(thread, step, frame, given, "tensor load", thread.begin("tensor load"), writes=False)
    return [None] * len(step.eqn.outvars)


@handles("wait_load_tmem")
def _wait_load(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    thread.await_all_but("tensor load", 0)
    return ()


@handles("async_store_tmem")
def _store(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    ref, _, *leaves = step.eqn.invars
    given = operand(step, "ref", ref, step.eqn.params["tree"], leaves)
    run.uses(thread, step, frame, given, "tensor store", thread.begin("tensor store"), writes=True)
    return ()


@handles("commit_tmem")
def _commit(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    thread.await_all_but("tensor store", 0)
    return ()


@handles("async_copy_smem_to_tmem", "async_copy_scales_to_tmem", "async_copy_sparse_metadata_to_tmem")
def _copy(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    """In order with the products of the same thread, and awaited with them."""
    params = step.eqn.params
    if params.get("collective_axis") is not None:
        raise NotFollowed("a copy of two blocks")
    source, target, *leaves = step.eqn.invars
    trees = params["smem_tree"], params["tmem_tree"]
    parts = _split(leaves, *trees)
    stamp = thread.begin("product")
    run.uses(thread, step, frame, operand(step, "source", source, trees[0], parts[0]), "product", stamp, writes=False)
    run.uses(thread, step, frame, operand(step, "target", target, trees[1], parts[1]), "product", stamp, writes=True)
    return ()
