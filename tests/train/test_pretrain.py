import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.data import augment, datasets
from fbnn_hw.ir.models import vgg
from fbnn_hw.nn import checkpoint, losses
from fbnn_hw.nn.network import FBNN
from fbnn_hw.reference import inference
from fbnn_hw.train import offline, pretrain, record
from fbnn_hw.train.config import TrainConfig
from tests.train.test_offline import interrupted_and_resumed, same

TRAIN = datasets.load("tiny").select(("pattern0", "pattern1", "pattern2"))
IMAGES, LABELS = torch.from_numpy(TRAIN.images), torch.from_numpy(TRAIN.labels)
CONFIG = TrainConfig(epochs=2, batch=16, lr=5e-3, patience=0, c=1.0)
NORMED = replace(CONFIG, norm="bn")


@pytest.fixture(autouse=True)
def small_projector(monkeypatch):
    monkeypatch.setattr(pretrain, "PROJECTOR_NEURONS", 32)


def trainer(path, objective, config=CONFIG, **options):
    torch.manual_seed(config.seed)
    model = FBNN(vgg("tiny", TRAIN.classes, width=1 / 16, size=16, latent=64, hidden=16), c=config.c)
    return pretrain.Pretrainer(model, IMAGES, LABELS, config, objective, state_path=path / "s.state", **options)


def test_projector_has_the_papers_layers(monkeypatch):
    monkeypatch.undo()
    made = pretrain.projector(1024)
    assert [type(layer).__name__ for layer in made] == ["Linear", "BatchNorm1d", "ReLU"] * 2
    assert [made[0].weight.shape, made[3].weight.shape] == [(2048, 1024), (2048, 2048)]


@pytest.mark.parametrize("objective, unlabeled", [
    (pretrain.Objective(), None), (pretrain.Objective(1, 1e-2, 1e-2), None), (pretrain.Objective(0, 1e-2), None),
    (pretrain.Objective(decorrelate=0.1), None),
    (pretrain.Objective(1, 1e-2, 1e-2, "printed"), torch.randint(0, 256, (20, 3, 12, 12), dtype=torch.uint8))])
def test_resume_is_bit_identical(tmp_path, objective, unlabeled):
    whole = trainer(tmp_path / "a", objective, unlabeled=unlabeled)
    whole.run()
    again = interrupted_and_resumed(lambda **options: trainer(tmp_path / "b", objective, unlabeled=unlabeled, **options), whole.steps + 2)
    assert same(again.state(), whole.state())
    if objective.beta:
        assert any(k.endswith("running_mean") for k in whole.state()["projector"])
    with pytest.raises(UsageError, match="was started with other weights of the terms; resume with the same flags"):
        trainer(tmp_path / "b", replace(objective, gamma=0.5), unlabeled=unlabeled).resume()
    with pytest.raises(UsageError, match="was started with other unlabelled images; resume with the same --unlabeled$"):
        trainer(tmp_path / "b", objective, unlabeled=IMAGES if unlabeled is None else None).resume()


@pytest.mark.parametrize("name, config", [("airbench", CONFIG), ("fpnn_b-0.5mb", CONFIG), ("0.5mb", replace(NORMED, float_epochs=1))])
def test_what_is_float_at_the_start_or_throughout_is_resumed(tmp_path, name, config):
    def run(**options):
        model = pretrain.make(name, TRAIN.classes, 16, config)
        return pretrain.Pretrainer(model, IMAGES[:64], LABELS[:64], config, pretrain.Objective(), state_path=tmp_path / "s.state",
                                   **options)

    assert interrupted_and_resumed(run, 2).finished


def test_a_stage_is_not_resumed_as_another(tmp_path):
    """Both have the same tensors, so that no shape tells them apart."""
    def stage(activations):
        model = FBNN(vgg("tiny", TRAIN.classes, width=1 / 16, size=16, latent=64, hidden=16), norm="bn", c=CONFIG.c)
        model.binary = activations == "binary"
        return pretrain.Pretrainer(model, IMAGES, LABELS, NORMED, pretrain.Objective(), state_path=tmp_path / "s.state")

    stage("float").save()
    with pytest.raises(UsageError, match="s.state: was started with --activations float; resume with the same flags$"):
        stage("binary").resume()
    stage("float").resume()


def test_a_state_of_the_other_verb_is_refused(tmp_path):
    """Both have the same tensors, and `train` has no other objective to compare."""
    def plain():
        return offline.Trainer(trainer(tmp_path, pretrain.Objective()).model, IMAGES, LABELS, CONFIG, tmp_path / "s.state")

    for first, second, verbs in ((trainer(tmp_path, pretrain.Objective(gamma=0.1)), plain(), ("pretrain", "train")),
                                 (plain(), trainer(tmp_path, pretrain.Objective()), ("train", "pretrain"))):
        first.save()
        with pytest.raises(UsageError, match="s.state: was started by fbnn-hw {0}, expected a state of fbnn-hw {1}; resume with "
                                             "fbnn-hw {0} and the same flags$".format(*verbs)):
            second.resume()


