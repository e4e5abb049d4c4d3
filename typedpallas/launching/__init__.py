"""`tp.launch`: a typed kernel and a pattern become Pallas calls, one body for every backend."""

from typedpallas.launching.drop_in import pallas_call as pallas_call
from typedpallas.launching.errors import LaunchError as LaunchError
from typedpallas.launching.errors import Unsupported as Unsupported
from typedpallas.launching.launch import Launch as Launch
from typedpallas.launching.launch import launch as launch
from typedpallas.launching.signature import Spec as Spec
from typedpallas.launching.signature import spec as spec
from typedpallas.launching.tuning import Tuning as Tuning
