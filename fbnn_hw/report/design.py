"""The content of a design's report, as plain values.

`facts` are what `facts.read` returns, a dict:

    folder             name of the design's folder
    config             its AcceleratorConfig
    estimate, layout, manifest    the JSON files of those names
    datasheet          of the part
    blocks             {memory: block RAMs}, or None where the part has none; blocks_available: the part's
    builds             a list of {"board", "title", "record": build.json, "placement": placement.json or None,
                       "flash": [(name, offset, bytes)]}
    diagram            text of diagram.svg
"""

from ..machine.step import READ_BITS


def summary(facts):
    """The page's figures as plain values: layers, roofs, memories, builds."""
    estimate = facts["estimate"]
    return {
        "model": facts["manifest"]["model"], "target": estimate["target"], "part": estimate["part"],
        "macs_per_cycle": peak(facts["config"]), "cycles": estimate["cycles"], "layers": layers(facts), "roofs": dict(roofs(facts)),
        "memories": [dict(zip(("memory", "words", "bits", "holds", "block_rams"), row)) for row in memories(facts)],
        "builds": [{"board": build["board"], "kind": build["record"].get("kind"), "clock_mhz": build["record"]["clock_hz"] / 1e6,
                    "fmax_mhz": build["record"].get("fmax_mhz"), "met": build["record"].get("met"),
                    "frames_per_second": build["record"].get("frames_per_second"),
                    "end_to_end_frames_per_second": build["record"].get("end_to_end_frames_per_second")} for build in facts["builds"]]}


def peak(config):
    """MAC a cycle of the array."""
    return config.pixels * config.lanes * config.outputs


def layers(facts):
    """The layers of estimate.json, each with number, intensity (MAC a weight bit), macs_per_cycle and streamed_bits of a pass."""
    config = facts["config"]
    fetched = dict.fromkeys((step.layer for step in config.program), 0)
    names = list(fetched)
    for step in config.program if config.transfers else ():  # a memory of all weights has no transfers
        fetched[step.layer] += step.tiles * step.tile_words
    fetched = {name: words for name, words in fetched.items() if words}
    streamed = {name: (source.words - source.resident) * config.word_bits
                for name, source in zip(fetched, config.sources(fetched.values()))}
    if config.learning:
        names.append("logits")  # the learner's, which no step of the program computes
    return [layer | {
        "number": number, "streamed_bits": streamed.get(name, 0), "macs_per_cycle": layer["macs"] / layer["cycles"],
        "intensity": layer["macs"] / layer["weight_bits"] if layer["weight_bits"] else None}
        for number, (layer, name) in enumerate(zip(facts["estimate"]["layers"], names, strict=True), start=1)]


def roofs(facts):
    """(name, weight bits a cycle) of each source of weights, fastest first."""
    sources = [("weights on the chip", facts["config"].word_bits)]
    if any(layer["streamed_bits"] for layer in layers(facts)):
        estimate = facts["estimate"]
        sdram = "sdram_bits_per_cycle" in estimate
        sources.append(("SDRAM", estimate["sdram_bits_per_cycle"]) if sdram else ("flash", estimate["flash_bits_per_cycle"]))
    return sources


def memories(facts):
    """(memory, words, bits, its content, block RAMs or None)."""
    config, blocks = facts["config"], facts["blocks"] or {}
    content = ("feature maps" + (", late weights" if config.late_rows else "") + (", resident weights" if config.resident_rows else "")
               + (", classifier, counters, exemplars" if config.learning else ""))
    rows = [(f"{config.pixels} feature banks", config.feature_words, config.feature_words * config.row_bits, content,
             blocks.get("features"))]
    weight_bits = config.weight_words * config.word_bits
    program = ("program", len(config.program_words()), 16 * len(config.program_words()), f"{len(config.program)} steps of the sequencer",
               blocks.get("program"))
    if config.lists:
        rows.append(("lists of reads", len(config.order), len(config.order) * READ_BITS, "what each tile reads, in its order",
                     blocks.get("lists of reads")))
    if config.weights != "stream":
        return [*rows, ("weight memory", config.weight_words, weight_bits, "all weights, in the order of their use", blocks.get("weights")),
                program]
    transfers = len(config.transfer_words())
    source = "SDRAM" if config.sdram else "flash"
    return [*rows, ("weight ring", config.weight_words, weight_bits, f"weights on their way from the {source} to the array",
                    blocks.get("weight ring")), program,
            ("transfers", transfers, 16 * transfers, "which weights of each layer are resident", blocks.get("transfers"))]


def lifetimes(facts):
    """Return (rows, places) for figures.maps: the rows between which each map stays in the banks.

    A row is an event of a frame, a layer; the first loads the image.
    """
    config, layout = facts["config"], facts["layout"]
    names = dict.fromkeys(step.layer for step in config.program)
    labels = ["image in", *(layer["layer"] for layer, _ in zip(facts["estimate"]["layers"], names))]
    ends = [list(names).index(step.layer) + 1 for step in config.program]  # the row of each step
    reads = []  # (row, first word, words)
    for row, step in zip(ends, config.program):
        if config.lists:
            reads += [(row, first, words) for first, words in config.listed_words(step)]
        else:
            size = ((step.words - 1) * step.word_stride + step.tiles if step.kind == "lgap" else
                    (step.rows - 1) * step.row_stride + (step.columns - 1) * step.block_stride + (step.words - 1) * step.word_stride + 1)
            reads.append((row, step.source, size))
    maps = []
    for name, place in layout["layers"].items():
        _, height, width = place["shape"]
        words = len(place["lanes"]) * -(-height // 2) * -(-width // max(1, config.columns))
        maps.append((name, *place["base"], words, 0 if name == "input" else ends[place["steps"][0] - 1]))
    places = []
    for name, base, words, first in maps:
        # Until another map takes its words.
        over = min((row for _, other, count, row in maps if row > first and other < base + words and base < other + count),
                   default=len(labels))
        last = max((row for row, start, size in reads if first < row < over and start < base + words and base < start + size),
                   default=first)
        places.append((name, base, words, first, last))
    return labels, places
