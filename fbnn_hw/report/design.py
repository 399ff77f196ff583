"""A generated design as one page, from its JSON alone.

`facts` are what the verb `report` reads, a dict of plain values: folder; config, estimate, layout, manifest: the files of those
names; datasheet; program_words, transfer_words: of these memories; blocks: {memory: block RAMs} and blocks_available, or None; builds: a
list of {"board", "title", "record": build.json, "placement": placement.json or None, "flash": [(what, offset, bytes)]}; diagram: text
of diagram.svg.
"""

import base64
from html import escape

from . import figures

BOUNDS = {
    "compute": "the array is at work in most cycles",
    "flash": "most cycles are spent waiting for weights from the flash",
    "memory": "a dense layer uses each weight for one pixel, so weights leave the memory on the chip as fast as it can give them",
    "pooling": "the pooling unit works on one channel at a time",
    "control": "most cycles go to setting up steps and writing results"}

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --paper: #ffffff; --stripe: #f3f5f7; --edge: #d0d7de; --link: #0a5cc2;
  --map: #b9d4f3; --weights: #f3cf9f; --free: #e3e7eb; --bad: #b3261e; --good: #1a7f37;
  --a: #3b7dc4; --b: #57a773; --c: #e0a040; --d: #c8503c; --e: #8c959f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa5b1; --paper: #0f1318; --stripe: #1a2027; --edge: #39424d;
  --link: #6cb2ff; --map: #23507f; --weights: #7a5217; --free: #2a323b; --bad: #ff8b82; --good: #5fd07b;
  --a: #5c9de0; --b: #6bbf89; --c: #e6ae58; --d: #e07562; --e: #98a2ad; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1040px; padding: 24px 16px 64px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 Helvetica, Arial, "Liberation Sans", sans-serif; }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 20px; margin: 44px 0 8px; padding-top: 12px; border-top: 1px solid var(--edge); }
