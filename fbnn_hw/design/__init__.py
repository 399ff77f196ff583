"""A design: planned, written into a folder, found and opened again."""

from .find import EXAMPLE, OUT, holding, link_speeds, newest
from .folder import Design
from .generate import generate, plan, write
from .options import INPUTS, LEARNERS, WRAPPERS, Options
from .review import review_exemplars

__all__ = ["EXAMPLE", "INPUTS", "LEARNERS", "OUT", "WRAPPERS", "Design", "Options", "generate", "holding", "link_speeds", "newest", "plan",
           "review_exemplars", "write"]
