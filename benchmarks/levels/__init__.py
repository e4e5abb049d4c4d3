"""Level 1 against level 2: generated kernels, annotated, type-checked and traced."""
