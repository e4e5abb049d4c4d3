"""Index maps and scalars over a kernel's grid."""
