"""The block diagram of a generated accelerator, with the true widths, sizes and cycles, as SVG."""

from ..base.errors import plural
from ..machine import timing
from .svg import Canvas, number, shortened

WIDTH = 960
INK, SOFT, EDGE, PAPER = "#1b1f24", "#59636e", "#8c959f", "#ffffff"
BOX, FEATURES, WEIGHTS, RESULT = "#f6f8fa", "#c8dcf5", "#f8dcb8", "#d5ecd4"
TABLES, SLOTS = "#b9a3e3", "#e3d9f5"
CYCLES = (("reads", "#3b7dc4", "array at work"), ("drain", "#57a773", "blocks written"), ("move", "#e0a040", "resident weights moved"),
          ("wait", "#c8503c", "waiting for weights"), ("other", "#8c959f", "steps, tiles, results"))

CHART_LEFT, CHART_RIGHT = 150, 800
ROW = 20
SHOWN = 20
"""Characters of a name for which there is room."""


def diagram(config, frame, used):
    """Return the diagram of an accelerator as SVG text.

    config: machine.config.AcceleratorConfig.  frame: machine.cycles.PassCycles of any pass but the first.  used: words of a bank that
    feature maps take.
    """
    canvas = _Diagram()
    _engine(canvas, config, frame, used)
    height = _chart(canvas, frame, 592)
    return canvas.picture(height)


class _Diagram(Canvas):
    def __init__(self):
        super().__init__(xmlns="http://www.w3.org/2000/svg", font_family="Helvetica, Arial, sans-serif")
        marker = self.add("marker", parent=self.add("defs"), id="arrow", viewBox="0 0 8 8", refX=7, refY=4, markerWidth=7, markerHeight=7,
                          orient="auto")
        self.add("path", parent=marker, d="M0 0L8 4L0 8z", fill=INK)
        self.paper = self.add("rect", x=0.5, y=0.5, width=WIDTH - 1, rx=10, fill=PAPER, stroke=EDGE)

    def frame(self, x, y, width, height, fill=BOX, edge=EDGE, radius=6):
        self.rect(x, y, width, height, rx=radius, fill=fill, stroke=edge)

    def bar(self, x, y, width, height, fill):
        self.rect(x, y, width, height, fill=fill)

    def label(self, x, y, text, size=12, fill=INK, anchor="start", weight="normal"):
        self.text(x, y, text, size, anchor, fill=fill, font_weight=weight)

    def arrow(self, points):
        self.line(points, fill="none", stroke=INK, stroke_width=1.5, marker_end="url(#arrow)")

    def box(self, x, y, width, height, title, lines=(), fill=BOX):
        self.frame(x, y, width, height, fill)
        self.label(x + width / 2, y + 20, title, 13, anchor="middle", weight="bold")
        for i, line in enumerate(lines):
            self.label(x + width / 2, y + 38 + 16 * i, line, 11.5, SOFT, "middle")

    def note(self, x, y, text, anchor="middle"):
        self.label(x, y, text, 11.5, SOFT, anchor)

    def picture(self, height):
        self.paper.set("height", number(height - 1))
        self.root.set("width", number(WIDTH))
        self.root.set("height", number(height))
        return self.svg(WIDTH, height)


def _count(amount, noun):
    return f"{amount:,} {plural(amount, noun)}"


