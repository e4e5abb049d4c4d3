"""Generated kernels: what the checker says, what the vendor's compiler says, what really happens."""
