"""``python -m typedpallas``: the command line."""

import sys

from typedpallas.cli import main

sys.exit(main())