h3 { font-size: 17px; margin: 28px 0 6px; } h4 { font-size: 15px; margin: 22px 0 6px; }
details { margin: 10px 0; }
p { margin: 6px 0 12px; max-width: 76ch; } .soft { color: var(--soft); fill: var(--soft); } code { overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: 2px 16px; } a { color: var(--link); }
.cards { display: flex; flex-wrap: wrap; gap: 10px; margin: 18px 0; }
.card { flex: 1 1 150px; min-width: 0; border: 1px solid var(--edge); border-radius: 8px; padding: 10px 12px; background: var(--stripe); }
.card b { display: block; font-size: 21px; font-variant-numeric: tabular-nums; } .card span { display: block; font-size: 13px; }
.scroll { overflow-x: auto; margin: 10px 0 16px; } .scroll > svg, .scroll > img { display: block; width: 100%; min-width: 600px; }
.scroll > svg { max-width: 860px; } figure { margin: 0; } figcaption { font-size: 14px; color: var(--soft); max-width: 80ch; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13.5px; }
th, td { padding: 4px 9px 4px 5px; text-align: left; border-bottom: 1px solid var(--edge); white-space: nowrap; }
th { font-weight: 600; color: var(--soft); } td.n, th.n { text-align: right; } tbody tr:nth-child(odd) { background: var(--stripe); }
td.wrap { white-space: normal; overflow-wrap: anywhere; min-width: 220px; } .met { color: var(--good); } .missed { color: var(--bad); }
meter { width: 130px; height: 12px; } details > summary { cursor: pointer; color: var(--link); }
svg text { fill: var(--ink); font-family: Helvetica, Arial, "Liberation Sans", sans-serif; } svg text.soft { fill: var(--soft); }
svg text.strong { font-weight: 600; } svg .grid { stroke: var(--edge); stroke-width: 1; fill: none; } svg .stripe { fill: var(--stripe); }
svg .roof { stroke: var(--ink); stroke-width: 2; fill: none; } svg .dashed { stroke-dasharray: 7 5; }
svg .map { fill: var(--map); stroke: var(--paper); } svg .weights { fill: var(--weights); } svg .free { fill: var(--free); }
svg .learned-classifier { fill: #8a63c9; } svg .learned-counters { fill: #3aa6a6; } svg .learned-exemplars { fill: #d977a8; }
svg .fill-compute, svg .path-logic { fill: var(--a); } svg .fill-flash, svg .path-routing { fill: var(--d); }
svg .fill-memory, svg .path-setup { fill: var(--c); } svg .fill-pooling, svg .path-clk-to-q { fill: var(--b); }
svg .fill-control { fill: var(--e); } svg rect { stroke-width: 0.5; }
""" + "".join(f"svg .part{i} {{ fill: {colour}; }}\n" for i, colour in enumerate(
    ("#3b7dc4", "#e0a040", "#57a773", "#c8503c", "#8a63c9", "#3aa6a6", "#d977a8", "#9b7b4f", "#7f8c2f", "#8c959f")))


def summary(facts):
    """What the page shows, as plain values: layers with what binds them, roofs, memories, builds."""
    config = facts["config"]
    return {
        "model": facts["manifest"]["model"], "target": facts["estimate"]["target"], "part": facts["estimate"]["part"],
        "macs_per_cycle": _peak(config), "cycles": facts["estimate"]["cycles"], "layers": layers(facts), "roofs": dict(roofs(facts)),
        "memories": [dict(zip(("memory", "words", "bits", "holds", "block_rams"), row)) for row in memories(facts)],
        "builds": [{"board": build["board"], "kind": build["record"].get("kind"), "clock_mhz": build["record"]["clock_hz"] / 1e6,
                    "fmax_mhz": build["record"].get("fmax_mhz"), "met": build["record"].get("met"),
                    "frames_per_second": build["record"].get("frames_per_second")} for build in facts["builds"]]}


def _peak(config):
    return config["pixels"] * config["lanes"] * config["outputs"]


def layers(facts):
    """The layers of estimate.json, each with number, intensity (MAC a weight bit), macs_per_cycle, streamed_bits of a pass and bound."""
    config, streamed = facts["config"], {}
    fetched = (steps[0]["layer"] for _, steps in _runs(facts) if steps[0]["tile_words"])
    for name, transfer in zip(fetched, config["transfers"]):
        bits = (transfer["words"] - transfer["words"] * transfer["resident"] // 16) * config["outputs"] * config["lanes"]
        streamed[name] = streamed.get(name, 0) + bits
    found = []
    firsts = list(_firsts(facts).items())
    if config.get("learning"):
        firsts.append(("logits", {"kind": "learner", "vector": True}))  # no step of the program
    for number, (layer, (name, step)) in enumerate(zip(facts["estimate"]["layers"], firsts, strict=True), start=1):
        spent = {part: layer[part] for part in ("reads", "drain", "move", "wait", "other")}
        most = max(spent, key=spent.get)
        if most == "reads":
            bound = "pooling" if step["kind"] == "lgap" else "memory" if step["vector"] else "compute"
        else:
            bound = {"wait": "flash", "move": "memory"}.get(most, "control")
        found.append(layer | {
            "number": number, "bound": bound, "streamed_bits": streamed.get(name, 0), "macs_per_cycle": layer["macs"] / layer["cycles"],
            "intensity": layer["macs"] / layer["weight_bits"] if layer["weight_bits"] else None})
    return found


def roofs(facts):
    """(name, weight bits a cycle): what limits the weights, fastest first."""
    config = facts["config"]
    found = [("weights on the chip", config["outputs"] * config["lanes"])]
    if any(layer["streamed_bits"] for layer in layers(facts)):
        found.append(("flash", facts["estimate"]["flash_bits_per_cycle"]))
    return found


def memories(facts):
    """(memory, words, bits, what it holds, block RAMs or None)."""
    config, blocks = facts["config"], facts["blocks"] or {}
    rows = [(f"{config['pixels']} feature banks", config["feature_words"], config["feature_words"] * config["pixels"] * config["lanes"],
             "feature maps" + (", resident weights" if config["resident_rows"] else "") + (
                 ", classifier, counters, exemplars" if config.get("learning") else ""), blocks.get("features"))]
    name, key, what = (("weight ring", "weight ring", "weights on their way from the flash to the array")
                       if config["weights"] == "stream" else ("weight memory", "weights", "all weights, in the order of their use"))
    rows.append((name, config["weight_words"], config["weight_words"] * config["outputs"] * config["lanes"], what, blocks.get(key)))
    words = facts["program_words"]
    rows.append(("program", words, 16 * words, f"{len(config['program'])} steps of the sequencer", blocks.get("program")))
    if config["weights"] == "stream":
        words = facts["transfer_words"]
        rows.append(("transfers", words, 16 * words, "which weights of each layer are resident",
                     blocks.get("transfers")))
    return rows


def lifetimes(facts):
    """(rows, places) of figures.maps: for each map of each frame of a pass, from which to which row it stays in the banks."""
    layout, frames = facts["layout"], facts["config"]["frames"]
    labels = {step["layer"]: layer["layer"] for step, layer in zip(_firsts(facts).values(), facts["estimate"]["layers"])}
    rows, starts, reads, ends = [], [], [], []  # ends: the row of each step
    for frame, steps in _runs(facts):
        suffix = f", frame {frame + 1}" if frames > 1 and frame is not None else ""
        if steps[0]["load"]:
            starts.append(len(rows))
            rows.append(f"image in{suffix}")
        for step in steps:
            size = ((step["words"] - 1) * step["word_stride"] + step["tiles"] if step["kind"] == "lgap" else
                    (step["rows"] - 1) * step["row_stride"] + (step["columns"] - 1) * step["block_stride"]
                    + (step["words"] - 1) * step["word_stride"] + 1)
            offsets = range(frames) if step["shared"] else [0]
            reads += [(len(rows), step["source"] + i * facts["config"]["frame_stride"], size) for i in offsets]
            ends.append(len(rows))
        rows.append(labels[steps[0]["layer"]] + suffix)
    maps = []
    for name, place in layout["layers"].items():
        _, height, width = place["shape"]
        words = place["pitch"] * -(-height // 2) * -(-width // max(1, layout["pixels"] // 2))
        for frame, (base, done) in enumerate(zip(place["base"], place["steps"], strict=True)):
            born = starts[frame] if name == "input" else ends[done - 1]
            maps.append((f"{name}{f', frame {frame + 1}' * (frames > 1)}", base, words, born))
    places = []
    for name, base, words, born in maps:
        # Until another map takes its words.
        over = min((row for _, other, count, row in maps if row > born and other < base + words and base < other + count),
                   default=len(rows))
        last = max((row for row, start, size in reads if born < row < over and start < base + words and base < start + size), default=born)
        places.append((name, base, words, born, last))
    return rows, places


def _firsts(facts):
    """{layer: its first step}, in the order of estimate.json."""
    found = {}
    for step in facts["config"]["program"]:
        found.setdefault(step["layer"], step)
    return found


def _runs(facts):
    """(frame, or None for all of them; steps) of the program: each time a layer is worked on."""
    found, frame, before = [], -1, None
    for step in facts["config"]["program"]:
        frame += step["load"]
        if before is None or step["layer"] != before["layer"] or step["load"] or before["result"]:
            found.append((None if step["shared"] else frame, []))
        found[-1][1].append(step)
        before = step
    return found


def page(facts):
    """The text of the page."""
    title = f"{facts['manifest']['model']} on {facts['estimate']['part']}"
    sections = [("layers", "Layers", _layers(facts)), ("roofline", "Roofline", _roofline(facts)), ("memory", "Memory", _memory(facts)),
                ("builds", "Place and route", _builds(facts)), ("diagram", "Block diagram", _diagram(facts)),
                ("origin", "Origin", _origin(facts))]
    nav = "".join(f'<a href="#{name}">{heading}</a>' for name, heading, _ in sections)
    body = "".join(f'<section id="{name}"><h2>{heading}</h2>{text}</section>\n' for name, heading, text in sections)
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
            f"<style>{STYLE}</style></head>\n<body><header><h1>{escape(title)}</h1>"
            f'<p class="soft">{escape(facts["folder"])}, {escape(facts["manifest"]["generator"])}</p>{_cards(facts)}'
            f"<nav>{nav}</nav></header>\n{body}</body></html>\n")


def _unit(known):
    return "a frame" if known["frames"] == 1 else f"a pass of {known['frames']} frames"


def _cards(facts):
    known, config = facts["estimate"], facts["config"]
    cards = [(f"{known['cycles']:,}", f"cycles {_unit(known)}", "estimated; a simulation must give the same"),
             (f"{known['frames_per_second']:.1f}", f"frames/s at {known['clock_hz'] / 1e6:g} MHz", "estimated, the target's clock"),
             (f"{_peak(config):,}", "MAC a cycle",
              f"{config['pixels']} pixels x {config['lanes']} lanes x {config['outputs']} outputs"),
             (f"{known['lut4']:,}", "LUT4", "estimated, without link and flash reader")]
    for build in facts["builds"]:
        record = build["record"]
        if "fmax_mhz" in record:
            speed = record["fmax_mhz"] * 1e6 * known["frames"] / known["cycles"]
            cards.append((f"{speed:.1f}", f"frames/s at {record['fmax_mhz']:.1f} MHz",
                          f"placed and routed for {build['title']}: Fmax / estimated cycles"))
    return '<div class="cards">' + "".join(
        f'<div class="card"><b>{value}</b>{escape(what)}<span class="soft">{escape(how)}</span></div>'
        for value, what, how in cards) + "</div>"


def _table(head, rows, wrap=()):
    """A table that scrolls by itself; numbers to the right.  Cells: numbers, texts, or ready HTML as bytes."""
    columns = [[row[i] for row in rows] for i in range(len(head))]
    right = [bool(rows) and all(isinstance(value, int | float) or value is None for value in column) for column in columns]
    digits = [max((len(repr(v).partition(".")[2]) for v in column if isinstance(v, float)), default=0) for column in columns]

    def cell(i, value):
        if isinstance(value, bytes):
            text = value.decode()
        elif value is None:
            text = "-"
        else:
            text = f"{value:,.{digits[i]}f}" if right[i] else escape(str(value))
        name = "n" if right[i] else "wrap" if i in wrap else ""
        return f'<td class="{name}">{text}</td>' if name else f"<td>{text}</td>"

    heads = "".join(f'<th class="n">{escape(name)}</th>' if r else f"<th>{escape(name)}</th>" for name, r in zip(head, right))
    body = "".join("<tr>" + "".join(cell(i, value) for i, value in enumerate(row)) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def _figure(svg, caption):
    return f'<figure><div class="scroll">{svg}</div><figcaption>{caption}</figcaption></figure>'


def _layers(facts):
    streams = facts["config"]["weights"] == "stream"
    head = ["#", "layer", "bound by", "cycles", "reads", "writes", "moves", "waits", "other", "MAC", "array use, %", "weight bits"]
    rows = []
    for x in layers(facts):
        rows.append([*(x[key] for key in ("number", "layer", "bound", "cycles", "reads", "drain", "move", "wait", "other", "macs")),
                     round(100 * x["array_use"], 1), x["weight_bits"],
                     *([x["weight_bits"] * x["resident_sixteenths"] // 16, x["streamed_bits"]] if streams else [])])
    if streams:
        head += ["on the chip", "streamed"]
    bounds = dict.fromkeys(row[2] for row in rows)
    return ("<p>Cycles are estimated and exact as long as no stream stalls. They go to reads of the array, writes of results, moves of "
            f"resident weights, waits for weights, and the set-up of steps. All counts are of {_unit(facts['estimate'])}.</p>"
            + _table(head, rows)
            + "<ul>" + "".join(f"<li><b>{name}</b>: {BOUNDS[name]}.</li>" for name in bounds) + "</ul>")


def _roofline(facts):
    points = [(x["number"], x["layer"], x["intensity"], x["macs_per_cycle"], x["bound"]) for x in layers(facts)
              if x["intensity"] and x["macs_per_cycle"]]
    text = ("Each layer by its number in the table. A layer cannot be above the solid line. ")
    if len(roofs(facts)) > 1:
        text += "Above the dashed line are layers with a part of their weights on the chip, or fetched while earlier layers computed. "
    return _figure(figures.roofline(points, roofs(facts), _peak(facts["config"])), text + "Estimated.")


def _memory(facts):
    config, known = facts["config"], facts["estimate"]
    used, depth, resident = known["feature_words_used"], config["feature_words"], config["resident_rows"]
    rows, places = lifetimes(facts)
    split = known.get("learning", {}).get("rows", {})
    learned = [(name, split[name], f"learned-{name}") for name in ("classifier", "counters", "exemplars") if name in split]
    text = _table(("memory", "words", "bits", "holds", *(("block RAMs",) if facts["blocks"] else ())),
                  [row if facts["blocks"] else row[:4] for row in memories(facts)])
    if facts["blocks"]:
        text += f"<p>Block RAMs: {sum(facts['blocks'].values()):,} of {facts['blocks_available']:,} (estimated).</p>"
    text += "<h3>A feature bank</h3>" + _figure(
        figures.bar("What a feature bank holds", [
            ("feature maps", used, "map"), *learned, ("resident weights", resident, "weights"),
            ("free", depth - used - resident - sum(words for _, words, _ in learned), "free")], "words"),
        f"Each of the {config['pixels']} banks has {depth:,} words of {config['lanes']} bits and one port."
        + (f" Resident weights: {resident * config['pixels'] * config['lanes']:,} bits from word {config['resident_base']:,} on, loaded "
           "once after reset." if resident else ""))
    text += "<h3>Feature maps</h3>" + _figure(
        figures.maps(rows, places, used), "Addresses to the right, layers downwards: a map occupies its words from the layer that writes "
        "it to the last layer that reads it, then they are used again.")
    shapes = {name: " x ".join(map(str, place["shape"])) for name, place in facts["layout"]["layers"].items()}
    text += f"<details><summary>{len(places)} maps</summary>" + _table(
        ("map", "channels x rows x columns", "first word", "words", "written by", "last read by"),
        [(name, shapes[name.split(", ")[0]], base, words, rows[born], rows[dies])
         for name, base, words, born, dies in places]) + "</details>"
    program = config["program"]
    steps = [(i, step["layer"], "pooling" if step["kind"] == "lgap" else f"{'3x3' if step['taps'] == 9 else '1x1'}",
              step["source"], step["target"], step["tiles"], f"{step['rows']} x {step['columns']}", step["words"] * step["repeat"],
              step["tiles"] * step["tile_words"]) for i, step in enumerate(program, start=1)]
    text += ("<h3>Program</h3><details><summary>" + f"{len(program)} steps</summary>"
             + _table(("step", "layer", "window", "reads from", "writes from", "tiles", "blocks", "words a tap", "weight words"), steps)
             + "</details>")
    return text


def _builds(facts):
    if not facts["builds"]:
        return f"<p>Not built for a board yet: <code>fbnn-hw build {escape(facts['folder'])} --board NAME</code></p>"
    return "".join(_build(facts, build) for build in facts["builds"])


def _build(facts, build):
    record, known = build["record"], facts["estimate"]
    text = f"<h3>{escape(build['title'])}</h3>"
    clock = record["clock_hz"] / 1e6
    if "fmax_mhz" not in record:
        return text + ("<p>Synthesised; the vendor's tool places and routes.</p>"
                       + _table(("cell", "used"), sorted(record["cells"].items())) + _tools(record))
    verdict = '<b class="met">met</b>' if record["met"] else '<b class="missed">missed</b>'
    text += (f"<p>Placed and routed, seed {record['seed']}, in {record['minutes']:g} minutes. Timing {verdict}: {record['fmax_mhz']:.1f} "
             f"MHz reached, {clock:g} MHz wanted. {record['fmax_mhz'] * 1e6 * known['frames'] / known['cycles']:.1f} frames/s at the "
             "frequency reached" + (f", {clock * 1e6 * known['frames'] / known['cycles']:.1f} at the one wanted" if record["met"] else "")
             + f" ({known['cycles']:,} estimated cycles {_unit(known)}).</p>")
    text += "<h4>Utilisation</h4>" + _table(
        ("cell", "used", "of", "%", ""),
        [(cell, used, record["available"][cell], round(100 * used / record["available"][cell], 1),
          f'<meter min="0" max="1" value="{used / record["available"][cell]:.3f}"></meter>'.encode())
         for cell, used in record["used"].items()])
    luts = record["cells"].get("SB_LUT4") or record["cells"].get("LUT4")
    if luts:
        text += (f"<p>LUT4 after synthesis: {luts:,} with link and board, {known['lut4']:,} estimated for the accelerator alone.</p>")
    if record["path"]:
        text += "<h4>Critical path</h4>" + _figure(
            figures.slowest_path([(step["type"], step["delay_ns"]) for step in record["path"]], 1000 / record["clock_mhz"]),
            f"The slowest path, through {record['levels']} levels of logic.")
        spent, rows = 0.0, []
        for step in record["path"]:
            spent += step["delay_ns"]
            rows.append((step["type"], round(step["delay_ns"], 2), round(spent, 2), step["from"], step["to"]))
        text += "<details><summary>its cells</summary>" + _table(("kind", "ns", "sum, ns", "from", "to"), rows, wrap=(3, 4)) + "</details>"
    if build["placement"]:
        drawn = build["placement"]
        text += "<h4>Floorplan</h4>" + _figure(
            figures.floorplan(drawn["columns"], drawn["rows"], drawn["components"]),
            "A square is a tile of the part, in the colour of the component that has most cells in it; the numbers count cells.")
    flash = [(f"{offset:#x}", size, name) for name, offset, size in build["flash"]]
    if flash:
        text += "<h4>Flash</h4>" + _table(("from", "bytes", "holds"), flash)
    return text + _tools(record)


def _tools(record):
    rows = [*record["tools"].items(), ("seed", record["seed"]), ("built in", f"{record['minutes']:g} minutes")]
    return "<h4>Tools</h4>" + _table(("tool", "version"), [(name, str(value)) for name, value in rows])


def _diagram(facts):
    data = base64.b64encode(facts["diagram"].encode()).decode()
    return f'<div class="scroll"><img alt="Block diagram of the accelerator" src="data:image/svg+xml;base64,{data}"></div>'


def _origin(facts):
    manifest = facts["manifest"]
    rows = [("checkpoint", manifest["checkpoint"]["file"]), ("its SHA-256", manifest["checkpoint"]["sha256"]),
            ("network's SHA-256", manifest["ir_sha256"]), ("configuration", manifest["config_id"]),
            ("seed of the training", manifest["seed"]),
            ("classes", f"{len(manifest['classes'])}: {', '.join(manifest['classes'])}"), ("part", facts["estimate"]["part"]),
            ("its datasheet", facts["datasheet"]), *((f"{tool}", version) for tool, version in manifest["tools"].items())]
    return _table(("", ""), [(name, "-" if value is None else str(value)) for name, value in rows], wrap=(1,))
