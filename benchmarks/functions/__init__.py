"""Every public function of `jax.numpy`, `jax.lax` and `jax.nn`: whether mypy knows what it gives for typed arrays."""
