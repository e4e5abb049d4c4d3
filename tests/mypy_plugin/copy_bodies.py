"""Kernels of copies drawn at random: starts, waits and uses of two buffers, in branches, loops and functions."""

from random import Random

HEAD = """from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from typedpallas import In, Out, Scratch, f32
from typedpallas.tpu import DMA, HBM, VMEM

type X = In[HBM, f32, L[16], L[128]]
type R = Out[VMEM, f32, L[16], L[128]]
type B = Scratch[VMEM, f32, L[2], L[8], L[128]]
type D = Scratch[DMA, L[2]]

OUT = jax.ShapeDtypeStruct((16, 128), jnp.float32)
FAR = [pl.BlockSpec(memory_space=pltpu.HBM)]
ALL = pl.BlockSpec((16, 128), lambda i: (0, 0))
TWO = [pltpu.VMEM((2, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA((2,))]
"""
_KERNEL = """
def {name}(x: X, o: R, b: B, s: D) -> None:
    i = pl.program_id(0)
    b[...] = jnp.zeros_like(b)
    o[...] = jnp.zeros_like(o)
    c0 = pltpu.make_async_copy(x.at[pl.ds(0, 8)], b.at[0], s.at[0])
    c1 = pltpu.make_async_copy(x.at[pl.ds(8, 8)], b.at[1], s.at[{second}])

    def make(k):
        return pltpu.make_async_copy(x.at[pl.ds(8 * k, 8)], b.at[k], s.at[{slot}])

    def begin(k):
        pltpu.make_async_copy(x.at[pl.ds(8 * k, 8)], b.at[k], s.at[{slot}]).start()

    def use(k):
        o[8 * k : 8 * k + 8] = b[k]

{body}


def run_{name}(x: Any) -> Any:
    return pl.pallas_call({name}, OUT, grid=({steps},), in_specs=FAR, out_specs=ALL, scratch_shapes=TWO)(x)
"""
_ACTS = {
    "start": ("c{k}.start()", "make({k}).start()", "begin({k})"),
    "wait": ("c{k}.wait()", "make({k}).wait()"),
    "use": ("use({k})", "o[{first}:{last}] = b[{k}]"),
    "store": ("b[{k}] = jnp.ones_like(b[{other}])",),
}
_TESTS = ("i == 0", "i != 0", "i > 0", "i + 1 < pl.num_programs(0)", "i < 5")
_DEEPEST = 2


def module(seed: int, count: int) -> str:
    """The source of ``count`` kernels ``k0``, ``k1``, ... and their runners ``run_k0``, ..."""
    random = Random(seed)
    return HEAD + "".join(_kernel(random, f"k{number}") for number in range(count))


def _kernel(random: Random, name: str) -> str:
    shared = random.random() < 0.3
    second, slot = ("0", "0") if shared else ("1", "k")
    body = "\n".join(_block(random, 0, "    "))
    return _KERNEL.format(name=name, second=second, slot=slot, body=body, steps=random.choice((1, 2, 3)))


def _block(random: Random, depth: int, indent: str) -> list[str]:
    lines = []
    for act, k in _acts(random):
        text = random.choice(_ACTS[act]).format(k=k, other=1 - k, first=8 * k, last=8 * k + 8)
        lines += _placed(random, text, depth, indent)
    return lines or [f"{indent}pass"]


def _acts(random: Random) -> list[tuple[str, int]]:
    """Start, wait and use of one buffer or both, with a mistake now and then, one after the other or in turns."""
    orders = []
    for k in random.choice(([0], [1], [0, 1])):
        acts = ["start", "wait", "use"]
        if random.random() < 0.25:
            acts.pop(random.randrange(3))
        if random.random() < 0.2:
            acts.insert(random.randrange(len(acts) + 1), random.choice(("start", "wait", "use", "store")))
        if random.random() < 0.2:
            random.shuffle(acts)
        orders.append([(act, k) for act in acts])
    if random.random() < 0.5:
        return [act for order in orders for act in order]
    longest = max(map(len, orders))
    return [order[at] for at in range(longest) for order in orders if at < len(order)]


def _placed(random: Random, text: str, depth: int, indent: str) -> list[str]:
    chance = random.random()
    if chance < 0.72 or depth >= _DEEPEST:
        return [indent + text]
    if chance < 0.84:
        head = [f"@pl.when({random.choice(_TESTS)})", "def _():"]
    elif chance < 0.9:
        head = [f"for _turn in range({random.choice((1, 2))}):"]
    else:
        head = [f"@pl.loop(0, {random.choice((1, 2))})", "def _(turn):"]
        return [indent + line for line in head] + _block(random, depth + 1, indent + "    ")
    return [indent + line for line in (*head, f"    {text}")]
