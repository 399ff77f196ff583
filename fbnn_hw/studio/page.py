"""One HTML file that teaches a design: its modules, its facts and, compiled to WebAssembly, its gates.  The file fetches nothing.

The page's sources lie in web/: index.html, style.css and JavaScript modules, each readable by itself.  They are put into the file one
after the other, in the order of their imports, as the one module that a file opened by hand may run.
"""

import base64
import gzip
import html
import io
import json
import re
from pathlib import Path

import numpy as np

from ..base.errors import InputError
from ..base.files import bundled
from ..design import link_speeds, review_exemplars
from ..machine import protocol

WEB = Path(__file__).parent / "web"
PAGE, WORKER, DEVICE = "app.mjs", "gates_worker.mjs", "device.mjs"
PICTURES = bundled("docs") / "pictures"
IMPORT = re.compile(r'^import\s+(?:\{[^}]*\}\s+from\s+)?"\./([\w.]+)";\n', re.MULTILINE)
PLAN = ("pixels", "lanes", "max_classes", "shipped", "slots", "copies", "counter_bits", "adds", "prototype", "learn_base", "slots_base",
        "fan_in_words", "stored_bits", "per_row", "chunks", "planes", "averages", "unknown", "forget", "block_rows", "class_rows",
        "slot_rows")
SHIPPED_EXAMPLES = 2
"""Pictures of each class that ships which the page brings along."""


def write(design, gates=None, server=None) -> str:
    """The text of the page for a `Design` that learns.

    gates: `simulate.wasm.Gates`, or None: the page then speaks to boards alone.  server: what the page must know of the server that
    sends it, a dictionary, or None for a file.
    """
    facts = of(design)
    if gates:
        facts["gates"] = {"module": _packed(gates.module), "files": {name: _packed(data) for name, data in gates.files.items()}}
    return _filled("index.html", facts | {"server": server}, SCRIPT=bundle(PAGE), WORKER=bundle(WORKER))


def write_device(design, facts) -> str:
    """The text of the page for a simulated device.  facts: of `simulate.device.watched`."""
    return _filled("device.html", facts | {"title": title(design)}, SCRIPT=bundle(DEVICE))


def _filled(name, facts, **parts):
    """A page of web/ with its style, its facts and other parts in their places."""
    parts |= {"STYLE": (WEB / "style.css").read_text(), "TITLE": html.escape(facts["title"]),
              "FACTS": json.dumps(facts, separators=(",", ":")).replace("<", "\\u003c")}
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], (WEB / name).read_text())


def bundle(name) -> str:
    """The text of a module and, before it, of all that it imports, without the words import and export."""
    texts: dict[str, str] = {}

    def add(name):
        if name not in texts:
            text = (WEB / name).read_text()
            for other in IMPORT.findall(text):
                add(other)
            texts[name] = f"// ---- {name}\n" + re.sub(r"^export ", "", IMPORT.sub("", text), flags=re.MULTILINE)

    add(name)
    return "\n".join(texts.values()).replace("</script", "<\\/script")


def protocol_module() -> str:
    """The text of web/numbers.mjs: the protocol's numbers for the page."""
    numbers = {"LINK_VERSION": protocol.VERSION} | {name: getattr(protocol, name) for name in (
        "SYNC", "REPLY", "ERROR", "HEADER_BYTES", "CRC_BYTES", "CRC_POLYNOMIAL", "CRC_START", "LONGEST_PAYLOAD", "LONGEST_POKE",
        "OPERAND_BYTES", "IDENTITY_BYTES", "STATUS_BYTES", "LOGITS", "LATENT", "UNKNOWN")}
    values = numbers | {
        "WORD_SIZES": protocol.WORD_BYTES, "Opcode": {one.name: one for one in protocol.Opcode},
        "Space": {one.name: one for one in protocol.Space},
        "Fault": {int(one): {"name": one.name, "repeat": one.repeat, "damaged": one.damaged} for one in protocol.Fault}}
    return ("// The numbers of fbnn_hw/machine/protocol.py, written by docs/benchmarks/teach_page.py.\n\n"
            + "".join(f"export const {name} = {json.dumps(value)};\n" for name, value in values.items()))


