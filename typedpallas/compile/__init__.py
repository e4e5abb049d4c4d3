"""Level 3: the vendors' own compilers, asked without the vendors' hardware."""
