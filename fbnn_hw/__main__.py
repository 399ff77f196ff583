"""`python -m fbnn_hw`, where the command is not on PATH."""

import sys

from .cli import main

sys.exit(main())
