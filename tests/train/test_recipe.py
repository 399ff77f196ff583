"""Options of the recipe: a teacher, centred proxies, ties, and what a run is resumed with."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.data import datasets
from fbnn_hw.ir.models import vgg
from fbnn_hw.nn import checkpoint, losses
from fbnn_hw.nn.network import FBNN, export
from fbnn_hw.train import pretrain, record, start
from fbnn_hw.train.config import TrainConfig
from fbnn_hw.train.offline import Interrupted, Trainer
from fbnn_hw.train.teacher import Teacher
from tests.ir.test_checkpoint import stages
from tests.train.test_offline import StopAt, interrupted_and_resumed, same

TRAIN = datasets.load("tiny").select(("pattern0", "pattern1", "pattern2"))
IMAGES, LABELS = torch.from_numpy(TRAIN.images), torch.from_numpy(TRAIN.labels)
CONFIG = TrainConfig(epochs=2, batch=32, lr=5e-3, patience=0, c=1.0)


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """State of a floating network after an epoch."""
    path = tmp_path_factory.mktemp("teacher") / "t.state"
    model = pretrain.make("fpnn_b-0.5mb", TRAIN.classes, 16, CONFIG)
    Trainer(model, IMAGES, LABELS, replace(CONFIG, epochs=1), path).run()
    return path


def student(path=None, config=CONFIG, **options):
    torch.manual_seed(config.seed)
    model = FBNN(vgg("tiny", TRAIN.classes, width=1 / 16, size=16, latent=64, hidden=16), c=config.c)
    return Trainer(model, IMAGES, LABELS, config, path, **options)


def test_resume_is_bit_identical(tmp_path, taught):
    config = replace(CONFIG, centre=True, ties="random", shift=2, contrast=0.1)

    def with_teacher(folder, **options):
        topology = student().model.topology
        return student(tmp_path / folder / "s.state", config, init="a digest", teacher=Teacher(taught, topology), **options)

    whole = with_teacher("a")
    whole.run()
    again = interrupted_and_resumed(lambda **options: with_teacher("b", **options), whole.steps + 2)
    assert same(again.state(), whole.state()) and set(whole.state()["sources"]) == {"init", "teacher"}
    assert not export(whole.model).thresholds, "after a step ties are +1 again"
    for layer in whole.model.layers.values():
        assert layer.proxy.mean((1, 2, 3)).abs().max() < 1e-6
    for options, flag in ((dict(init="a digest"), "teacher"), (dict(teacher=whole.teacher), "init")):
        with pytest.raises(UsageError, match=f"s.state: was started with another --{flag} or without one; resume with the same flags$"):
            student(tmp_path / "a" / "s.state", config, **options).resume()


NORMED = replace(CONFIG, epochs=3, norm="bn", statistics=2, schedule="cosine", precision="bfloat16", float_epochs=1, warmup=1, decay=0.1,
                 ema=0.9, smoothing=0.1, mirror="alternating")


def normed(path=None, config=NORMED, **options):
    torch.manual_seed(config.seed)
    model = FBNN(vgg("tiny", TRAIN.classes, width=1 / 16, size=16, latent=64, hidden=16), c=config.c, norm=config.norm)
    return Trainer(model, IMAGES, LABELS, config, path, **options)


class StopIn:
    """Stops the run at the call number `at` of a method."""

    def __init__(self, run, method, at):
        self.run, self.original, self.left = run, getattr(run.model, method), at
        setattr(run.model, method, self)

    def __call__(self, *args, **options):
        self.left -= 1
        self.run._stop |= self.left == 0
        return self.original(*args, **options)


@pytest.mark.parametrize("method, at", [(None, 2), (None, 9), ("estimate", 1), ("estimate", 2)])
def test_all_of_the_recipe_is_resumed_bit_identically(tmp_path, method, at):
    """At a step, or while statistics are estimated at the end of the first or second epoch."""
    whole = normed(tmp_path / "a.state")
    whole.run()
    assert whole.best_epoch > NORMED.float_epochs and export(whole.model).thresholds
    run = normed(tmp_path / "b.state", progress=None if method else StopAt(at))
    if method:
        StopIn(run, method, at)
    with pytest.raises(Interrupted):
        run.run()
    again = normed(tmp_path / "b.state")
    again.resume()
    assert again.epoch * again.steps + again.step == (at * again.steps if method else at)
    again.run()
    assert same(again.state(), whole.state())


def test_the_average_of_the_proxies_is_what_is_kept():
    run = normed(config=replace(NORMED, statistics=0, float_epochs=0, epochs=2, validation=0.0))
    proxy, update, values = run.model.layers["conv2"].proxy, run.update, []
    average = proxy.detach().clone()

    def follow(*args):
        nonlocal average
        update(*args)
        average = average.lerp(proxy.detach(), 1 - min(0.9, (1 + len(values)) / (10 + len(values))))
        values.append(proxy.detach().clone())

    run.update = follow
    run.run()
    kept = run.best["layers.conv2.proxy"]
    assert len(values) == 2 * run.steps and torch.allclose(kept, average, atol=1e-6) and not torch.allclose(kept, values[-1], atol=1e-6)


def test_images_are_mirrored_in_turn():
    run = normed(config=replace(NORMED, shift=0, contrast=0.0))
    index = torch.arange(20)
    first = run._augmented(run.images[index], index)
    run.epoch = 1
    second = run._augmented(run.images[index], index)
    plain, mirrored = run.images[index], run.images[index].flip(3)
    turned = torch.tensor([torch.equal(a, b) for a, b in zip(first, mirrored)])
    assert 4 < turned.sum() < 16
    for a, b, was, image, mirror in zip(first, second, turned, plain, mirrored):
        assert torch.equal(a, mirror if was else image) and torch.equal(b, image if was else mirror)


def test_the_rate_rises_and_falls():
    run = normed(config=replace(NORMED, epochs=4, warmup=2))
    rates = []
    for _ in range(4 * run.steps):
        rates.append(run.optimizer.param_groups[0]["lr"])
        run.optimizer.step()
        run.scheduler.step()
    top = rates.index(max(rates))
    assert top == 2 * run.steps and rates[top] == pytest.approx(NORMED.lr) and rates[0] < 0.2 * NORMED.lr
    assert rates[:top + 1] == sorted(rates[:top + 1]) and rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] < 0.05 * NORMED.lr


def test_batch_norm_goes_on_from_a_state_or_from_its_thresholds(tmp_path):
    first = normed(tmp_path / "a.state")
    first.run()
    checkpoint.save(tmp_path / "a.pt", record.network(first))
    topology, options = first.model.topology, dict(c=1.0, norm="bn")
    (tmp_path / "a.state").rename(tmp_path / "b.state")
    bits = start.read(tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"^--init a.pt \(bits\): has thresholds in conv1, .*, and no state with their batch norm; "
                                         "expected --norm bn$"):
        start.further(bits, topology, 0, dict(c=1.0, norm="scales"))
    (tmp_path / "b.state").rename(tmp_path / "a.state")
    proxies = start.read(tmp_path / "a.pt")
    assert (bits.source, proxies.source) == ("a.pt (bits)", "a.pt (proxies)")
    for origin in (bits, proxies):
        model = start.further(origin, topology, 0, options).eval()
        assert torch.equal(model.logits(IMAGES), first.model.eval().logits(IMAGES)), origin.source
    assert same(model.state_dict(), first.best)
    assert not start.further(proxies, topology, 0, dict(c=1.0, norm="scales")).norms()
    run = Trainer(start.further(bits, topology, 0, options), IMAGES, LABELS, replace(NORMED, float_epochs=0, epochs=2))
    assert len(run.run()) == 2


def test_distillation():
    generator = torch.Generator().manual_seed(0)
    teacher, logits = torch.randn(2, 5, 4, generator=generator).double()
    p, q = (teacher / 3).softmax(1), (logits / 3).softmax(1)
    assert losses.distillation(logits, teacher, 3.0).item() == pytest.approx(9 * (p * (p / q).log()).sum(1).mean().item())
    assert losses.distillation(teacher, teacher, 3.0).item() == pytest.approx(0, abs=1e-12)


def test_a_teacher_of_other_layers_is_refused(tmp_path):
    model = pretrain.make("0.5mb", TRAIN.classes, 16, CONFIG, latent=64)
    trainer = Trainer(model, IMAGES, LABELS, replace(CONFIG, epochs=1), tmp_path / "t.state")
    trainer.best = model.state_dict()
    trainer.save()
    with pytest.raises(InputError, match=r"t\.state: has other layers than 0\.5mb, as pretrain --encoder and --latent make them,"):
        Teacher(tmp_path / "t.state", model.topology)


def test_the_teacher_takes_its_share(taught):
    run = student(config=replace(CONFIG, augment=False, validation=0.0, schedule="cosine", distil=0.25))
    run.teacher = Teacher(taught, run.model.topology)
    index = torch.arange(16)
    images, labels = run.images[index], run.labels[index]
    with torch.no_grad():
        logits = run.model(images)
        soft = losses.distillation(logits, run.teacher.model(images), run.config.temperature)
        expected = 0.75 * F.cross_entropy(logits, labels) + 0.25 * soft
    run._train_step(index)
    assert run.sums[0] / 16 == pytest.approx(expected.item(), rel=1e-6)
    assert not any(p.requires_grad for p in run.teacher.model.parameters()) and not run.teacher.model.training


@pytest.mark.parametrize("mirror", ["alternating", "none"])
def test_the_teacher_may_answer_once(tmp_path, taught, mirror):
    """Without shifts and contrast the answers that are kept are those of the augmented images, so the run is the same."""
    config = replace(CONFIG, mirror=mirror, shift=0, contrast=0.0)
    runs = {}
    for views in ("augmented", "mirrored"):
        run = runs[views] = student(tmp_path / f"{views}.state", replace(config, teacher_views=views),
                                    teacher=Teacher(taught, student().model.topology))
        seen, ask = [], run.teacher.logits
        run.teacher.logits = lambda images, seen=seen, ask=ask: seen.append(len(images)) or ask(images)
        run.run()
        assert sum(seen) == len(run.labels) * (2 if views == "augmented" or mirror == "alternating" else 1)
    one, two = (runs[views].history for views in runs)
    assert [r["train_loss"] for r in one] == pytest.approx([r["train_loss"] for r in two], rel=1e-4)
    assert one[-1]["validation_accuracy"] == two[-1]["validation_accuracy"]


def test_resume_with_kept_answers_is_bit_identical(tmp_path, taught):
    config = replace(CONFIG, mirror="alternating", shift=2, teacher_views="mirrored")
    teacher = Teacher(taught, student().model.topology)
    whole = student(tmp_path / "a.state", config, teacher=teacher)
    whole.run()
    again = interrupted_and_resumed(lambda **options: student(tmp_path / "b.state", config, teacher=teacher, **options), whole.steps + 4)
    assert same(again.state(), whole.state())


def test_an_fbnn_teaches_too(tmp_path):
    model = pretrain.make("0.5mb", TRAIN.classes, 16, CONFIG)
    Trainer(model, IMAGES, LABELS, replace(CONFIG, epochs=1), tmp_path / "t.state").run()
    teacher = Teacher(tmp_path / "t.state", model.topology)
    assert torch.equal(teacher.logits(IMAGES[:8]), model.eval()(IMAGES[:8])) and teacher.description["name"] == "0.5mb"


@pytest.mark.parametrize("validation", [0.0, 0.25])
def test_the_record_says_how_the_teacher_was_trained(tmp_path, validation):
    config = replace(CONFIG, epochs=1, validation=validation, schedule="cosine", shift=3)
    model = pretrain.make("0.5mb", TRAIN.classes, 16, config)
    run = Trainer(model, IMAGES, LABELS, config, tmp_path / "t.state")
    run.run()
    found = Teacher(tmp_path / "t.state", model.topology).description
    assert found["validation_accuracy"] == (run.history[0]["validation_accuracy"] if validation else None)
    assert found["epochs"] == 1 and found["config"]["shift"] == 3 and found["config"]["validation"] == validation


def test_a_teacher_answers_for_the_classes_of_its_student(taught):
    """It knows three; a student may have fewer, in another order."""
    known = student().model.topology.classes
    some = vgg("tiny", (known[2], known[0]), width=1 / 16, size=16, latent=64, hidden=16)
    whole = Teacher(taught, student().model.topology).logits(IMAGES[:5])
    assert torch.equal(Teacher(taught, some).logits(IMAGES[:5]), whole[:, [2, 0]])


def test_teachers_that_do_not_fit(tmp_path, taught):
    path = tmp_path / "x.state"
    path.write_bytes(b"x")
    with pytest.raises(InputError) as error:
        Teacher(path, student().model.topology)
    assert str(error.value) == (f"--teacher {path}: not a training state of a named network of this version (UnpicklingError), "
                                "expected the .state of fbnn-hw pretrain or train")
    with pytest.raises(InputError, match=r"t.state: knows 3 classes at 16x16, expected among them the student's 2, a, b\.\.\., at 32x32$"):
        Teacher(taught, vgg("tiny", ("a", "b"), width=1 / 16, latent=64, hidden=16))


def test_bfloat16(tmp_path, taught):
    """It trains, with a teacher too, and the file's logits are those that training saw."""
    config = replace(CONFIG, epochs=12, precision="bfloat16", augment=False, seed=2)
    trainer = student(tmp_path / "s.state", config, teacher=Teacher(taught, student().model.topology, precision="bfloat16"))
    trainer.run()
    assert trainer.history[-1]["train_accuracy"] > 0.5 > trainer.history[0]["train_accuracy"]
    assert all(p.dtype == torch.float32 for p in trainer.model.parameters())
    with torch.no_grad():
        seen = trainer.model.logits(IMAGES)
        trainer.model.dtype = torch.float32
        assert torch.equal(trainer.model.logits(IMAGES), seen)
        exact, rounded = (Teacher(taught, trainer.model.topology, precision=p).logits(IMAGES) for p in ("float32", "bfloat16"))
    assert rounded.dtype == torch.float32 and 0 < (exact - rounded).norm() < 0.05 * exact.norm()
    with pytest.raises(UsageError, match="s.state: was started with other values of precision; resume with the same flags$"):
        student(tmp_path / "s.state", replace(config, precision="float32"), teacher=trainer.teacher).resume()


