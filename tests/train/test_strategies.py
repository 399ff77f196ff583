"""Learners of the field and of one's own as strategies of `cil`; what is said of a whole sequence; scenarios of one's own."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fbnn_hw.base import plugins
from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.data import datasets
from fbnn_hw.nn import head
from fbnn_hw.train import comparators, learner, metrics, scenarios
from fbnn_hw.train.cil_config import CilConfig
from fbnn_hw.train.config import TrainConfig
from fbnn_hw.train.incremental import Incremental

from .test_incremental import BASE, TEST, TRAIN, make, origin, plain  # noqa: F401

RULES = {"ncm": 0, "slda": 0, "slda-diagonal": 0, "slda-low-rank": 0, "icarl": 0.003, "der++": 0.003, "er-ace": 0.003, "gdumb": 0.003,
         "gbm": 0.004, "ewc": 0, "lwf": 0}
LOWER_BOUNDS = ("ewc", "lwf")
MINE = '''
import numpy as np
from fbnn_hw.train.learner import Learner
from fbnn_hw.train.scenarios import Scenario


class Last(Learner):
    """Answers the class it saw last."""

    def learn(self, latents, labels):
        self.last = int(labels.max())

    def scores(self, latents):
        return np.eye(self.last + 1)[np.full(len(latents), self.last)]

    memory_bits = 8


class Kept(Last):
    """Has a state with an array in it."""

    def state(self):
        return {"last": np.array([self.last]), "more": [{"deep": np.zeros(2, bool)}]}

    def restore(self, state):
        assert state["more"][0]["deep"].dtype == bool
        self.last = int(state["last"][0])


class Wrong(Last):
    """Gives no scores of all classes seen."""

    kind = "few"

    def scores(self, latents):
        right = super().scores(latents)
        return {"few": right[:, :1], "flat": right[:, 0], "nan": right * np.nan, "text": "none"}[self.kind]


class Odd(Kept):
    """Has a state with a number of numpy, or with what no file holds."""

    more = 7

    def state(self):
        return {**super().state(), "seen": np.int64(4), "more": [{"deep": np.zeros(2, bool)}, self.more]}


class Alone(Last):
    """Has no room for a problem."""

    def __init__(self):
        pass


class Half(Last):
    """Cannot take up its state."""

    def state(self):
        return {}


class Many(Last):
    epochs = 2.5


class Leaves(Last):
    def learn(self, latents, labels):
        raise SystemExit(0)


class Says(Last):
    def learn(self, latents, labels):
        print("learning")
        super().learn(latents, labels)

    def state(self):
        print("keeping")
        return {"last": np.array([self.last])}

    def restore(self, state):
        pass


class Without(Learner):
    def scores(self, latents):
        return latents

    memory_bits = 1


TWO = Scenario("two", "tiny", "tiny", 2, 4, 1)
WRONG = 3
'''


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    (tmp_path / "fbnn_mine.py").write_text(MINE)
    (tmp_path / "fbnn_ends.py").write_text("x = 1\ny = (")
    (tmp_path / "fbnn_fails.py").write_text('x = 1\n\nraise RuntimeError("boom")')
    yield
    __import__("sys").modules.pop("fbnn_mine", None)
    for name in [name for name in scenarios.SCENARIOS if ":" in name]:
        del scenarios.SCENARIOS[name]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("setting", ("fpt", "rpt"))
def test_a_learner_of_the_field(origin, name, setting):  # noqa: F811
    config = dict(strategy=name, buffer_mb=RULES[name], setting=setting)
    result = make(origin, **config).run()
    assert result["finished"] and plain(result) == plain(make(origin, **config).run())
    rows = result["sequence"]["task_matrix"]
    assert [len(row) for row in rows] == list(range(1, len(rows) + 1)) and rows[-1][-1] == result["final"]["a_new"]
    if name not in LOWER_BOUNDS:
        assert result["final"]["a_final"] > 1.3 / len(result["classes"])  # chance, and random features: not much more
    if RULES[name]:
        assert 0 < result["memory_bits"] <= RULES[name] * 10 ** 6
    json.dumps(result)


@pytest.mark.parametrize("name", RULES)
def test_an_interrupted_learner_goes_on(origin, name, tmp_path, monkeypatch):  # noqa: F811
    config = replace(BASE, strategy=name, buffer_mb=RULES[name], setting="rpt")
    whole = Incremental(config, TRAIN, TEST, origin).run()
    first = Incremental(config, TRAIN, TEST, origin, tmp_path / "a.state")
    teach, taught = first._teach, []

    def interrupted():
        if taught:
            raise KeyboardInterrupt
        taught.append(teach())

    monkeypatch.setattr(first, "_teach", interrupted)
    with pytest.raises(KeyboardInterrupt):
        first.run()
    second = Incremental(config, TRAIN, TEST, origin, tmp_path / "a.state")
    second.resume()
    assert second.task == 1 and plain(second.run()) == plain(whole)


def test_an_array_of_a_state_comes_back_as_an_array(origin, mine, tmp_path):  # noqa: F811
    config = replace(BASE, strategy="fbnn_mine:Kept", setting="rpt")
    whole = Incremental(config, TRAIN, TEST, origin, tmp_path / "a.state")
    result = whole.run()
    second = Incremental(config, TRAIN, TEST, origin, tmp_path / "a.state")
    second.resume()
    assert second.learner.last == whole.learner.last and plain(second.run()) == plain(result)


@pytest.mark.parametrize("kind, reason", [
    ("few", r"an array \(\d+, 1\) for \d+ samples, expected \(\d+, \d\), a score for each class seen"), ("flat", r"an array \(\d+,\) for"),
    ("nan", "NaN, expected numbers"), ("text", "a str, expected an array")])
def test_scores_that_are_none_are_refused(kind, reason, origin, mine, monkeypatch):  # noqa: F811
    run = make(origin, strategy="fbnn_mine:Wrong", buffer_mb=0)
    run.learner.kind = kind
    with pytest.raises(UsageError, match=f"^--strategy fbnn_mine:Wrong: scores gives {reason}"):
        run.run()


def test_what_a_learner_says_of_its_memory_is_a_number(origin, mine):  # noqa: F811
    run = make(origin, strategy="fbnn_mine:Last", buffer_mb=0)
    run.learner.memory_bits = "many"
    with pytest.raises(UsageError, match='^--strategy fbnn_mine:Last: memory_bits is .many., expected a number of bits$'):
        run.run()


def test_a_state_that_could_not_be_read_is_refused_when_it_is_written(origin, mine, tmp_path):  # noqa: F811
    config = replace(BASE, strategy="fbnn_mine:Odd", buffer_mb=0)
    run = Incremental(config, TRAIN, TEST, origin, tmp_path / "a.state")
    run.run()
    second = Incremental(config, TRAIN, TEST, origin, tmp_path / "a.state")
    second.resume()
    assert second.learner.last == run.learner.last
    third = Incremental(config, TRAIN, TEST, origin, tmp_path / "b.state")
    third.learner.more = datasets
    with pytest.raises(UsageError, match="^--strategy fbnn_mine:Odd: state has a module, expected plain values, arrays and tensors$"):
        third.run()


@pytest.mark.parametrize("name", ["icarl", "der++"])
def test_a_buffer_without_room_for_every_class_is_refused(origin, name):  # noqa: F811
    with pytest.raises(UsageError, match=r"holds 1 exemplars of \d+ bits, expected one for each of \d classes; use at least 0\.\d+$"):
        make(origin, strategy=name, buffer_mb=(64 if name == "icarl" else 64 + 32 * 4) / 10 ** 6)


def test_epochs_of_learners(origin):  # noqa: F811
    epochs = {name: [task["epochs"] for task in make(origin, strategy=name, buffer_mb=RULES[name]).run()["tasks"]] for name in RULES}
    assert epochs["der++"] == [BASE.recipe.epochs] * 2 and epochs["ncm"] == epochs["icarl"] == [0, 0]


@pytest.mark.parametrize("flags", [dict(balanced=True), dict(loss="focal")])
@pytest.mark.parametrize("name", RULES)
def test_a_flag_that_a_learner_of_the_field_does_not_obey_is_refused(name, flags):
    with pytest.raises(UsageError, match="has no meaning with --strategy"):
        CilConfig("tiny-2+2x2", strategy=name, buffer_mb=RULES[name], **flags).verify()


def test_the_network_to_save_is_the_one_that_learned(origin):  # noqa: F811
    run = make(origin, strategy="der++", buffer_mb=0.01)
    run.run()
    network = run.learner.network()
    samples = run.test_samples.numpy()
    assert (head.logits(network, torch.from_numpy(samples).float() * 2 - 1).detach().numpy() == run.learner.scores(samples)).all()
    assert not all((a == b).all() for a, b in zip(network.state_dict().values(), run.model.state_dict().values()))
    assert [name for name in RULES if learner.has_network(name)] == ["der++", "er-ace", "gdumb", "gbm", "ewc", "lwf"]


@pytest.mark.parametrize("strategy, knobs, line", [
    ("slda", {"rank": 3}, "--knob rank=3: --strategy slda has no such knob, expected shrinkage"),
    ("der++", {"x": 3}, "--knob x=3: --strategy der++ has no such knob, expected alpha or beta"),
    ("ncm", {"x": 1}, "--knob x=1: --strategy ncm has no such knob, expected none"),
    ("replay", {"alpha": 1}, "--knob alpha=1: --strategy replay has no such knob, expected none"),
    ("ewc", {"strength": -1}, "--knob strength=-1: expected a number from 0"),
    ("slda-low-rank", {"rank": 2.5}, "--knob rank=2.5: expected a whole number from 0")])
def test_a_knob_that_a_strategy_does_not_have_is_refused(strategy, knobs, line):
    with pytest.raises(UsageError, match=f"^{re.escape(line)}$"):
        CilConfig("tiny-2+2x2", strategy=strategy, buffer_mb=RULES.get(strategy, 0.01), knobs=knobs).verify()


@pytest.mark.parametrize("strategy, knobs, line", [
    ("slda", {"shrinkage": 2.0}, "--knob shrinkage=2: expected above 0, at most 1"),
    ("slda-low-rank", {"rank": 65}, "--knob rank=65: expected a whole number from 1 to 64, the bits of the latent"),
    ("lwf", {"temperature": 0}, "--knob temperature=0: expected a number above 0"),
    ("gbm", {"width": 17}, "--knob width=17: expected a whole number from 1 to 16, the bits of a probability")])
def test_a_knob_that_a_strategy_cannot_take_is_refused(origin, strategy, knobs, line):  # noqa: F811
    with pytest.raises(UsageError, match=f"^{re.escape(line)}$"):
        make(origin, strategy=strategy, buffer_mb=RULES[strategy], knobs=knobs)


def test_a_knob_reaches_the_strategy(origin):  # noqa: F811
    assert make(origin, strategy="slda", buffer_mb=0, knobs={"shrinkage": 0.5}).learner.shrinkage == 0.5
    assert make(origin, strategy="gbm", buffer_mb=0.01, knobs={"width": 4}).learner.components == 10_000 // (4 * 65) // 4
    assert learner.knobs("der++") == {"alpha": 0.5, "beta": 0.5} and learner.knobs("icarl") == {}


def test_herding_takes_the_sample_that_brings_the_mean_nearest():
    rng = np.random.default_rng(0)
    samples = (rng.random((40, 16)) < rng.random(16)).astype(np.uint8)
    chosen = comparators.herded(samples, 12)
    x, kept, left = samples * 2.0 - 1, [], list(range(40))
    for _ in range(12):
        distance = [np.linalg.norm(x.mean(0) - x[[*kept, i]].mean(0)) for i in left]
        kept.append(left.pop(int(np.argmin(distance))))
    assert (chosen == samples[kept]).all() and len(comparators.herded(samples, 99)) == 40


def test_exemplars_of_icarl_are_the_first_of_the_herd_and_share_the_buffer():
    rng = np.random.default_rng(1)
    problem = learner.Problem(4, ((0, 1), (2, 3)), 32, 32 * 10, TrainConfig(), False, None)
    icarl = comparators.Icarl(problem)
    tasks = [(rng.integers(0, 2, (60, 32), np.uint8), np.repeat([c, c + 1], 30)) for c in (0, 2)]
    icarl.learn(*tasks[0])
    before = {c: kept.copy() for c, kept in icarl.exemplars.items()}
    assert sorted(len(kept) for kept in before.values()) == [5, 5]
    icarl.learn(*tasks[1])
    assert sorted(len(kept) for kept in icarl.exemplars.values()) == [2, 2, 3, 3] and icarl.memory_bits == 320
    assert all((icarl.exemplars[c] == kept[:len(icarl.exemplars[c])]).all() for c, kept in before.items())


def test_the_reservoir_of_der_holds_its_bits_and_every_task(origin):  # noqa: F811
    run = make(origin, strategy="der++", buffer_mb=0.01, setting="rpt")
    run.run()
    der = run.learner
    assert len(der.y) == der.slots == 10_000 // (64 + 16 * 6) and set(der.y.tolist()) >= {0, 1}
    assert set(der.known.tolist()) <= {2, 4, 6} and (der.known > der.y).all()


def test_metrics_of_a_sequence():
    tasks = ((0,), (1,), (2,))
    matrices = [np.array([[8, ], ]), np.array([[9, 1], [5, 5]]), np.array([[4, 6, 0], [0, 6, 4], [0, 0, 10]])]
    found = metrics.sequence(matrices, tasks)
    assert found["task_matrix"] == [[1.0], [0.9, 0.5], [0.4, 0.6, 1.0]]
    assert found["average_incremental"] == pytest.approx((1 + 0.7 + 20 / 30) / 3)
    assert found["forgetting"] == pytest.approx(((1.0 - 0.4) + (0.5 - 0.6)) / 2)
    assert found["backward_transfer"] == pytest.approx(((0.4 - 1.0) + (0.6 - 0.5)) / 2)
    assert metrics.sequence(matrices[:1], tasks[:1])["forgetting"] is None


@pytest.mark.parametrize("name", RULES)
def test_a_damaged_state_of_a_learner(origin, name, tmp_path):  # noqa: F811
    config, path = replace(BASE, strategy=name, buffer_mb=RULES[name]), tmp_path / "a.state"
    Incremental(config, TRAIN, TEST, origin, path).run()
    state = torch.load(path, weights_only=True)
    for key, kept in state["learner"].items():
        if isinstance(kept, torch.Tensor):
            torch.save({**state, "learner": {**state["learner"], key: torch.zeros((3, 1), dtype=kept.dtype)}}, path)
            with pytest.raises(InputError, match=r"damaged training state \(\w+ in it\)"):
                Incremental(config, TRAIN, TEST, origin, path).resume()
    assert any(isinstance(kept, torch.Tensor) for kept in state["learner"].values())


def test_strategies_and_scenarios_of_ones_own(origin, mine):  # noqa: F811
    config = CilConfig("fbnn_mine:TWO", "fbnn_mine:Last", recipe=BASE.recipe)
    scenarios.get(config.scenario)
    result = Incremental(config, TRAIN, TEST, origin).run()
    assert len(result["tasks"]) == 4 and result["final"]["a_final"] == 0.25 and result["memory_bits"] == 8
    assert result["sequence"]["forgetting"] == 1.0


@pytest.mark.parametrize("name, line", [
    ("Many", "--strategy fbnn_mine:Many: epochs is 2.5, expected a whole number from 0"),
    ("Leaves", "--strategy fbnn_mine:Leaves: SystemExit in ")])
def test_small_mistakes_of_a_strategy(origin, mine, name, line):  # noqa: F811
    with pytest.raises(UsageError) as error, plugins.blaming(f"fbnn_mine:{name}", f"--strategy fbnn_mine:{name}"):
        Incremental(replace(BASE, strategy=f"fbnn_mine:{name}"), TRAIN, TEST, origin).run()
    assert str(error.value).startswith(line)


def test_what_a_strategy_prints_is_no_result(origin, mine, capsys, tmp_path):  # noqa: F811
    from fbnn_hw.cli import main
    from fbnn_hw.nn import checkpoint
    from tests import strategies

    checkpoint.save(tmp_path / "fe.pt", strategies.fill(origin.topology, 0))
    code = main(["cil", "--scenario", "tiny-2+2x2", "--init", str(tmp_path / "fe.pt"), "--strategy", "fbnn_mine:Says", "--images", "10",
                 "--threads", "1", "--out", str(tmp_path / "says.json"), "--json"])
    out, err = capsys.readouterr()
    assert code == 0 and json.loads(out)["finished"] and err.count("learning\n") == 2, err
    assert "keeping\n" in err


def test_the_page_on_strategies(origin, mine, tmp_path, monkeypatch):  # noqa: F811
    page = (Path(__file__).parents[2] / "docs" / "strategies.md").read_text()
    blocks = re.findall("```python\n(.*?)```", page, re.S)
    for name, code in zip(("medoid", "replay", "tuning", "order", "pictures"), blocks, strict=True):
        (tmp_path / f"fbnn_mine_{name}.py").write_text(code)
    assert (tmp_path / "fbnn_mine_medoid.py").read_text().count("\n") <= 30
    config = replace(BASE, strategy="fbnn_mine_medoid:Medoid", setting="rpt")
    result = Incremental(config, TRAIN, TEST, origin).run()
    assert result["final"]["a_final"] > 0.2 and result["memory_bits"] == 6 * 64
    scenario = scenarios.get("fbnn_mine_order:ONE_BY_ONE")
    assert scenario.split(0, "fpt") == [(c,) for c in range(4, 10)]
    assert scenarios.get("fbnn_mine_order:SHIPS_FIRST").split(0, "fpt") == [(8, 9), (4, 6), (5, 7)]
    result = make(origin, strategy="fbnn_mine_replay:MyReplay", buffer_mb=0.01, setting="rpt").run()
    assert result["final"]["a_final"] > 0.2 and result["memory_bits"] == 10_000
    short = replace(BASE.recipe, epochs=2)
    for flags in (dict(balanced=True), dict(loss="focal", recipe=replace(BASE.recipe, schedule="cosine", patience=0, ema=0.9)),
                  dict(recipe=replace(BASE.recipe, validation=0, schedule="cosine", patience=0)),
                  dict(replay="native", buffer_mb=0.05, balanced=True, recipe=replace(short, ties="random", mirror="alternating")),
                  dict(replay="native", buffer_mb=0.05, recipe=replace(short, norm="bn", warp=0.1))):
        ours, theirs = (make(origin, **{"strategy": name, "buffer_mb": 0.01, "setting": "fpt", **flags}).run()
                        for name in ("fbnn_mine_replay:MyReplay", "replay"))
        assert [task["confusion"] for task in ours["tasks"]] == [task["confusion"] for task in theirs["tasks"]], flags
        assert ours["epochs"] == theirs["epochs"]
    own = (tmp_path / "fbnn_mine_replay.py").read_text().replace("Memorizer(problem", "NearMean(problem")
    (tmp_path / "fbnn_mine_near.py").write_text(f"from docs.examples.own_buffer import NearMean\n{own}")
    for flags in (dict(buffer_mb=0.01), dict(replay="native", buffer_mb=0.05, recipe=short)):
        result = make(origin, strategy="fbnn_mine_near:MyReplay", setting="fpt", **flags).run()
        assert result["final"]["a_final"] > 0.2 and result["memory_bits"] == flags["buffer_mb"] * 1e6, flags
    recipe = replace(BASE.recipe, epochs=12, lr=5e-3)
    config = replace(BASE, strategy="fbnn_mine_tuning:FineTuning", buffer_mb=0, replay="native", knobs={"slower": 2.0}, recipe=recipe)
    run = Incremental(config, TRAIN, TEST, origin)
    result = run.run()
    assert result["final"]["a_new"] > 0.6 and run.learner.slower == 2 and run.learner.seen == 4
    assert not torch.equal(run.learner.problem.network().layers["conv1"].proxy, run.learner.network().layers["conv1"].proxy)
    medoid, replay = replace(BASE, strategy="fbnn_mine_medoid:Medoid", buffer_mb=0), replace(BASE, strategy="fbnn_mine_replay:MyReplay")
    for given in (medoid, replay, config):
        whole = Incremental(given, TRAIN, TEST, origin).run()
        first = Incremental(given, TRAIN, TEST, origin, tmp_path / "page.state")
        monkeypatch.setattr(first, "save", lambda save=first.save, run=first: run.task == 1 and save())
        first.run()
        second = Incremental(given, TRAIN, TEST, origin, tmp_path / "page.state")
        second.resume()
        assert second.task == 1 and plain(second.run()) == plain(whole), given.strategy
    for split in ("train", "test"):
        for name in "abcdefghij":
            path = tmp_path / "pictures" / split / name / "1.png"
            path.parent.mkdir(parents=True)
            Image.new("RGB", (40, 40)).save(path)
    monkeypatch.setattr(datasets, "DATASETS", {**datasets.DATASETS})
    scenario = scenarios.get("fbnn_mine_pictures:PICTURES")
    assert len(datasets.load(scenario.data, None, "train").labels) == 10


def test_a_strategy_is_asked_for_what_it_learns(origin, mine, tmp_path):  # noqa: F811
    (tmp_path / "fbnn_native.py").write_text('from fbnn_mine import Last\n\n\nclass Images(Last):\n    replays = ("native",)\n')
    line = "^--replay latent: --strategy fbnn_native:Images learns images, expected --replay native$"
    with pytest.raises(UsageError, match=line):
        CilConfig("tiny-2+2x2", strategy="fbnn_native:Images").verify()
    with pytest.raises(UsageError, match="^--replay native: --strategy ncm learns latents, expected --replay latent$"):
        CilConfig("tiny-2+2x2", strategy="ncm", replay="native").verify()
    run = Incremental(replace(BASE, strategy="fbnn_native:Images", buffer_mb=0, replay="native"), TRAIN, TEST, origin)
    assert run.learner.problem.latent == run.kind.code.bits and run.run()["finished"]


@pytest.mark.parametrize("flag, text, line", [
    ("strategy", "fbnn_mine:Nobody", "^--strategy fbnn_mine:Nobody: .*fbnn_mine.py has no Nobody, expected one that it defines"),
    ("strategy", "fbnn_mine:WRONG", "is no fbnn_hw.train.learner.Learner, expected a class that derives from it"),
    ("strategy", "fbnn_mine:Alone", r"its __init__ does not take a problem alone, expected __init__\(self, problem\)"),
    ("strategy", "fbnn_mine:Half", "has a state and no restore, expected both or neither"),
    ("strategy", "no_such_module:A", "No module named 'no_such_module', expected module:Name of a module that can be imported here"),
    ("strategy", "fbnn_ends:A", "^--strategy fbnn_ends:A: SyntaxError in .*fbnn_ends.py, line 2: .*expected a module that can be "
     "imported$"),
    ("scenario", "fbnn_fails:A", "^--scenario fbnn_fails:A: RuntimeError in .*fbnn_fails.py, line 3: boom; expected a module that can be "
     "imported$"),
    ("strategy", ".:A", "^--strategy .:A: .*expected module:Name"),
    ("strategy", ":A", "^--strategy :A: .*expected module:Name"),
    ("strategy", "repaly", "^--strategy repaly: expected one of replay, .*gbm, or module:Class; did you mean replay\\?"),
    ("scenario", "fbnn_mine:WRONG", "is no fbnn_hw.train.scenarios.Scenario, expected one"),
    ("scenario", "tiny-2+2", "^--scenario tiny-2\\+2: expected one of .*, or module:NAME; did you mean tiny-2\\+2x2")])
def test_what_is_not_there(mine, flag, text, line):
    with pytest.raises(UsageError, match=line):
        replace(BASE, **{flag: text}).verify()


@pytest.mark.parametrize("changes, line", [
    (dict(strategy="ncm"), "--buffer-mb 0.003: --strategy ncm has no buffer, expected none"),
    (dict(strategy="icarl", buffer_mb=0), "--buffer-mb 0: expected megabits above 0, at most 1,000,000, with --strategy icarl"),
    (dict(strategy="ncm", buffer_mb=0, replay="native"), "--replay native: --strategy ncm learns latents, expected --replay latent"),
    (dict(strategy="ncm", buffer_mb=0, curves=True), "--curves: --strategy ncm has no epochs to show, expected none")])
def test_flags_that_a_learner_cannot_follow(changes, line):
    with pytest.raises(UsageError) as error:
        replace(BASE, **changes).verify()
    assert str(error.value) == line


def test_another_order_of_classes():
    scenario = scenarios.get("cifar10-4+3x2")
    orders = {scenario.class_order(0, again) for again in range(6)}
    assert len(orders) > 4 and all(order[:4] == (0, 1, 2, 3) and sorted(order) == list(range(10)) for order in orders)
    assert scenario.class_order(0) == scenario.class_order(5) == tuple(range(10))
    assert scenario.split(0, "fpt", 1) == scenario.split(7, "fpt", 1) != scenario.split(0, "fpt")
