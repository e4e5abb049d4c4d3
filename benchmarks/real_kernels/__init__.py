"""Kernels that nobody here wrote: what the checker says of them beside what the vendor's compiler says."""