def check(design) -> None:
    """Raises InputError for a design that does not learn, or that takes images as levels, which the page does not make."""
    if design.config.learning is None:
        raise InputError(f"{design.folder}: this design does not learn; expected one made with fbnn-hw generate --learn")
    if design.config.takes_levels:
        raise InputError(f"{design.folder}: takes images as levels, which the page does not make; expected one made without --input levels")


def of(design) -> dict:
    """The values of a `Design` that the page reads, as plain values.  Raises InputError as `check`."""
    check(design)
    config, estimate, plan = design.config, design.estimate, design.config.learning
    learner, where = design.learner(), design.layout["latent_bits"]
    labels, latents = review_exemplars(design) or ([], [])
    return {
        "title": title(design),
        "design": design.folder.name,
        "config": config.id, "model": design.model_mark, "classes": list(design.classes), "size": config.size,
        "clock_hz": estimate["clock_hz"], "bauds": [] if generic(design) else link_speeds(design),
        "cycles": estimate["cycles"], "learn_cycles": estimate["learning"]["learn_cycles"],
        "part": estimate["part"], "macs": sum(layer["macs"] for layer in estimate["layers"]),
        "rows": estimate["learning"]["rows"], "row_bits": estimate["learning"]["row_bits"],
        "engine": {"pixels": config.pixels, "lanes": config.lanes, "outputs": config.outputs},
        **of_learner(learner, plan), "latent_bits": None if where == list(range(len(where))) else where,
        "review": {"labels": [int(label) for label in labels],
                   "latents": _rows(np.asarray(latents, np.uint8).reshape(-1, learner.head.latent))},
        "layers": {name: place for name, place in design.layout["layers"].items() if len(place["base"]) == 1},
        "layer_cycles": [{key: layer[key] for key in ("layer", "cycles", "macs", "weight_bits")} for layer in estimate["layers"]],
        "examples": examples(design), "gates": None}


def title(design) -> str:
    """The title of a design on the page: its checkpoint, and its part where there is one."""
    name = (design.manifest["checkpoint"]["file"] or design.manifest["model"]).removesuffix(".pt")
    return name if generic(design) else f"{name} on {design.estimate['part']}"


def generic(design) -> bool:
    """Whether a design is for no part, so that no board can hold it."""
    return design.estimate["target"] == "generic"


def of_learner(learner, plan) -> dict:
    """The values of a `Learner` and its `LearnPlan` that state.mjs and memory.mjs read."""
    head = learner.head
    return {
        "plan": {name: getattr(plan, name) for name in PLAN} | {
            "latent": head.latent, "hidden": head.hidden, "groups": head.groups, "hidden_copies": head.hidden_copies,
            "fan_in": head.fan_in, "strong": None if plan.averages else plan.config.strong(0),
            "presented_most": learner.config.most_presented},
        "check": learner.design, "hidden": _rows(learner.shipped_hidden)}


def examples(design) -> list[dict]:
    """[{name, kind, data}]: pictures to ask about, of the classes that ship, and to teach, as data URLs."""
    from PIL import Image

    from ..data.datasets import load

    ask = []
    images = load("fixture")
    shared = [name for name in design.classes if name in images.classes]
    if shared and images.images.shape[-1] == design.config.size:
        examples = images.select(shared).thinned(SHIPPED_EXAMPLES)
        for image, label in zip(examples.images, examples.labels):
            Image.fromarray(image.transpose(1, 2, 0)).save(file := io.BytesIO(), "png", optimize=True)
            ask.append({"name": examples.classes[label], "kind": "ask", "data": _url("png", file.getvalue())})
    teach = [{"name": "mug", "kind": "teach", "data": _url("jpeg", path.read_bytes())} for path in sorted(PICTURES.glob("mug/*.jpg"))]
    asked = [{"name": "mug", "kind": "ask", "data": _url("jpeg", path.read_bytes())} for path in sorted(PICTURES.glob("mug-*.jpg"))]
    return [*teach, *asked, *ask]


def _url(kind, data):
    return f"data:image/{kind};base64,{_text(data)}"


def _text(data):
    return base64.b64encode(bytes(data)).decode()


def _rows(rows):
    """Rows of bits, each as packed bytes in text."""
    return [_text(row) for row in np.packbits(rows, axis=1, bitorder="little")]


def _packed(data):
    return _text(gzip.compress(data, 9, mtime=0))
