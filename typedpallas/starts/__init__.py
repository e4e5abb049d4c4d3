"""Integer scalars of a kernel's body: terms over what is not fixed, their bounds, and what a compiler proves of them.

Both front ends make them: the trace from a jaxpr, the plugin from the source with numbers for the kernel's dims.
"""
