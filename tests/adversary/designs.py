"""Folders of designs with hostile files in them, most under right hashes, met by the verbs that open such a folder.

The compiler is taken out of their reach: a design that passes for whole would have its own Verilog and Python run, which nothing
forbids it (docs/reliability.md).
"""

import json
import shutil
from hashlib import sha256

from . import mutators
from .runner import Case

FILES = ("manifest.json", "config.json", "layout.json", "estimate.json", "network.json")
VERBS = (("report", "d"), ("simulate", "d"), ("simulate", "d", "--netlist"), ("flash", "d", "--board", "icebreaker", "--dry-run"),
         ("classify", "--design", "d", "--board", "virtual", "--data", "fixture"), ("report", "d", "--json"),
         ("learn", "--design", "d", "--board", "virtual", "--freeze"), ("learn", "--design", "d", "--board", "virtual", "--undo"),
         ("classify", "--design", "d", "--board", "interpreted", "--data", "fixture", "--images", "1"),
         ("learn", "--design", "d", "--board", "interpreted", "--freeze"),
         ("selftest", "--design", "d", "--board", "virtual", "--images", "1"), ("simulate", "d", "--waves", "conv1"))
RECORD = {"board": "icebreaker", "target": "ice40", "clock_mhz": 12.0, "achieved_mhz": 20.0, "seed": 1, "passes": True}


def case(rng, world, folder):
    design = folder / "d"
    shutil.copytree(mutators.some(rng, world.designs), design, ignore=shutil.ignore_patterns("sim_build*", ".*", "learned*"))
    name = mutators.some(rng, FILES)
    if rng.random() < 0.15:
        name = mutators.some(rng, sorted(path.name for path in design.iterdir()))
    path, kind = design / name, rng.random()
    if kind < 0.12:
        mutators.obstacle(rng, path)
    elif kind < 0.2:
        build = design / "build-icebreaker"
        build.mkdir()
        if rng.random() < 0.2:
            mutators.obstacle(rng, build / "build.json")
        else:
            (build / "build.json").write_bytes(mutators.text(rng, dict(RECORD)))
    elif kind < 0.3 or path.suffix != ".json":
        path.write_bytes(mutators.data(rng, path.read_bytes()))
    else:
        path.write_bytes(mutators.text(rng, json.loads(path.read_text())))
    if name != "manifest.json" and rng.random() < 0.85 and path.is_file() and path.stat().st_size < 2 ** 27:
        manifest = json.loads((design / "manifest.json").read_text())
        manifest["files"][name] = digest = sha256(path.read_bytes()).hexdigest()
        if name == "network.json":
            manifest["ir_sha256"] = digest
        (design / "manifest.json").write_text(json.dumps(manifest))
    verb = VERBS[0] if rng.random() < 0.5 else mutators.some(rng, VERBS)
    return Case(list(verb), folder, may_write=True, path=str(folder / "nothing"))
