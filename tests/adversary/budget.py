"""How long hostile input is tried, and from which seed."""

import os
import time

BUDGET = os.environ.get("FBNN_ADVERSARY", "15" if os.environ.get("FBNN_SLOW") else "5")
LONG = BUDGET == "long"
SECONDS = 3600 if LONG else float(BUDGET)
SEED = int(os.environ.get("FBNN_ADVERSARY_SEED", time.time_ns() % 10 ** 9 if LONG else 0))