def test_a_supervised_run_is_that_of_the_trainer(tmp_path):
    from fbnn_hw.train.offline import Trainer

    one = trainer(tmp_path / "a", pretrain.Objective())
    torch.manual_seed(CONFIG.seed)
    two = Trainer(FBNN(one.model.topology, c=CONFIG.c), IMAGES, LABELS, CONFIG)
    assert [r["train_loss"] for r in one.run()] == [r["train_loss"] for r in two.run()]


def test_the_teacher_and_the_smoothing_take_part_in_the_supervised_term(tmp_path):
    config = replace(CONFIG, augment=False, distil=0.25, smoothing=0.2)
    run = trainer(tmp_path, pretrain.Objective(2.0, 0, 0.1), config)

    class Teacher:
        sha256 = "a digest"

        def logits(self, images):
            return images.float().mean((2, 3))

    run.teacher = Teacher()
    index = torch.arange(16)
    images, labels = run.images[index], run.labels[index]
    logits, latent = run._forward(images)
    supervised = 0.75 * F.cross_entropy(logits, labels, label_smoothing=0.2)
    supervised = supervised + 0.25 * losses.distillation(logits, run.teacher.logits(images), config.temperature)
    expected = 2 * supervised + 0.1 * losses.features_as_intended(latent)
    run._train_step(index)
    assert run.sums[0] / 16 == pytest.approx(expected.item(), rel=1e-6)


def test_features_become_balanced(tmp_path):
    def spread(gamma):
        run = trainer(tmp_path / str(gamma), pretrain.Objective(1, 0, gamma), replace(CONFIG, epochs=6))
        run.run()
        return run.model.latent(IMAGES).mean(0).square().mean().item()

    assert spread(50.0) < 0.8 * spread(0.0)


def test_batch_norm_then_scales(tmp_path):
    model = pretrain.make("0.5mb", TRAIN.classes, 16, NORMED)
    run = pretrain.Pretrainer(model, IMAGES, LABELS, replace(NORMED, epochs=1), pretrain.Objective(), state_path=tmp_path / "bn.state")
    run.run()
    score = record.test_score(run, IMAGES, LABELS)
    folded = record.network(run, {}, score)
    assert folded.thresholds and folded.training["test_accuracy"] == score[0] / score[1]
    found = inference.classify(inference.logits(folded, TRAIN.images))
    assert int((found == TRAIN.labels).sum()) == score[0]
    scaled = pretrain.make("0.5mb", TRAIN.classes, 16, CONFIG, init=tmp_path / "bn.pt")
    assert np.array_equal((scaled.layers["conv1"].proxy >= 0).detach().numpy()[..., 0, 0], folded.weights["conv1"][..., 0, 0])
    with pytest.raises(InputError, match=r"none.state: not the state of a stage with batch norm of 0.5mb with 3 classes \(FileNotFoundE"):
        pretrain.make("0.5mb", TRAIN.classes, 16, CONFIG, init=tmp_path / "none.pt")
    with pytest.raises(UsageError, match="^--model fpnn_b: has its own batch norm, input and classifier, expected no --norm, --enc"):
        pretrain.make("fpnn_b", TRAIN.classes, 16, NORMED)


def test_the_combined_loss_goes_on_from_a_supervised_checkpoint(tmp_path):
    first = pretrain.Pretrainer(pretrain.make("0.5mb", TRAIN.classes, 16, CONFIG), IMAGES, LABELS, replace(CONFIG, epochs=1),
                                pretrain.Objective(), state_path=tmp_path / "a.state")
    first.run()
    checkpoint.save(tmp_path / "a.pt", record.network(first))
    origin = pretrain.origin(tmp_path / "a.pt")
    model = pretrain.make("0.5mb", TRAIN.classes, 16, CONFIG, init=origin)
    assert all(torch.equal(v, first.best[k]) for k, v in model.state_dict().items()) and origin.describe()["source"] == "a.pt (proxies)"
    run = pretrain.Pretrainer(model, IMAGES, LABELS, replace(CONFIG, epochs=1), pretrain.Objective(1, 1e-2, 1e-2), init=origin.sha256)
    assert len(run.run()) == 1 and run.state()["sources"]["init"] == origin.sha256
    with pytest.raises(InputError, match=r"^--init a.pt \(proxies\): not 1mb with the 3 classes pattern0, pattern1, pattern2..., expected"):
        pretrain.make("1mb", TRAIN.classes, 16, CONFIG, init=origin)


