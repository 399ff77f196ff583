"""The HTML pages of a generated design and of a board's test, from the templates beside this file; Jinja2 escapes all that they show."""

import base64
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..machine.cycles import BOUNDS
from . import figures
from .design import layers, lifetimes, memories, peak, roofs

LEARNED = ("classifier", "counters", "exemplars")


class Share(float):
    """A number from 0 to 1 that is shown as a bar."""


class Table:
    """A table that scrolls by itself.

    head: names of the columns.  rows: numbers, texts, `Share`, None.  wrap: columns that break long texts.  A column of numbers is
    set to the right, with as many decimals as its longest number has.
    """

    def __init__(self, head, rows, wrap=()):
        self.rows, self.columns = list(rows), []
        for index, name in enumerate(head):
            column = [row[index] for row in self.rows]
            numeric = bool(column) and all(value is None or isinstance(value, int | float) and not isinstance(value, Share)
                                           for value in column)
            decimals = max((len(repr(value).partition(".")[2]) for value in column if isinstance(value, float)), default=0)
            self.columns.append((name, "n" if numeric else "wrap" if index in wrap else None, decimals))

    @property
    def heads(self):
        """(text, class or None) of each column's head."""
        return [(name, "n" if kind == "n" else None) for name, kind, _ in self.columns]

    @property
    def cells(self):
        """Rows of (text or `Share`, class or None)."""
        return [[(self._text(value, kind, decimals), kind) for value, (_, kind, decimals) in zip(row, self.columns)] for row in self.rows]

    @staticmethod
    def _text(value, kind, decimals):
        if value is None:
            return "-"
        if isinstance(value, Share):
            return value
        return f"{value:,.{decimals}f}" if kind == "n" else str(value)


