"""What copies, barriers, products and plain accesses of Mosaic GPU do."""

from collections.abc import Generator, Sequence
from typing import Any

from typedpallas.tracing import jaxapi
from typedpallas.tracing.warpgroups import numbers
from typedpallas.tracing.warpgroups import refs as async_refs
from typedpallas.tracing.warpgroups.numbers import Frame
from typedpallas.tracing.warpgroups.plan import Step, operand
from typedpallas.tracing.warpgroups.run import Results, Run, handles, waits
from typedpallas.tracing.warpgroups.state import Barrier, Buffer, NotFollowed, Stamp, Thread


def _split(leaves: Sequence[Any], *trees: Any) -> list[Sequence[Any]]:
    """The leaves of each tree, and then the rest."""
    found: list[Sequence[Any]] = []
    for tree in trees:
        count = 0 if tree is None else tree.num_leaves
        found.append(leaves[:count])
        leaves = leaves[count:]
    return [*found, leaves]


def _predicate(step: Step, frame: Frame) -> int | None:
    """Whether an operation is performed: 1 if so, 0 if not, none if that depends on data."""
    if not step.eqn.params.get("has_user_predicate"):
        return 1
    found = numbers.read(frame, step.eqn.invars[-1])
    return None if found is None else int(found)


@handles("copy_gmem_to_smem")
def _copy_in(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    params = step.eqn.params
    performed = _predicate(step, frame)
    if performed != 1 or params.get("leader_tracked") is not None:
        raise NotFollowed("a copy that may not happen, or that several blocks share")
    _, target, *rest = step.eqn.invars
    at = rest.pop(0) if params["has_barrier"] else None
    trees = params["src_transforms_treedef"], params["dst_transforms_treedef"], params["barrier_transforms_treedef"]
    _, into, on, _ = _split(rest, *trees)
    to = operand(step, "target", target, trees[1], into)
    if at is None:
        run.uses(thread, step, frame, to, "copy to", thread.begin("copy in"), writes=True)
        return ()
    barrier = run.barrier(frame, operand(step, "barrier", at, trees[2], on))
    stamp: Stamp = ("barrier", *barrier.number), barrier.completed + 1
    run.uses(thread, step, frame, to, "copy to", stamp, writes=True, barrier=barrier)
    barrier.copies = True
    _arrive(barrier, thread)
    return ()


@handles("wait_gmem_to_smem")
def _wait_in(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    thread.await_all_but("copy in", step.eqn.params["n"])
    return ()


@handles("copy_smem_to_gmem")
def _copy_out(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    params = step.eqn.params
    source, _, *rest = step.eqn.invars
    of, _, _ = _split(rest, params["src_transforms_treedef"], params["dst_transforms_treedef"])
    if _predicate(step, frame) == 1:
        stamp: Stamp = ("copy out", thread.number), thread.committed + 1
        given = operand(step, "source", source, params["src_transforms_treedef"], of)
        run.uses(thread, step, frame, given, "copy from", stamp, writes=False)
    if params["commit_group"]:
        thread.committed += 1
    return ()


@handles("commit_group")
def _commit_group(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    for each in (thread, *thread.warps):
        each.committed += 1
    return ()


@handles("wait_smem_to_gmem")
def _wait_out(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    """Each of a warpgroup's threads waits for its own copies, those of its warps too."""
    for each in (thread, *thread.warps):
        thread.learn({("copy out", each.number): each.committed - step.eqn.params["n"]})
        each.drained = each.committed
    return ()


@handles("commit_smem")
def _commit(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    thread.commit()
    return ()


def _arrive(barrier: Barrier, thread: Thread) -> None:
    barrier.arrivers.add(thread.number)
    barrier.arrive(thread.knows)


@handles("barrier_arrive")
def _barrier_arrive(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    performed = _predicate(step, frame)
    if performed is None:
        raise NotFollowed("an arrival that depends on data")
    ref, *leaves = step.eqn.invars
    tree = step.eqn.params["transforms_treedef"]
    barrier = run.barrier(frame, operand(step, "barrier", ref, tree, leaves[: tree.num_leaves]))
    if performed:
        _arrive(barrier, thread)
    return ()


@waits("barrier_wait", "barrier_arrive_and_wait")
def _barrier_wait(run: Run, thread: Thread, step: Step, frame: Frame) -> Generator[None, None, Results]:
    ref, *leaves = step.eqn.invars
    barrier = run.barrier(frame, operand(step, "barrier", ref, step.eqn.params["transforms_treedef"], leaves))
    if step.name == "barrier_arrive_and_wait":
        _arrive(barrier, thread)
    seen = thread.waits.get(barrier.number, 0)
    if any(warp.waits.get(barrier.number, 0) != seen for warp in thread.warps):
        raise NotFollowed("warps that waited for different phases")
    barrier.waiters[thread.number] = seen
    thread.blocked = barrier, step.eqn
    while barrier.completed <= seen:
        yield
    thread.blocked = None
    run.budget -= 1
    for each in (thread, *thread.warps):
        each.waits[barrier.number] = seen + 1
    barrier.waiters[thread.number] = seen + 1
    thread.learn(barrier.phases[seen])
    return ()


@handles("wgmma_ref")
def _wgmma(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    params = step.eqn.params
    acc, left, right, *leaves = step.eqn.invars
    trees = [params[f"{name}_transforms_tree"] for name in ("acc", "a", "b")]
    parts = _split(leaves, *trees)
    stamp = thread.begin("product")
    for name, ref, tree, own in zip(("left", "right"), (left, right), trees[1:], parts[1:], strict=False):
        if jaxapi.is_ref(ref.aval):
            run.uses(thread, step, frame, operand(step, name, ref, tree, own), "product", stamp, writes=False)
    run.uses(thread, step, frame, operand(step, "acc", acc, trees[0], parts[0]), "product", stamp, writes=True)
    return ()


@handles("wgmma_wait")
def _wgmma_wait(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    thread.await_all_but("product", step.eqn.params["n"])
    return ()


@handles("wgmma_accumulator_deref")
def _deref(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    if (left := step.eqn.params["wait_n"]) is not None:
        thread.await_all_but("product", left)
    acc = operand(step, "acc", step.eqn.invars[0], None, ())
    run.uses(thread, step, frame, acc, "load", thread.step(), writes=False)
    return (None,)


@handles("wgmma_accumulator_store")
def _acc_store(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    acc = operand(step, "acc", step.eqn.invars[0], None, ())
    run.uses(thread, step, frame, acc, "store", thread.step(), writes=True)
    return (None,)


@handles("get", "swap", "addupdate", "load", "store", "masked_load", "masked_swap")
def _access(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    eqn, params = step.eqn, step.eqn.params
    stored = step.name in ("swap", "store", "addupdate", "masked_swap")
    if "args_tree" in params:
        ref, transforms, *_ = params["args_tree"].unflatten(eqn.invars)
        given = step.views.get("ref") or operand(step, "ref", ref, _Tree(transforms), ())
    else:
        first = 2 if stored else 1
        given = operand(step, "ref", eqn.invars[0], params["tree"], eqn.invars[first:])
    buffer = numbers.read(frame, given[0])
    if not isinstance(buffer, Buffer):
        return ()
    if buffer.kind not in ("elsewhere", "barrier"):
        run.uses(thread, step, frame, given, "store" if stored else "load", thread.step(), writes=stored)
    held = buffer.value
    if buffer.contents is not None and not stored:
        element = given[1].element(frame, buffer.shape)
        held = None if element is None else int(buffer.contents.flat[element])
    if stored:
        buffer.contents = None
        buffer.value = numbers.read(frame, eqn.invars[1]) if step.name == "swap" and buffer.shape == () else None
    return [held] if eqn.outvars else ()


class _Tree:
    """Transforms that are unflattened already."""

    def __init__(self, transforms: Any) -> None:
        self._transforms = transforms

    def unflatten(self, leaves: Any) -> Any:
        """The transforms."""
        return self._transforms


@handles("semaphore_signal", "semaphore_signal_parallel", "semaphore_signal_multicast")
def _signal(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    for count, value in thread.knows.items():
        run.semaphores[count] = max(value, run.semaphores.get(count, 0))
    return ()


@handles("semaphore_wait")
def _semaphore_wait(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    thread.learn(run.semaphores)
    return ()


@handles("inline_mgpu")
def _inline(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    """JAX's own fences synchronise with nothing, nor does what makes values of values."""
    makes_values = step.eqn.outvars and not any(jaxapi.is_ref(atom.aval) for atom in step.eqn.invars)
    if not makes_values and not async_refs.is_fence(step.eqn):
        raise NotFollowed("code of another language")
    return ()


@handles("try_cluster_cancel")
def _claim_tile(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    params = step.eqn.params
    _, ref, *leaves = step.eqn.invars
    trees = params["result_transforms_tree"], params["barrier_transforms_tree"]
    _, on, _ = _split(leaves, *trees)
    _arrive(run.barrier(frame, operand(step, "barrier", ref, trees[1], on)), thread)
    return ()


@handles("query_cluster_cancel")
def _no_more_tiles(run: Run, thread: Thread, step: Step, frame: Frame) -> Results:
    """There may always be no more work."""
    return [*[None] * (len(step.eqn.outvars) - 1), 0]
