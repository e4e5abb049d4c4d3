"""What a kernel does to its memory over its grid: what is initialised, copied, awaited and padded."""
