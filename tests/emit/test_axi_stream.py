"""`generate --wrapper axi-stream`: packets through the wrapper, by cocotbext-axi, equal the reference; nothing else of a design changes."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw import design
from fbnn_hw.base import bits
from fbnn_hw.base.errors import UsageError
from fbnn_hw.design.integration import AXI_STREAM
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import LATENT, Topology
from fbnn_hw.machine.protocol import Command, Space
from fbnn_hw.reference import inference
from fbnn_hw.simulate import simulator
from tests import strategies
from tests.quick import quick


def written(network, target, root, **options):
    return design.generate(network, target, out=root, wrapper="axi-stream", **options)


def run(made, job):
    """What axi_stream_bench.py saw."""
    folder = made.folder
    sources = [folder / name for name in (f"{AXI_STREAM}.v", "accelerator.v", "SB_SPRAM256KA.v") if (folder / name).exists()]
    built = simulator.build(sources, AXI_STREAM, folder / "sim_build_axis")
    directory = folder / "run"
    directory.mkdir(exist_ok=True)
    (directory / "job.json").write_text(json.dumps(job))
    for image in folder.glob("*.hex"):  # of memories, which Verilog reads from where it runs
        (directory / image.name).write_bytes(image.read_bytes())
    done = built.run("axi_stream_bench", directory=directory, search=[Path(__file__).parent], env={"BENCH_JOB": directory / "job.json"})
    assert not done.failed, done.failed
    return json.loads((directory / "packets.json").read_text())


def packet(image):
    """The bytes of an image, uint8 (3, S, S)."""
    return np.ascontiguousarray(image.transpose(1, 2, 0)).reshape(-1).tolist()


def signed(words):
    """Lists of bytes, lowest first -> lists of numbers of 16 bits."""
    return [np.frombuffer(bytes(one), "<i2").tolist() for one in words]


@pytest.fixture(scope="module")
def learner(tmp_path_factory):
    """Weights as a stream, a latent, and classes to learn."""
    return written(strategies.smallest_learner(), "ice40", tmp_path_factory.mktemp("learner"), learn=True, max_classes=4, exemplars=3)


def test_packets_under_back_pressure(learner):
    """The second packet ends early, the third late: each spoils its own image alone, and tuser says so.  Then images and commands take
    turns; the last command has an illegal label.  At the end the host reads and writes counts of exemplars."""
    size, network = learner.config.size, learner.network
    images = strategies.images(3, 8, size)
    packets, twin, steps, said = [packet(image) for image in images[:4]], learner.learner(), [], []
    packets[1] = packets[1][:size]
    packets[2] += packets[2]
    images[1] = np.array(packets[1] + [0] * (3 * size ** 2 - size), np.uint8).reshape(size, size, 3).transpose(2, 0, 1)
    latents = inference.layers(network, images)["latent"].reshape(len(images), -1)
    logits = twin.logits(latents[:4]).tolist()
    for image, latent, label in zip(images[4:], latents[4:], (2, 0, 2, 9)):
        logits.append(twin.logits(latent[None])[0].tolist())
        steps += [("image", packet(image)), ("command", Command.LEARN | label << 8)]
        if label < 4:
            twin.learn(latent[None], [label])
        said.append([int(label > 3), twin.known, twin.buffer.used])
    steps += [("host", Space.COUNTS | number << 8) for number in range(3)]
    counts = [twin.buffer.labels.count(number) for number in range(3)]
    steps += [("host", Space.COUNTS | 1 << 7 | 1 << 8 | 2 << 32), ("host", Space.COUNTS | 1 << 8)]
    weights, boot = (learner.folder / "weights.bin").read_bytes(), learner.manifest["boot_bytes"]
    job = {"packets": packets, "latent": 1, "pauses": 5, "steps": steps, "weights": list(weights[:boot] + 12 * weights[boot:])}
    seen = run(learner, job)
    assert signed(seen["logits"]) == logits
    assert seen["result"] == [[one.index(max(one)), 0] for one in logits]
    assert seen["users"] == [0, 1, 1, 0, 0, 0, 0, 0]
    words = np.array(seen["latent"], np.uint8)
    assert (bits.unpack(words.ravel(), (len(words), 8 * words.shape[1]))[:, learner.layout["latent_bits"]] == latents).all()
    assert seen["steps"][:4] == said and seen["steps"][4:7] == counts and seen["steps"][8] == 2
    assert seen["left"] == 0


def test_an_answer_of_unknown(tmp_path):
    """Bit 15 says it, and the bits below have the nearest class."""
    layers = (*strategies.smallest_learner().topology.ops[:-2], op.Dense(LATENT, ("gap",), 64),
              op.Dense("logits", (LATENT,), 2, logits=True))
    network = strategies.fill(Topology("wide", layers, ("a", "b")), 1)
    made = written(network, "generic", tmp_path, learn="nearest-mean", unknown=True, max_classes=5)
    images = strategies.images(16, 12, made.config.size)
    images[9:] = np.array([0, 255, 128], np.uint8)[:, None, None, None]  # unlike the others
    twin, steps, expected = made.learner(), [], []
    for number, (image, latent) in enumerate(zip(images, inference.latents(made.network, images))):
        label = min(number % 4, twin.known)
        if twin.known:
            expected.append(int(twin.classify(latent[None])[0]) | int(twin.unknown(latent[None])[0]) << 15)
        steps += [("image", packet(image)), ("command", Command.LEARN | label << 8)]
        twin.learn(latent[None], [label])
    seen = run(made, {"packets": [], "latent": 0, "pauses": 0, "steps": steps, "weights": []})
    assert [np.frombuffer(bytes(one), "<u2").item() for one in seen["result"][1:]] == expected
    assert {0, 1} == {word >> 15 for word in expected} and any(word & 0x7fff for word in expected)


@pytest.mark.parametrize("pauses", quick([0, 3], 0))
def test_packets_beside_a_program(pauses, tmp_path):
    """Images come in while those before are computed; a mark is that of its own image."""
    network = strategies.on_engine(strategies.engine_network(1000))
    beside = written(network, "ecp5", tmp_path, pixels=4, lanes=32, outputs=16)
    assert beside.config.loads_beside
    images = strategies.images(5, 9, beside.config.size)
    packets, wrong = [packet(image) for image in images], [0, 0, 1, 0, 1, 1, 0, 0, 1]
    for number in np.flatnonzero(wrong):
        packets[number] += packets[number][:number]
    answers = run(beside, {"packets": packets, "latent": 0, "pauses": pauses, "steps": [], "weights": []})
    assert answers["users"] == wrong and answers["left"] == 0
    assert signed(answers["logits"]) == inference.logits(network, images).tolist()


def test_packets_of_a_design_with_a_stream(tmp_path):
    """The weights come for every image; a packet that is too long spoils no other one."""
    network = strategies.smallest_learner()
    streamed = written(network, "ice40", tmp_path)
    images = strategies.images(9, 6, streamed.config.size)
    packets, wrong = [packet(image) for image in images], [0, 1, 0, 1, 0, 0]
    for number in np.flatnonzero(wrong):
        packets[number] += packets[number][:number]
    weights, boot = (streamed.folder / "weights.bin").read_bytes(), streamed.manifest["boot_bytes"]
    seen = run(streamed, {"packets": packets, "latent": 1, "pauses": 7, "steps": [], "weights": list(weights[:boot] + 6 * weights[boot:])})
    assert seen["users"] == wrong and seen["left"] == 0
    assert signed(seen["logits"]) == inference.logits(network, images).tolist()


def test_packets_of_levels(tmp_path):
    """A packet is an image's packed levels; an early end is told, and the next images are right."""
    made = written(strategies.smallest_learner(), "ice40", tmp_path, learn=True, max_classes=4, exemplars=3, input="levels")
    images = strategies.images(7, 3, made.config.size)
    packets = [list(data) for data in made.pixels(images)]
    assert {len(packet) for packet in packets} == {made.config.image_bytes} and made.config.image_bytes < 3 * made.config.size ** 2
    packets[0] = packets[0][:-1]
    weights, boot = (made.folder / "weights.bin").read_bytes(), made.manifest["boot_bytes"]
    seen = run(made, {"packets": packets, "latent": 1, "pauses": 5, "steps": [], "weights": list(weights[:boot] + 5 * weights[boot:])})
    assert seen["users"] == [1, 0, 0] and seen["left"] == 0
    assert signed(seen["logits"])[1:] == inference.logits(made.network, images)[1:].tolist()


