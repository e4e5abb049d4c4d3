"""JAX's own refusals, read back as events."""
