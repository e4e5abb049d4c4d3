"""Launches and portable operations with arguments of the wrong kind."""

import jax

import typedpallas as tp
from typedpallas import Dim, In, Out, f32, tpu


def kernel[M: Dim](x: In[tpu.VMEM, f32, M], o: Out[tpu.VMEM, f32, M]) -> None: ...
def far[M: Dim, N: Dim](x: In[tpu.HBM, f32, M, N], o: Out[tpu.VMEM, f32, M, N]) -> None:
    tp.mma(o, x, x)  # refused
    tp.mma(o, o[...], x)  # refused
    o[...] = tp.dot(o, x)  # refused
    o[...] = tp.load_rows(x)  # refused
    o[...] = tp.grid_index(0)  # refused


def vectors[M: Dim](x: In[tpu.VMEM, f32, M], o: Out[tpu.VMEM, f32, M]) -> None:
    tp.mma(o, x, x)  # refused


launch = tp.launch(kernel, "(i M) -> (i M)", grid=["i"])  # refused
tp.launch(3, "(i M) -> (i M)", grid="i")  # refused
tp.launch(kernel, 3)  # refused
launch(jax.numpy.ones(3), M="8")  # refused
launch.bind(M=8.5)  # refused
tp.check(launch, target=3)  # refused
tp.compile(launch)  # refused
report = launch.check()
print(report.failed)  # refused
tp.spec("M", index=3)  # refused