def _engine(canvas, c, frame, used):
    q, l, p = c.pixels, c.lanes, c.outputs
    pooled = any(step.kind == "lgap" for step in c.program)
    canvas.label(24, 34, "fbnn-hw accelerator", 18, weight="bold")
    canvas.label(24, 54, f"{q} pixels x {l} lanes x {p} outputs = {q * l * p:,} products a cycle; {frame.total:,} cycles a frame", 13, SOFT)

    # Columns: encoder and sequencer, banks, window, array.
    one, two, three, four = (68, 148), (286, 180), (516, 158), (716, 222)
    top, bottom = 190, 460

    name, code = {"binarize": ("Threshold", f"Y >= {c.threshold}"), "bits8": ("Bit planes", "R, G, B")}.get(c.encoder, ("Thermometer", {
        "tycc": "Y, Cb, Cr", "trgb": "R, G, B", "grey": "Y"}.get(c.encoder)))
    bits = "3 x 8" if c.encoder == "bits8" else " + ".join(map(str, c.planes))
    canvas.arrow([(20, 236), (one[0], 236)])
    canvas.label(20, 212, "pixels", 12, weight="bold")
    canvas.label(20, 227, " + ".join(map(str, c.level_bits)) + " bits" if c.takes_levels else "8 bits", 11.5, SOFT)
    canvas.box(one[0], top, one[1], 116, "Levels to bits" if c.takes_levels else name, [
        code, f"{bits} bits", f"{c.size} x {c.size} pixels", _count(c.input_words, "word") + " a pixel",
        _count(timing.encoder_cycles(len(c.pieces), c.encoder_rate), "cycle") + " a pixel"])
    canvas.arrow([(sum(one), 236), (two[0], 236)])
    canvas.note((sum(one) + two[0]) / 2, 228, f"{l} bits")
    canvas.box(one[0], 366, one[1], 94, "Sequencer", [
        _count(len(c.program), "step"), _count(len(c.program_words()), "program word"), "one read a cycle"])
    canvas.arrow([(sum(one), 413), (two[0], 413)])
    canvas.note((sum(one) + two[0]) / 2, 405, "addresses")

    _banks(canvas, c, used, two[0], top, two[1], bottom - top)
    canvas.arrow([(sum(two), 236), (three[0], 236)])
    canvas.note((sum(two) + three[0]) / 2, 228, f"{c.row_bits:,}")
    canvas.note((sum(two) + three[0]) / 2, 251, "bits")

    canvas.box(three[0], top, three[1], 92, "Window alignment", [
        f"2 x {c.columns} pixels, moved", "as a list says" if c.lists else "by one of 9 taps", "outside the map: -1"])
    canvas.arrow([(sum(three), 236), (four[0], 236)])

    canvas.box(four[0], top, four[1], 152, "XNOR-popcount array", [f"{q} pixels x {p} outputs", f"{q * p:,} popcounts of {l} bits"])
    _grid(canvas, four[0] + 16, top + 66, four[1] - 32, 72, q, p)
    middle = four[0] + four[1] / 2
    canvas.arrow([(middle, top + 152), (middle, 376)])
    canvas.box(four[0], 376, four[1], 84, "Accumulators", [
        f"{q * p:,} x {c.accumulator_bits} bits", "bit = accumulator >= 0"])
    canvas.arrow([(four[0], 420), (sum(three), 420)])
    canvas.box(three[0], 376, three[1], 84, "Sign and pooling", [f"{q * p:,} bits a block", "2 x 2 pooling: OR of 4"])
    canvas.arrow([(three[0], 420), (sum(two), 420)])
    canvas.note((sum(two) + three[0]) / 2, 412, "write")

    if pooled:
        kinds = [name for name, flag in (("average", "gap"), ("learned", "depthwise")) if any(getattr(s, flag) for s in c.program)]
        canvas.box(three[0], 306, three[1], 46, "Global pooling", [" and ".join(kinds)])
        canvas.arrow([(three[0] + three[1] / 2, top + 92), (three[0] + three[1] / 2, 306)])
        canvas.arrow([(three[0] + three[1] / 2, 352), (three[0] + three[1] / 2, 376)])

    _weights(canvas, c, two, three, four, top, pooled)

    canvas.arrow([(middle, 460), (middle, 500)])
    canvas.label(middle - 10, 484, f"{_count(c.result_classes, 'logit')} of {c.score_bits} bits", 11.5, SOFT, "end")
    if c.learning:
        canvas.box(four[0], 500, four[1], 46, "Learner", [f"sign update, room for {c.result_classes} classes"])
        canvas.arrow([(sum(two) - 20, bottom), (sum(two) - 20, 494), (four[0] + 20, 494), (four[0] + 20, 500)])
    else:
        canvas.box(four[0], 500, four[1], 46, "Argmax", ["ties go to the lowest class"])
    canvas.arrow([(four[0], 523), (three[0] + 44, 523)])
    canvas.label(three[0] + 38, 519, "class", 12, anchor="end", weight="bold")
    canvas.note(three[0] + 38, 535, _count(max(1, (c.result_classes - 1).bit_length()), "bit"), "end")
    if c.latent_words:
        x = two[0] + two[1] / 2
        canvas.arrow([(x, bottom), (x, 504)])
        canvas.label(x, 520, "latent", 12, anchor="middle", weight="bold")
        canvas.note(x, 536, f"{_count(c.latent_words, 'word')} of {l} bits, on request")


def _banks(canvas, c, used, x, y, width, height):
    """Draw the banks as columns, word 0 at the bottom, and the parts of each."""
    canvas.box(x, y, width, height, f"{c.pixels} feature banks", [f"{c.feature_words:,} words x {c.lanes} bits each"])
    parts = [(FEATURES, "features", "words", 0, used)]
    if learning := c.learning:
        parts += [(TABLES, "classes", "rows", learning.learn_base, learning.class_rows),
                 (SLOTS, "replay buffer", "rows", learning.slots_base, learning.slot_rows * learning.slots)]
    parts.append((WEIGHTS, "weights", "rows", c.resident_base, c.resident_rows))
    parts = [part for part in parts if part[-1]]
    top, inside = y + 54, height - 72 - 18 * len(parts)
    pitch = (width - 24) / c.pixels
    bar = pitch * 0.72
    for i in range(c.pixels):
        left = x + 12 + i * pitch + (pitch - bar) / 2
        canvas.bar(left, top, bar, inside, "#ffffff")
        for fill, _, _, base, words in parts:
            share = inside * words / c.feature_words
            canvas.bar(left, top + inside * (1 - base / c.feature_words) - share, bar, share, fill)
        canvas.rect(left, top, bar, inside, fill="none", stroke=EDGE)
    for i, (fill, name, unit, _, words) in enumerate(parts, start=1):
        below = y + height - 18 * (len(parts) - i)
        canvas.frame(x + 12, below - 17, 11, 11, fill, radius=2)
        canvas.label(x + 28, below - 7, f"{name}: {words:,} {unit}", 11.5, SOFT)


