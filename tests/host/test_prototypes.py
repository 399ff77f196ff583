"""A design that begins with no class and keeps the sums of each (docs/on-chip-learning.md), on a virtual board and simulated."""

import random

import numpy as np
import pytest

from fbnn_hw import design as designs
from fbnn_hw.base.errors import FitError, InputError, UsageError
from fbnn_hw.board import Board, selftest
from fbnn_hw.cli import main
from fbnn_hw.ir.network import LATENT
from fbnn_hw.ir.ops import Flatten, Gap
from fbnn_hw.link.client import Client
from fbnn_hw.reference import inference
from tests import strategies
from tests.reference.slow_learner import SlowLearner
from tests.rtl.test_accelerator import DEPTHWISE, POOL, conv, dense, topology


@pytest.fixture(scope="module")
def network():
    """With latents that differ, and a hidden layer, which the hardware of prototypes leaves out."""
    layers = conv(16), POOL, DEPTHWISE, dense(32, name=LATENT), dense(16, name="hidden")
    return strategies.on_engine(strategies.fill(topology(8, 2, *layers), 7))


@pytest.fixture(scope="module")
def means(network, tmp_path_factory):
    """Counters of three bits come to their ends in the lessons of this file."""
    return designs.generate(network, "ice40", out=tmp_path_factory.mktemp("means"), learn="means", max_classes=4, outputs=4, counter_bits=3)


@pytest.fixture(scope="module")
def prototypes(network, tmp_path_factory):
    return designs.generate(network, "ice40", out=tmp_path_factory.mktemp("prototypes"), learn="prototypes", max_classes=4, outputs=4)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["prototypes", "means"])
def test_the_board_is_the_reference(rule, request, network, tmp_path, capsys):
    """From no class over three, a snapshot and a reset back to them; bits and state equal everywhere."""
    design, images = request.getfixturevalue(rule), strategies.images(3, 12, 8)
    latents = inference.layers(network, images)[LATENT].reshape(len(images), -1)
    learner = design.learner()
    with Board.virtual(design) as board:
        answer = board.classify(images[:1])
        assert board.names == [] and answer.logits.shape == (1, 0) and answer.classes == [None] and answer.names == [None]
        board.snapshot(tmp_path / "none")
        for label in range(3):
            part = slice(4 * label, 4 * label + 4)
            lesson = board.learn(images[part], f"thing {label}")
            learner.learn(latents[part], [label] * 4)
            assert (lesson.new, lesson.index, lesson.passes, lesson.effects) == (True, label, 1, {})
        assert board.chip.snapshot() == learner.snapshot()
        answer = board.classify(images)
        assert (answer.logits == learner.logits(latents)).all() and answer.classes == learner.classify(latents).tolist()
        board.snapshot(tmp_path / "three")
        board.reset()
        assert board.names == [] and board.chip.snapshot() == design.learner().snapshot()
        board.restore(tmp_path / "three")
        assert board.names == ["thing 0", "thing 1", "thing 2"] and board.chip.snapshot() == learner.snapshot()
        last = int(learner.classify(latents).argmax())
        assert board.classify(images[last:last + 1]).classes > [0]
        board.restore(tmp_path / "none")
        assert board.names == [] and board.classify(images[:1]).classes == [None], "the class of the image before is forgotten"
        board.reset()
        entries = selftest.checks(board, design, 6)
        assert [entry["check"] for entry in entries] == ["latents", "cycles", "lesson", "reset and restore", "link", "time-out"]
        assert all(entry["passed"] for entry in entries), entries
    np.save(tmp_path / "images.npy", images)
    assert main(["classify", str(tmp_path / "images.npy"), "--board", "virtual", "--design", str(design.folder)]) == 3
    assert "knows no class, expected one at least; teach it one with" in capsys.readouterr().err