def test_a_design_without_it_is_the_same(tmp_path):
    wrapped = written(strategies.smallest(), "ice40", tmp_path / "with")
    plain = design.generate(strategies.smallest(), "ice40", out=tmp_path / "without").folder
    names = {path.name for path in wrapped.folder.iterdir() if path.is_file()} - {path.name for path in plain.iterdir()}
    assert names == {f"{AXI_STREAM}.v", f"{AXI_STREAM}.sdc", "instance_axis.v"} and plain.name == wrapped.folder.name
    same = [path.name for path in plain.iterdir() if path.read_bytes() == (wrapped.folder / path.name).read_bytes()]
    assert {path.name for path in plain.iterdir()} - set(same) == {"accelerator.core", "manifest.json"}
    core = (wrapped.folder / "accelerator.core").read_text()
    assert re.findall("toplevel: (.*)", core) == [AXI_STREAM, AXI_STREAM, "sim"]
    assert f"- {AXI_STREAM}.v\n" in core and f"- {AXI_STREAM}.sdc\n" in core
    assert "[get_ports aclk]" in (wrapped.folder / f"{AXI_STREAM}.sdc").read_text()
    template = (wrapped.folder / "instance_axis.v").read_text()
    assert "accelerator_axis accelerator_axis_instance (" in template and "// s_axis_image: RGB bytes" in template
    assert template.index("wire [7:0] s_axis_image_tdata;") < template.index("wire s_axis_image_tvalid;")


def test_an_unknown_wrapper_is_refused(tmp_path):
    expected = ("--wrapper axi-steam: expected axi-stream or wishbone or axi-lite or wishbone-dma or axi-lite-dma; "
                "did you mean axi-stream?")
    with pytest.raises(UsageError, match=expected):
        design.generate(strategies.smallest(), "generic", out=tmp_path, wrapper="axi-steam")
    assert not any(tmp_path.iterdir())
