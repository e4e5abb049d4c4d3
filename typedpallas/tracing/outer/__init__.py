"""What surrounds a kernel in its program: arrays, tables, scopes."""