def test_ties():
    model = student().model.eval()
    up = {o.name: y for o, y in model.activations(model.encode(IMAGES))}
    model.draw_ties(torch.Generator().manual_seed(0))
    drawn = {o.name: y for o, y in model.activations(model.encode(IMAGES))}
    layer = model.layers["conv2"]
    changed = (up["conv1"] != drawn["conv1"]).any((0, 2, 3))
    assert set(layer.bias.tolist()) == {-1.0, 1.0} and changed.any() and not changed[model.layers["conv1"].bias == 1].any()
    assert (model.layers["logits"].bias == 1).all()
    model.draw_ties()
    assert torch.equal(model.logits(IMAGES), up["logits"].flatten(1))


@pytest.mark.parametrize("change, message", [
    (dict(shift=-1), "--shift -1: expected 0 to 512"), (dict(contrast=1.5), "--contrast 1.5: expected a number from 0 to 1"),
    (dict(ties="down"), "--ties down: expected up or random"), (dict(distil=2.0), "--distil 2.0: expected a share above 0, at most 1"),
    (dict(temperature=0.0), "--temperature 0.0: expected a positive number"),
    (dict(teacher_views="mirrored"), "--teacher-views mirrored: keeps the answers to each image and its mirror image, found --mirror "
                                     "random; expected --mirror alternating or none, and no --warp"),
    (dict(teacher_views="mirrored", mirror="none", warp=0.25),
     "--teacher-views mirrored: keeps the answers to each image and its mirror image, found --warp 0.25; expected --mirror alternating or "
     "none, and no --warp"),
    (dict(K=1e-320), "--K 1e-320: expected a number from 1e-6 to 1,000,000"),
    (dict(c=1e300), "--c 1e+300: expected a number from 1e-6 to 1,000,000"),
    (dict(limit=float("nan")), "--limit nan: expected a number from 1e-6 to 1,000,000"),
    (dict(batch=10 ** 25), f"--batch {10 ** 25}: expected 1 to 1,000,000"),
    (dict(precision="float16"), "--precision float16: expected float32 or bfloat16"),
    (dict(norm="layer"), "--norm layer: expected scales or bn"), (dict(ema=1.0), "--ema 1.0: expected 0 <= share < 1"),
    (dict(norm="bn", ties="random"), "--ties random: batch norm leaves no ties, expected --norm scales"),
    (dict(float_epochs=2), "--float-epochs 2: scales have no float activations, expected --norm bn"),
    (dict(norm="bn", float_epochs=2, epochs=2), "--float-epochs 2: leaves no other epoch, expected fewer than --epochs 2"),
    (dict(warmup=3, epochs=3, schedule="cosine"), "--warmup 3: leaves no other epoch, expected fewer than --epochs 3"),
    (dict(warmup=1), "--warmup 1: expected --schedule cosine with it")])