def _grid(canvas, x, y, width, height, rows, columns):
    """Draw one cell for each pixel and output."""
    canvas.bar(x, y, width, height, RESULT)
    lines = [f"M{number(x)} {number(y + height * i / rows)}h{number(width)}" for i in range(rows + 1)]
    lines += [f"M{number(x + width * i / columns)} {number(y)}v{number(height)}" for i in range(columns + 1)]
    canvas.add("path", d="".join(lines), fill="none", stroke=EDGE, stroke_width=0.6)


def _weights(canvas, c, two, three, four, top, pooled):
    y, height = 84, 66
    sizes = f"{c.weight_words:,} words x {c.word_bits:,} bits", f"{c.weight_words * c.word_bits:,} bits"
    middle = four[0] + four[1] / 2
    if c.weights == "memory":
        canvas.box(four[0], y, four[1], height, "Weight memory", sizes, WEIGHTS)
    else:
        canvas.arrow([(170, y + 33), (two[0], y + 33)])
        canvas.label(170, y + 25, "weight stream", 12, weight="bold")
        canvas.label(170, y + 50, f"{c.beat_bits} bits", 11.5, SOFT)
        streamed = sum(t.streamed for t in c.transfers)
        canvas.box(two[0], y, two[1], height, "Weight mover", [
            "from the stream:", f"{streamed * c.word_bits:,} bits a frame"], WEIGHTS)
        if c.resident_rows:
            x = two[0] + two[1] / 2
            canvas.arrow([(x, top), (x, y + height)])
            canvas.label(x + 10, top - 16, f"resident: {c.resident_rows * c.row_bits:,} bits", 11.5, SOFT)
        canvas.arrow([(sum(two), y + 33), (four[0], y + 33)])
        canvas.note((sum(two) + four[0]) / 2, y + 25, f"{c.row_bits} bits")
        canvas.box(four[0], y, four[1], height, "Weight ring", sizes, WEIGHTS)
    canvas.arrow([(middle, y + height), (middle, top)])
    canvas.label(middle + 10, top - 16, f"{c.word_bits:,} bits", 11.5, SOFT)
    if pooled:
        x = (sum(three) + four[0]) / 2
        canvas.arrow([(middle, y + height + 16), (x, y + height + 16), (x, 329), (sum(three), 329)])


def _chart(canvas, frame, y):
    """Draw the cycles of each layer, at their time in the frame or pass; return the height of the picture."""
    canvas.label(24, y, f"{frame.total:,} cycles a frame", 15, weight="bold")
    x = 24
    for _, colour, text in CYCLES:
        canvas.frame(x, y + 14, 11, 11, colour, colour, 2)
        canvas.label(x + 16, y + 24, text, 11.5, SOFT)
        x += 34 + 6.2 * len(text)
    y += 44
    scale = (CHART_RIGHT - CHART_LEFT) / frame.total
    # Cycles of no layer: the image comes in, the result goes out.
    outside = frame.total - sum(layer.total for layer in frame.layers.values())
    rows = [("image in, result out", None, outside), *((name, layer, layer.total) for name, layer in frame.layers.items())]
    now = 0
    for i, (name, layer, total) in enumerate(rows):
        base = y + ROW * i
        if i % 2 == 0:
            canvas.bar(16, base, WIDTH - 32, ROW, BOX)
        canvas.label(24, base + 14, shortened(name, SHOWN), 11.5)
        parts = [(CYCLES[-1][1], total)] if layer is None else [(colour, getattr(layer, key)) for key, colour, _ in CYCLES]
        left = CHART_LEFT + now * scale
        for colour, cycles in parts:
            if cycles:
                canvas.bar(left, base + 4, max(cycles * scale, 0.5), ROW - 8, colour)
            left += cycles * scale
        canvas.label(880, base + 14, f"{total:,}", 11.5, anchor="end")
        canvas.label(936, base + 14, f"{100 * total / frame.total:.1f} %", 11.5, SOFT, "end")
        now += total
    return y + ROW * len(rows) + 16
