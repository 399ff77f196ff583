"""On-chip learning in integers: the definition that RTL is compared with."""

from .config import PICKS, Head, LearnConfig
from .learner import Learner
from .rules import RULES, gumbel_table

__all__ = ["Head", "LearnConfig", "Learner", "PICKS", "RULES", "gumbel_table"]
