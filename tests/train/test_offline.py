"""A run that was interrupted and resumed gives the very numbers of one that was not; a state is checked before it is used."""

import os
import signal

import pytest
import torch

from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.data import datasets
from fbnn_hw.ir.models import vgg
from fbnn_hw.nn.network import FBNN
from fbnn_hw.train import record
from fbnn_hw.train.config import TrainConfig
from fbnn_hw.train.offline import Interrupted, Trainer, split

FIXTURE = datasets.load("fixture").select(("cat", "dog", "ship"))
IMAGES, LABELS = torch.from_numpy(FIXTURE.images), torch.from_numpy(FIXTURE.labels)
CONFIG = TrainConfig(epochs=3, batch=8, lr=1e-2, patience=0)
ENDS = [number for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]


def trainer(tmp_path, config=CONFIG, images=IMAGES, labels=LABELS, classes=FIXTURE.classes, width=1 / 16, **options):
    torch.manual_seed(config.seed)
    model = FBNN(vgg("tiny", classes, width=width, latent=32, hidden=16), K=config.K, c=config.c, limit=config.limit)
    return Trainer(model, images, labels, config, tmp_path / "t.state", **options)


def same(a, b):
    """Equal states, but for how long the epochs took."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a if k != "seconds")
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b


class StopAt:
    """A progress bar that sends this process a signal at one step of the run."""

    def __init__(self, step, number=signal.SIGINT):
        self.left, self.number = step, number

    def __call__(self, iterable, **options):
        for item in iterable:
            yield item  # the signal arrives after this step
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), self.number)


def interrupted_and_resumed(make, at):
    """Interrupt a trainer after `at` batches; the trainer that went on from its state to the end.  make(**options) makes one."""
    with pytest.raises(Interrupted):
        make(progress=StopAt(at)).run()
    again = make()
    again.resume()
    again.run()
    return again


@pytest.mark.parametrize("schedule", ["plateau", "cosine"])
def test_resume_is_bit_identical(tmp_path, schedule):
    config = TrainConfig(**{**CONFIG.__dict__, "schedule": schedule})
    whole = trainer(tmp_path / "a", config)
    whole.run()
    steps = whole.steps
    points = (3, steps, steps + 5, 2 * steps + 1) if schedule == "plateau" else (steps + 5,)  # inside an epoch, at its end, in later ones
    for number, at in enumerate(points):
        folder = tmp_path / f"b{number}"
        with pytest.raises(Interrupted):
            trainer(folder, config, progress=StopAt(at, ENDS[number % len(ENDS)])).run()
        again = trainer(folder, config)
        torch.rand(number)  # the global generator takes no part
        again.resume()
        assert again.epoch * steps + again.step == at  # after an epoch's last step, its evaluation is still to come
        again.run()
        assert same(again.state(), whole.state())
        assert same(torch.load(folder / "t.state", weights_only=True), torch.load(tmp_path / "a" / "t.state", weights_only=True))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_at_the_very_end_is_not_lost(tmp_path):
    config = TrainConfig(epochs=1, batch=32)
    with pytest.raises(Interrupted):
        trainer(tmp_path, config, report=lambda epoch: os.kill(os.getpid(), signal.SIGINT)).run()
    again = trainer(tmp_path, config)
    again.resume()
    assert again.finished and len(again.run()) == 1


def test_under_nohup_a_closed_terminal_ends_nothing(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert len(trainer(tmp_path, TrainConfig(epochs=1, batch=32), progress=StopAt(1, signal.SIGHUP)).run()) == 1
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_epoch_has_the_seconds_before_an_interrupt_too(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def clock(iterable, **options):
        """Ten seconds a step."""
        for item in iterable:
            now[0] += 10
            yield item

    def stopped(iterable, **options):
        return clock(StopAt(3)(iterable))

    config = TrainConfig(epochs=2, batch=8, schedule="cosine", patience=0)
    with pytest.raises(Interrupted):
        trainer(tmp_path, config, progress=stopped).run()
    now[0] += 1000  # until somebody goes on with it
    again = trainer(tmp_path, config, progress=clock)
    again.resume()
    assert again.step == 3 < again.steps
    # the step after the third was asked for before the interrupt, and again after it
    assert [epoch["seconds"] for epoch in again.run()] == [10 * (again.steps + 1), 10 * again.steps]


def test_more_epochs_on_a_finished_run(tmp_path):
    trainer(tmp_path / "a", TrainConfig(epochs=2, batch=32)).run()
    longer = trainer(tmp_path / "a", TrainConfig(epochs=3, batch=32))
    longer.resume()
    whole = trainer(tmp_path / "b", TrainConfig(epochs=3, batch=32))
    assert len(longer.run()) == 3 and len(whole.run()) == 3
    assert same(longer.state(), whole.state())


def test_it_learns(tmp_path):
    two = datasets.load("fixture").select(("frog", "ship"))
    config = TrainConfig(epochs=10, batch=8, lr=1e-3, schedule="cosine", patience=0, c=1.0, augment=False)
    run = trainer(tmp_path, config, torch.from_numpy(two.images), torch.from_numpy(two.labels), two.classes, width=1 / 8)
    history = run.run()
    assert history[-1]["train_accuracy"] > 0.75 and history[-1]["train_loss"] < 0.6 * history[0]["train_loss"]


def test_validation_is_a_fixed_share_and_never_trained_on():
    train, held = split(1000, 0.1, 3)
    assert len(held) == 100 and sorted([*train.tolist(), *held.tolist()]) == list(range(1000))
    assert torch.equal(split(1000, 0.1, 3)[1], held) and not torch.equal(split(1000, 0.1, 4)[1], held)


def test_a_split_that_leaves_none_for_validation(tmp_path):
    with pytest.raises(UsageError, match="^--validation 0.1: leaves none of 4 training images for validation, which plateau and --patience "
                                         "need; use more images, or --schedule cosine --patience 0$"):
        trainer(tmp_path, images=IMAGES[:4], labels=LABELS[:4])
    run = trainer(tmp_path, TrainConfig(epochs=1, schedule="cosine", patience=0), IMAGES[:4], LABELS[:4])
    run.run()
    assert run.history[0]["validation_accuracy"] is None and run.best_epoch == 1 and len(run.labels) == 4


def test_states_that_do_not_fit(tmp_path):
    run = trainer(tmp_path, TrainConfig(epochs=1, batch=64))
    run.run()
    path = tmp_path / "t.state"

    def refusal(*args, **options):
        with pytest.raises((InputError, UsageError)) as error:
            trainer(tmp_path, *args, **options).resume()
        return type(error.value), str(error.value).removeprefix(f"{path}: ")

    same_config = TrainConfig(epochs=1, batch=64)
    assert refusal(TrainConfig(epochs=1, batch=32, seed=1)) == (
        UsageError, "was started with other values of batch, seed; resume with the same flags")
    assert refusal(same_config, images=IMAGES[:50], labels=LABELS[:50]) == (
        UsageError, "was started on other images or labels; resume with the same --data and --classes")
    assert refusal(same_config, width=1 / 8) == (InputError, "state of another model, expected one with the layers of tiny")
    whole = path.read_bytes()
    path.write_bytes(whole[:1000])
    assert refusal(same_config)[1].startswith("not a training state (") and refusal(same_config)[1].endswith("; start without --resume")
    torch.save({"format": "other"}, path)
    assert refusal(same_config) == (InputError, "found another kind of file or version, expected fbnn-hw training state 1")
    path.write_bytes(whole)
    state = torch.load(path, weights_only=True)
    del state["sums"]
    torch.save(state, path)
    assert refusal(same_config) == (InputError, "damaged training state (KeyError in it); start without --resume")
    path.unlink()
    assert refusal(same_config) == (InputError, "not found, expected the state of an earlier run; start without --resume")


@pytest.mark.parametrize("changes", [
    {"order": torch.zeros(3)}, {"order": torch.zeros(100, dtype=torch.int64)}, {"order": 10 ** 9}, {"step": []}, {"step": 1}, {"step": 99},
    {"sums": [1.0, 2.0, 3.0]}, {"best_score": "x"}, {"scheduler": {"num_bad_epochs": b"1"}}], ids=str)
def test_a_damaged_place_in_the_epoch(tmp_path, changes):
    trainer(tmp_path, TrainConfig(epochs=1, batch=64)).run()
    path = tmp_path / "t.state"
    state = torch.load(path, weights_only=True)
    for key, value in changes.items():
        state[key] = {**state[key], **value} if isinstance(value, dict) else value
    torch.save(state, path)
    with pytest.raises(InputError, match=r": damaged training state \(\w+ in it\); start without --resume$"):
        trainer(tmp_path, TrainConfig(epochs=1, batch=64)).resume()


def test_a_state_without_the_data_field_still_loads(tmp_path):
    run = trainer(tmp_path, TrainConfig(epochs=1, batch=64))
    run.run()
    state = torch.load(tmp_path / "t.state", weights_only=True)
    del state["data"]
    torch.save(state, tmp_path / "t.state")
    again = trainer(tmp_path, TrainConfig(epochs=1, batch=64))
    again.resume()
    assert same(again.state(), run.state())


def test_record(tmp_path):
    run = trainer(tmp_path, TrainConfig(epochs=3, batch=32, lr=1e-2))
    run.run()
    run.best_epoch = 2  # as if the third had been worse
    now = {k: v.clone() for k, v in run.model.state_dict().items()}
    run.best = {k: -v for k, v in run.best.items()}
    score = record.test_score(run, IMAGES, LABELS)
    network = record.network(run, {"command": "by hand", "hardware": "an abacus"}, score)
    found = network.training
    assert same(run.model.state_dict(), now), "the trainer goes on from where it was"
    proxy = run.best["layers.conv1.proxy"]
    assert (network.weights["conv1"] == (proxy >= 0).numpy()).all()
    assert found["test_accuracy"] == score[0] / len(LABELS) and found["test_images"] == len(LABELS)
    with record.best(run) as model:
        right = record.predict(model, IMAGES).argmax(1) == LABELS
    recalls = torch.stack([right[LABELS == c].double().mean() for c in LABELS.unique()])
    assert found["test_dispersion"] == score[2] == pytest.approx(recalls.std(correction=0).item())
    assert found["hardware"] == "an abacus" and found["command"] == "by hand" and found["best_epoch"] == 2 and found["epochs"] == 3
    assert found["validation_images"] == len(run.held_labels) and found["train_images"] == len(run.labels)
    assert found["config"]["lr"] == 1e-2 and found["threads"] == 1 and found["finished"] is True
    assert record.describe(run)["test_accuracy"] is None


@pytest.mark.parametrize("change, message", [
    (dict(epochs=0), "--epochs 0: expected 1 to 1,000,000"), (dict(lr=float("nan")), "--lr nan: expected a positive number"),
    (dict(schedule="step"), "--schedule step: expected plateau or cosine"),
    (dict(validation=1.0), "--validation 1.0: expected 0 <= share < 1")])
def test_config(change, message):
    with pytest.raises(UsageError) as error:
        TrainConfig(**change).verify()
    assert str(error.value) == message
