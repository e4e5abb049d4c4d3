"""The public names, as every type checker sees them."""

from typedpallas._public import *

__version__: str