def test_three_stages(tmp_path):
    """Float activations and batch norm, then binary ones, then scales (paper, section `bg`)."""
    def stage(name, config, **options):
        model = pretrain.make("0.5mb", TRAIN.classes, 16, config, **options)
        run = pretrain.Pretrainer(model, IMAGES, LABELS, replace(config, epochs=1), pretrain.Objective(1, 0, 0.1),
                                  state_path=tmp_path / f"{name}.state")
        run.run()
        return run

    first = stage("first", NORMED, activations="float").model
    values = {o.name: y for o, y in first.eval().activations(first.encode(IMAGES))}
    for name in ("pool1", "conv3", "gap", "depthwise", "latent", "hidden"):
        assert values[name].abs().max() <= 1 and len(values[name].unique()) > 2, name
    second = pretrain.make("0.5mb", TRAIN.classes, 16, NORMED, init=tmp_path / "first.pt")
    assert all(torch.equal(v, second.state_dict()[k]) for k, v in first.state_dict().items())
    assert set(second.eval().latent(IMAGES).unique().tolist()) == {-1.0, 1.0}
    checkpoint.save(tmp_path / "second.pt", record.network(stage("second", NORMED, init=tmp_path / "first.pt")))
    normed = pretrain.origin(tmp_path / "second.pt")
    assert normed.source == "second.pt (proxies)" and normed.best is not None
    assert not pretrain.make("0.5mb", TRAIN.classes, 16, CONFIG, init=normed).norms()
    assert pretrain.make("0.5mb", TRAIN.classes, 16, NORMED, init=normed).norms()
    for config, options in ((CONFIG, {}), (NORMED, dict(init=tmp_path / "first.pt"))):
        with pytest.raises(UsageError, match="^--activations float: is the first stage of three, expected --norm bn and no --init$"):
            pretrain.make("0.5mb", TRAIN.classes, 16, config, activations="float", **options)


def test_floating_baselines_have_the_papers_three_sizes():
    sizes = {name: pretrain.make(name, ("a", "b"), 32, CONFIG).parameters_count() for name in pretrain.FLOATING if "24" not in name}
    assert sizes["fpnn_p-9mb"] > 2.5 * sizes["fpnn_p"] and 28 < sizes["fpnn_p-9mb"] / sizes["fpnn_b-9mb"] < 40


def test_strong_augmentation():
    generator = torch.Generator().manual_seed(0)
    out = augment.strong(IMAGES, generator)
    assert out.dtype == torch.uint8 and out.shape == IMAGES.shape and not torch.equal(out, IMAGES)
    nothing = augment.strong(IMAGES, generator, crop=1.0, color=0.0, hue=0.0, grey=0.0).int()
    straight = (nothing - IMAGES.int()).abs().amax((1, 2, 3)) <= 1
    mirrored = (nothing.flip(3) - IMAGES.int()).abs().amax((1, 2, 3)) <= 1
    assert (straight | mirrored).all() and 30 < straight.sum() < 90
    grey = augment.strong(IMAGES, generator, grey=1.0).int()
    inside = (grey.amin(1) > 5) & (grey.amax(1) < 250)
    assert ((grey.amax(1) - grey.amin(1))[inside] <= 3).all()


def test_decorrelation_makes_the_bits_of_the_latent_less_alike(tmp_path):
    def correlation(weight):
        run = trainer(tmp_path / str(weight), pretrain.Objective(decorrelate=weight), replace(CONFIG, epochs=6))
        run.run()
        run.model.eval()
        with torch.no_grad():
            return losses.decorrelation(run.model.latent(IMAGES)).item()

    assert correlation(1.0) < 0.8 * correlation(0.0)


def test_a_state_from_before_the_decorrelation_is_taken_up(tmp_path):
    run = trainer(tmp_path, pretrain.Objective(gamma=0.1))
    run.run()
    state = torch.load(tmp_path / "s.state", weights_only=True)
    del state["objective"]["decorrelate"]
    torch.save(state, tmp_path / "s.state")
    trainer(tmp_path, pretrain.Objective(gamma=0.1)).resume()
    with pytest.raises(UsageError, match="was started with other weights of the terms"):
        trainer(tmp_path, pretrain.Objective(gamma=0.1, decorrelate=0.1)).resume()


@pytest.mark.parametrize("objective, message", [
    (pretrain.Objective(0), "--alpha, --beta, --gamma and --decorrelate are all 0, expected one that is not"),
    (pretrain.Objective(-1), "--alpha -1: expected 0 or more"), (pretrain.Objective(beta=math.nan), "--beta nan: expected 0 or more"),
    (pretrain.Objective(features="x"), "--features x: expected one of printed, intended")])
def test_refusals(objective, message):
    with pytest.raises(UsageError) as error:
        objective.verify()
    assert str(error.value) == message
