"""The components that go to Verilator: each costs time of the C++ compiler, so of similar ones some are left out."""

from sim.engine import ENGINE
from sim.leaves import LEAVES

OMITTED = ("drain_4x4x4", "mover_stream", "mover_resident", "mover_all late", "mover_beats", "sequencer_one", "sequencer_memory")
COMPONENTS = {name: entry for name, entry in {**LEAVES, **ENGINE}.items() if name not in OMITTED}
