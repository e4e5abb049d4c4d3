"""Kernels that people use, each one typed source for every backend."""

from typedpallas.kernels.flash_attention import flash_attention as flash_attention
from typedpallas.kernels.matmul import matmul as matmul
from typedpallas.kernels.scaled_relu import scaled_relu as scaled_relu
