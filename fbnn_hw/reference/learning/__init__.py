"""On-chip learning in integers: the definition that RTL is compared with.

    from fbnn_hw.reference.learning import Head, LearnConfig, Learner

    learner = Learner(Head(latent=64), LearnConfig(max_classes=4, slots=20))
    learner.learn(latents, labels)                   # uint8 bits (N, 64); each label is known, or the next new one
    classes = learner.classify(latents)              # int64 (N,)
    state = learner.snapshot()                       # bytes: every counter, exemplar and register
"""

from .config import PICKS, Head, LearnConfig
from .learner import Learner
from .rules import RULES, gumbel_table

__all__ = ["Head", "LearnConfig", "Learner", "PICKS", "RULES", "gumbel_table"]
