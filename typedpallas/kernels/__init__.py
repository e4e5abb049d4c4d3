"""Kernels that people use, each one typed source for every backend."""

from typedpallas.kernels.flash_attention import flash_attention as flash_attention
from typedpallas.kernels.matmul import grouped_matmul as grouped_matmul
from typedpallas.kernels.matmul import matmul as matmul
from typedpallas.kernels.multihead import multihead_attention as multihead_attention
from typedpallas.kernels.paged import paged_attention as paged_attention
from typedpallas.kernels.rows import layer_norm as layer_norm
from typedpallas.kernels.rows import rms_norm as rms_norm
from typedpallas.kernels.rows import softmax as softmax
from typedpallas.kernels.scaled_relu import scaled_relu as scaled_relu
