"""Right kernels, each broken in one way at a time: who notices, and when."""
