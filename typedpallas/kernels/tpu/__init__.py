"""Typed kernels for TPUs: bodies in `typedpallas.tpu`'s spaces, with the masks, tables and copies that need them.

| kernel | v2, v3 | v4 | v5e, v5p, v6e, 7x |
|---|---|---|---|
| `matmul.matmul` | float32 | and bfloat16 | the same |
| `matmul.scaled_matmul` | no: products of float32 alone | no: of float32 and bfloat16 | int8 and fp8 |
| `attention.flash_attention`, its gradients | float32 | and bfloat16 | the same |
| `paged_attention.paged_attention` | float32, by the grid | and bfloat16, by own copies | the same |
| `ragged_paged_attention.ragged_paged_attention` | float32, by the grid | and bfloat16, by own copies | the same |
| `grouped_matmul.grouped_matmul`, its gradients | float32 | and bfloat16 | the same |
| `ring.all_gather`, `ring.all_gather_matmul` | no: no copies to other devices | float32, bfloat16 | the same |

By the grid: pages are blocks, one a step, whose index a table says. TPU v2 and v3 refuse a kernel's own copies that
start at what a table says ("expected a start that is a constant", and the compiler agrees).

Softmax and norms need nothing of their own: `typedpallas.kernels.softmax` and the others are taken by every chip.
float8_e4m3b11fnuz is gone from 7x. Asked of libtpu 0.0.48.1; the tests ask again.
"""
