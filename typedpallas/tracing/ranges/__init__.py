"""Integer scalars and indices of a kernel's body as terms, with bounds and congruences."""
