"""Every file that a verb reads, in turn a pipe without a writer, a device without an end, a folder, an empty file, eight gigabytes of
zeros, a link to itself, or JSON without an end: one line, or no difference, and soon."""

import os

import pytest

from tests.quick import quick

from . import budget, mutators, runner
from .states import TRAIN

RECORD = "d/build-icebreaker/build.json"
PLACES = {
    "inspect": ("inspect x", "x"),
    "classify": ("classify x --model {tiny}", "x"),
    "evaluate": ("evaluate --model x --data fixture --images 1", "x"),
    "resume": (f"{' '.join(TRAIN)} --resume", "t.state"),
    "init": (f"{' '.join(TRAIN)} --init i.pt", "i.state"),
    "teacher": (f"{' '.join(TRAIN)} --teacher x.state", "x.state"),
    "sweep": ("sweep runs --over seed 0 --dry-run -- train --model 0.5mb --data tiny", "runs/seed0.result.json"),
    "reproduce": ("reproduce encoding --scenario tiny-2+2x2 --dry-run", "results/x.json"),
    "cil": ("cil --scenario tiny-2+2x2 --init x --replay latent --resume --out c.json", "c.state"),
    "chip-cil": ("chip-cil --scenario tiny-2+2x2 --model x", "x"),
    "report": ("report d", RECORD),
    "flash a design": ("flash d --board icebreaker --dry-run", "d/estimate.json"),
    "flash": ("flash d --board icebreaker --dry-run", RECORD),
    "build": ("build d --board icebreaker", "d/manifest.json"),
    "learn": ("learn --board virtual --design d --restore x", "x"),
    "simulate": ("simulate d --images 1", "d/sim_build"),
    "data": ("evaluate --model {tiny} --data cifar10 --data-dir data --images 1", "data/cifar-10-python.tar.gz"),
}


@pytest.mark.parametrize("name", quick(PLACES, "inspect", "resume", "build", "learn"))
def test_a_file_that_is_none(name, world, forge, tmp_path):
    words, place = PLACES[name]
    obstacles = (*mutators.OBSTACLES, mutators.deep)
    for number, obstacle in enumerate(obstacles if name != "simulate" or budget.LONG else obstacles[:3]):  # it compiles behind each
        folder = tmp_path / str(number)
        (folder / place).parent.mkdir(parents=True)
        if "d/" in place or " d " in f"{words} ":
            for file in world.learner.folder.iterdir():
                if file.is_file() and not (folder / "d" / file.name).exists():
                    (folder / "d").mkdir(exist_ok=True)
                    os.link(file, folder / "d" / file.name)
        if name == "init":
            os.link(world.training / "t.pt", folder / "i.pt")
        (folder / place).unlink(missing_ok=True)
        obstacle(folder / place)
        case = runner.Case(words.format(tiny=world.tiny).split(), folder, may_write=True, path="")
        before = runner.inventory(folder)
        outcome = forge.run(case)
        assert not (fault := runner.judge(case, outcome, before)), f"{obstacle.__name__}: {fault}\n{outcome}"
