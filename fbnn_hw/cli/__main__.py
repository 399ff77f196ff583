"""`python -m fbnn_hw.cli`, where the command is not on PATH."""

import sys

from . import main

sys.exit(main())
