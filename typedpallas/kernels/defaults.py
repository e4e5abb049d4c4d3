"""Block sizes that fit the backend at hand. Elements.

Blocks divide their dim where a legal one does. TPU blocks are multiples of 128 lanes and of 16 sublanes, or
whole dims; GPU blocks are powers of two.
"""

from typedpallas.launching.choose import choices


def elementwise(rows: int, columns: int) -> tuple[int, int]:
    """Blocks of an elementwise kernel."""
    if _backend() == "mosaic_tpu":
        return _block(rows, 512, 16), _block(columns, 1024, 128)
    return _power(rows, 64), _power(columns, 128)


def matmul(m: int, k: int, n: int, itemsize: int) -> tuple[int, int, int]:
    """Blocks of an (m, k) x (k, n) product: ``BM``, ``BK``, ``BN``. ``itemsize`` in bytes."""
    if _backend() == "mosaic_tpu":
        return _block(m, 512, 16), _divisor(k, 512, 128), _block(n, 512, 128)
    return _power(m, 128, least=64), _power(k, 128 // itemsize), _power(n, 128)


def attention(queries: int, keys: int, itemsize: int) -> tuple[int, int]:
    """Blocks of attention: queries, keys. ``itemsize`` in bytes: wide elements take more of shared memory."""
    choice = choices(None, None)[0]
    if choice.backend == "mosaic_tpu":
        return _block(queries, 256, 16), _divisor(keys, 512, 128)
    blackwell = choice.capability is not None and choice.capability >= (10, 0)
    return _power(queries, 128 if blackwell else 64, least=64), _power(keys, 64 if itemsize <= 2 else 16)


def rows(count: int, columns: int, itemsize: int) -> int:
    """Whole rows of one block: ``BR``. ``itemsize`` in bytes."""
    if _backend() == "mosaic_tpu":
        return min(max(16, 2**19 // (columns * itemsize) // 16 * 16), -(-count // 16) * 16) if count > 16 else count
    return 1


def _backend() -> str:
    return choices(None, None)[0].backend


def _divisor(extent: int, most: int, unit: int) -> int:
    """The largest multiple of ``unit`` up to ``most`` that divides ``extent``; all of it if there is none."""
    return next((size for size in range(most, 0, -unit) if extent % size == 0), extent)


def _block(extent: int, most: int, unit: int) -> int:
    """As `_divisor`, but where no multiple divides a large extent, ``most`` with a partial last block."""
    divisor = _divisor(extent, most, unit)
    return divisor if divisor <= most else most


def _power(extent: int, most: int, least: int = 1) -> int:
    """The largest power of two from ``least`` to ``most`` that divides ``extent``; ``least`` if none does."""
    size = most
    while size > least and extent % size:
        size //= 2
    return size