def test_simulated_bit_for_bit(prototypes, tmp_path, capsys):
    result = prototypes.simulate(strategies.images(4, 2, 8))
    assert result.equal and result.logits.shape == (2, 0) and "hidden" not in result.layers_compared
    assert result.classes == result.class_names == []
    assert result.cycles_first == [prototypes.estimate["first_cycles"]] and result.cycles == [prototypes.estimate["cycles"]]
    np.save(tmp_path / "images.npy", strategies.images(4, 2, 8))
    assert main(["simulate", str(prototypes.folder), "--images", str(tmp_path / "images.npy")]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["images", "cycles", "time", "compared"]


LEARNERS = {"mean": {"learn": "nearest-mean", "unknown": True}, "replay": {"learn": True, "start": "empty", "exemplars": 9}}


@pytest.mark.parametrize("rule, seed", [("mean", 1), ("mean", 2), ("replay", 3)])
def test_a_board_that_begins_empty_forgets_and_says_unknown(rule, seed, network, tmp_path):
    """Lessons, forgetting and undoing, drawn by the seed, of an interpreted board and of an independent learner."""
    design = designs.generate(network, "ice40", out=tmp_path, outputs=4, max_classes=4, forget=True, **LEARNERS[rule])
    plan, source = design.config.learning, random.Random(seed)
    assert plan.shipped == 0 and design.classes == []
    images = strategies.images(seed, 24, 8)
    latents = inference.layers(network, images)[LATENT].reshape(len(images), -1).tolist()
    head = design.learner().head
    slow, names, kinds = SlowLearner(head, design.learner().config, [], []), [], set()
    with Board.interpreted(design) as board:
        assert board.names == []
        for step in range(14):
            living = [n for n, name in enumerate(names) if name is not None]
            if living and source.random() < 0.35:
                label = source.choice(living)
                board.forget(names[label])
                slow.forget(label)
                names = [None if n == label else name for n, name in enumerate(names)][:slow.known]
                forgotten = board.names
                board.undo()
                assert board.names[label] is not None
                board.undo()
                assert board.names == forgotten
                kinds.add("forgotten")
            else:
                free = names.index(None) if None in names else len(names)
                label = source.choice([*living, *[free] * 3]) if free < 4 else source.choice(living)
                new = label == len(names) or names[label] is None
                name = f"thing {step}" if new else names[label]
                shown = [source.randrange(len(images)) for _ in range(4)]
                assert board.learn(images[shown], name, passes=1, rehearse=0).index == label
                for n in shown:
                    slow.learn(latents[n], label)
                names[label:label + 1] = [name]
            assert board.names == names
            answer = board.classify(images)
            assert answer.logits.tolist() == [slow.logits(latent) for latent in latents]
            unknown = [plan.unknown and bool(names) and slow.unknown(latent) for latent in latents]
            assert answer.unknown == unknown
            kinds |= set(unknown)
            assert answer.names == [None if not names or one else names[slow.classify(latent)] for one, latent in zip(unknown, latents)]
        assert board.chip.snapshot() == board.twin.snapshot()
        old = Client(board.client.transport)  # asks as a host of version 0.2.24: the nearest class, and no error
        asked = [old.classify(image.transpose(1, 2, 0).tobytes()).index for image in images]
        assert asked == ([slow.classify(latent) for latent in latents] if names else [None] * len(images))
    assert {"forgotten", False} <= kinds and (True in kinds) == plan.unknown, kinds


def test_what_has_no_meaning_is_refused(network, tmp_path):
    for options, words in (({"learn": "prototype"}, "--learn prototype: expected replay or prototypes or means or nearest-mean; did you"),
                           ({"learn": "prototypes", "exemplars": 5}, "--exemplars 5: expected none with --learn prototypes"),
                           ({"learn": "means", "counter_bits": 2}, "--counter-bits 2: expected at least 3 with --learn means"),
                           ({"learn": "means", "unknown": True}, "--unknown: only with --learn nearest-mean"),
                           ({"learn": "means", "start": "model"}, "--start model: expected empty with --learn means, which begins with"),
                           ({"learn": True, "start": "none"}, "--start none: expected model or empty"),
                           ({"forget": True}, "--exemplars, --counter-bits, --forget, --keep, --start: only with --learn")):
        with pytest.raises(UsageError, match=words):
            designs.generate(network, "ice40", out=tmp_path, **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rule", [True, "prototypes", "means"])
def test_an_extractor_that_cannot_learn_is_refused(rule, tmp_path):
    latent = {"name": LATENT}
    a_map = topology(8, 2, POOL, POOL, conv(16, **latent), (Flatten, {}))
    no_weights = topology(8, 2, POOL, (Gap, latent))
    for unfit, words in ((a_map, "layer latent: is a map of 2x2, expected a vector for --learn"),
                         (no_weights, "--learn: no layer up to latent has weights, and a design of ice40 that learns streams some; use")):
        if unfit is a_map and rule is True:
            words = "its classifier is not one that learns on the chip"
        with pytest.raises((FitError, InputError), match=words):
            designs.generate(strategies.fill(unfit, 1), "ice40", out=tmp_path, learn=rule)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rule", ["nearest-mean", "prototypes", "means"])
def test_a_lesson_says_first_which_class_is_close(rule, network, tmp_path):
    """Two names for the same pictures are close, pictures of their own are not; said before the board has learned any of them."""
    design = designs.generate(network, "ice40", out=tmp_path, outputs=4, max_classes=4, learn=rule)
    source = np.random.default_rng(11)
    bases = source.integers(0, 256, (3, 1, 3, 8, 8))
    cup, mug, key = np.clip(bases[[0, 0, 1]] + source.integers(-9, 10, (3, 10, 3, 8, 8)), 0, 255).astype(np.uint8)
    with Board.interpreted(design) as board:
        said = []

        def note(line):
            said.append((line, list(board.names), board.chip.snapshot()))

        assert board.learn(cup, "cup", note=note).close is None
        assert board.learn(key, "key", note=note).close is None and not said
        before = board.chip.snapshot()
        lesson = board.learn(mug, "mug", note=note)
        [(line, names, snapshot)] = said
        assert lesson.close.name == "cup" and 2 < lesson.close.mistaken <= 10
        assert line.startswith(f"mug is close to cup: {lesson.close.mistaken} of 10 images, each judged by others of the lesson, would be")
        assert names == ["cup", "key"] and snapshot == before and board.names == ["cup", "key", "mug"]
        assert board.learn(cup[:1], "fourth", note=note).close is None and len(said) == 1  # one picture has no others
