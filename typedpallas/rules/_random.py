"""Forms of operations that Mosaic TPU's lowering names and still refuses: random bits, mostly.

Asked of libtpu 0.0.48 for v2, v5e and 7x, through JAX 0.11.2: threefry keys are taken in every shape, on every chip.
"""

from typedpallas.events import Applied

_BITS = 32
_MATRIX = 2


def refused(event: Applied) -> tuple[str, str, str] | None:
    """What is expected of the operation, what was found, and what to write instead; none where nothing is wrong."""
    name, kinds = event.primitive, {operand.dtype for operand in event.operands}
    if name in ("random_bits", "random_fold_in") and kinds & {"key<rbg>", "key<urbg>"}:
        wanted = "a threefry key, or one of the chip's own generator"
        return wanted, "key<rbg>", "make the key with `impl='threefry2x32'`, or use `pltpu.to_pallas_key(key)`"
    if name == "random_bits" and event.parameters.get("bit_width", _BITS) != _BITS:
        width = event.parameters["bit_width"]
        return "32 random bits at a time", f"{width} bits", "draw `jnp.uint32` or `jnp.float32` and convert them"
    if name == "prng_random_bits" or (name == "random_bits" and "key<pl>" in kinds):
        rank = len(event.results[0].shape) if event.results else _MATRIX
        if rank < _MATRIX:
            return "random bits of at least two dims", f"{rank} dims", "draw more, as `(8, 128)`, and take a part"
    if name == "reshape" and [operand.shape for operand in (*event.operands, *event.results)] == [(), ()]:
        made = "draw an array, as `(1, 1)`, where it comes from `jax.random`; else leave the reshape out"
        return "a reshape to some dim", "() -> ()", made
    return None