@cache
def _environment():
    environment = Environment(loader=PackageLoader("fbnn_hw.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
                              lstrip_blocks=True, keep_trailing_newline=True)
    environment.filters |= {"comma": "{:,}".format, "fixed": "{:,.1f}".format, "general": "{:g}".format}
    environment.tests["share"] = lambda value: isinstance(value, Share)
    return environment


def render(facts):
    """The text of the page.  facts: see report.design."""
    estimate, config, manifest = facts["estimate"], facts["config"], facts["manifest"]
    points = [(x["number"], x["layer"], x["intensity"], x["macs_per_cycle"], x["bound"]) for x in layers(facts)
              if x["intensity"] and x["macs_per_cycle"]]
    origin = [("checkpoint", manifest["checkpoint"]["file"]), ("its SHA-256", manifest["checkpoint"]["sha256"]),
              ("network's SHA-256", manifest["ir_sha256"]), ("configuration", manifest["config_id"]),
              ("seed of the training", manifest["seed"]), ("classes", f"{len(manifest['classes'])}: {', '.join(manifest['classes'])}"),
              ("part", estimate["part"]), ("its datasheet", facts["datasheet"]), *manifest["tools"].items()]
    return _environment().get_template("page.html").render(
        facts, title=f"{manifest['model']} on {estimate['part']}", peak=peak(config), learned=config.learning is not None,
        rate=lambda hertz: hertz / estimate["cycles"],
        layers=_layers(facts), memory=_memory(facts), builds=[_build(build) for build in facts["builds"]],
        roofline={"figure": Markup(figures.roofline(points, roofs(facts), peak(config))), "flash": len(roofs(facts)) > 1},
        diagram=base64.b64encode(facts["diagram"].encode()).decode(),
        origin=Table(("", ""), [(name, "-" if value is None else str(value)) for name, value in origin], wrap=(1,)))


def selftest(report):
    """The text of the page of `fbnn-hw selftest`, from what it found."""
    origin = [(name.replace("_", " "), value) for name, value in report.items() if name not in ("checks", "passed", "simulated")]
    return _environment().get_template("selftest.html").render(
        title=f"fbnn-hw selftest: {report['design']}, {_outcome(report)}", simulated=report["simulated"],
        checks=Table(("check", "result", "expected", "what the board did"), [
            (check["check"], _outcome(check), check["expected"], check["found"]) for check in report["checks"]], wrap=(2, 3)),
        origin=Table(("", ""), [(name, "not measured" if value is None else str(value)) for name, value in origin], wrap=(1,)))


def _outcome(test):
    return "passed" if test["passed"] else "failed"


def _layers(facts):
    streams, rows = facts["config"].weights == "stream", layers(facts)
    head = ["#", "layer", "bound by", "cycles", "reads", "writes", "moves", "waits", "other", "MAC", "array use, %", "weight bits",
            *(("on the chip", "streamed") if streams else ())]
    table = Table(head, [
        [*(x[key] for key in ("number", "layer", "bound", "cycles", "reads", "drain", "move", "wait", "other", "macs")),
         round(100 * x["array_use"], 1), x["weight_bits"],
         *((x["weight_bits"] * x["resident_sixteenths"] // 16, x["streamed_bits"]) if streams else ())] for x in rows])
    return {"table": table, "bounds": [(bound, BOUNDS[bound]) for bound in dict.fromkeys(x["bound"] for x in rows) if bound in BOUNDS]}


def _memory(facts):
    config, estimate, blocks = facts["config"], facts["estimate"], facts["blocks"]
    used, resident = estimate["feature_words_used"], config.resident_rows
    rows, places = lifetimes(facts)
    split = estimate.get("learning", {}).get("rows", {})
    tables = [(name, split[name], f"learned-{name}") for name in LEARNED if name in split]
    free = config.feature_words - used - resident - sum(words for _, words, _ in tables)
    shapes = {name: " x ".join(map(str, place["shape"])) for name, place in facts["layout"]["layers"].items()}
    steps = [(index, step.layer, "list" if config.lists else "pooling" if step.kind == "lgap" else "3x3" if step.taps == 9 else "1x1",
              step.source, step.target,
              step.tiles, f"{step.rows} x {step.columns}", step.words * step.repeat, step.tiles * step.tile_words)
             for index, step in enumerate(config.program, start=1)]
    return {
        "table": Table(("memory", "words", "bits", "holds", *(("block RAMs",) if blocks else ())),
                       [row if blocks else row[:4] for row in memories(facts)]),
        "blocks": sum(blocks.values()) if blocks else None, "resident_bits": resident * config.row_bits,
        "bank": Markup(figures.bar("What a feature bank holds", [
            ("feature maps", used, "map"), *tables, ("resident weights", resident, "weights"), ("free", free, "free")], "words")),
        "figure": Markup(figures.maps(rows, places, used)),
        "maps": Table(("map", "channels x rows x columns", "first word", "words", "written by", "last read by"),
                      [(name, shapes[name.split(", ")[0]], base, words, rows[first], rows[last])
                       for name, base, words, first, last in places]),
        "steps": Table(("step", "layer", "window", "reads from", "writes from", "tiles", "blocks", "words a tap", "weight words"), steps)}


def _build(build):
    """A build's record with its tables and figures."""
    record = build["record"]
    tools = [*record["tools"].items(), ("seed", record["seed"]), ("built in", f"{record['minutes']:g} minutes")]
    view = {"title": build["title"], "record": record, "tools": Table(("tool", "version"), [(name, str(value)) for name, value in tools]),
            "flash": Table(("from", "bytes", "holds"), [(f"{offset:#x}", size, name) for name, offset, size in build["flash"]])}
    if "fmax_mhz" not in record:
        return view | {"cells": Table(("cell", "used"), sorted(record["cells"].items()))}
    path, placement, spent, rows = record["path"], build["placement"], 0.0, []
    for step in path:
        spent += step["delay_ns"]
        rows.append((step["type"], round(step["delay_ns"], 2), round(spent, 2), step["from"], step["to"]))
    available, seeds = record["available"], record.get("seeds", ())
    return view | {
        "seeds": Table(("seed", "MHz", "timing"), [
            (str(seed["seed"]), seed.get("fmax_mhz"), seed.get("error") or ("met" if seed["met"] else "missed")) for seed in seeds]),
        "use": Table(("cell", "used", "of", "%", ""), [
            (cell, used, available[cell], round(100 * used / available[cell], 1), Share(used / available[cell]))
            for cell, used in record["used"].items()]),
        "luts": record["cells"].get("SB_LUT4") or record["cells"].get("LUT4"),
        "slowest": path and Markup(figures.slowest_path([(step["type"], step["delay_ns"]) for step in path], 1000 / record["clock_mhz"])),
        "path": Table(("kind", "ns", "sum, ns", "from", "to"), rows, wrap=(3, 4)),
        "arrivals": Table(("part", "latest arrival, ns", "slack, ns", "into", "of"), [
            (x["part"], round(x["arrival_ns"], 2), round(1000 / record["clock_mhz"] - x["arrival_ns"], 2), x["into"], x["cell"])
            for x in record.get("arrivals", ())], wrap=(4,)),
        "floorplan": placement and Markup(figures.floorplan(placement["columns"], placement["rows"], placement["components"]))}
