"""The memory that a kernel takes, in bytes at least and at most."""
