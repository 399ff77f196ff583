"""All components that are tested one by one."""

from engine import ENGINE
from leaves import LEAVES

COMPONENTS = {**LEAVES, **ENGINE}