def test_refusals(change, message):
    with pytest.raises(UsageError) as error:
        TrainConfig(**change).verify()
    assert str(error.value) == message


def test_floating_networks_and_batch_norm_have_no_such_options():
    for name, norm, change, message in (
            ("fpnn_p", "scales", dict(centre=True), "--model fpnn_p: has no signs, expected no --centre, --ties, --proxies, "
                                                      "--estimator and --restarts"),
            ("fpnn_b", "bn", dict(),
             "--model fpnn_b: has its own batch norm, input and classifier, expected no --norm, --encoder, --latent, --pooling, --depth "
             "and --init"),
            ("fpnn_b", "scales", dict(mirror="alternating", ema=0.9), None)):
        if message is None:
            pretrain.make(name, TRAIN.classes, 16, replace(CONFIG, **change))
            continue
        with pytest.raises(UsageError) as error:
            pretrain.make(name, TRAIN.classes, 16, replace(CONFIG, norm=norm, **change))
        assert str(error.value) == message


def test_warp_and_no_mirror():
    from fbnn_hw.data.augment import warp

    images = torch.randint(0, 256, (4, 3, 16, 16), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    assert (warp(images, torch.Generator().manual_seed(1), 0.0) == images).all()
    moved = warp(images, torch.Generator().manual_seed(1), 0.3)
    assert moved.dtype == torch.uint8 and (moved != images).any((1, 2, 3)).all()
    assert (warp(images, torch.Generator().manual_seed(1), 0.3) == moved).all()
    still = student(config=replace(CONFIG, mirror="none", shift=0, contrast=0))
    assert (still._augmented(images, torch.arange(4)) == images).all()


def test_a_run_of_more_stages_than_a_checkpoint_holds_is_refused_before_it_begins(tmp_path):
    topology = vgg("tiny", TRAIN.classes, width=1 / 16, size=16, latent=64, hidden=16)
    deep = start.Start(topology, {}, stages(52), source="x.pt")
    with pytest.raises(InputError, match=r"^x\.pt: training: nested more than 100 deep"):
        deep.describe()
    shallow = start.Start(topology, {}, stages(40), source="x.pt")
    checkpoint.save(tmp_path / "x.pt", replace(export(FBNN(topology)), training={"init": shallow.describe()}))
