"""Moved to `typedpallas.compilers` (the name `compile` belongs to the public function)."""
