"""What GPU kernels ask of their machine: memory, units, copy engines."""
