"""Figures of a design's report as SVG for a page.

Their colours are the page's CSS variables, so that they follow light and dark.  Each function takes
plain numbers and names, and returns the text of an <svg> element.
"""

import math

from .svg import Canvas, number, shortened

WIDTH = 720
LETTER = 0.6
"""Width of a letter as a share of its size, wide enough for DejaVu Sans."""
ROW = 26


class _Figure(Canvas):
    """A canvas that records where its texts are.  Its styles are classes of the page's style sheet."""

    def __init__(self, title):
        super().__init__(role="img", aria_label=title)
        self.boxes = []

    def area(self, x, y, width, height, style, hint=None):
        self.rect(x, y, width, height, class_=style, hint=hint)

    def label(self, x, y, text, anchor="start", style=None, size=12):
        self.boxes.append(_text_box(x, y, text, anchor, size))
        self.text(x, y, text, size, anchor, class_=style)

    def label_where_free(self, places, text, style=None):
        """Write `text` at the first of `places` (x, y, anchor) that is free; return whether there was one."""
        for x, y, anchor in places:
            left, top, right, bottom = _text_box(x, y, text, anchor, 12)
            if left >= 2 and right <= WIDTH - 2 and not any(
                    left < other[2] and other[0] < right and top < other[3] and other[1] < bottom for other in self.boxes):
                self.label(x, y, text, anchor, style)
                return True
        return False

    def legend(self, x, y, entries):
        """Write (style, text) entries as swatches with texts, in lines from (x, y) on; return the next free y."""
        left = x
        for style, text in entries:
            width = 24 + LETTER * 12 * len(text) + 14
            if left > x and left + width > WIDTH:
                left, y = x, y + 20
            if style.startswith("roof"):
                self.line([(left - 6, y + 6), (left + 14, y + 6)], class_=style)
            else:
                self.area(left, y, 12, 12, style)
            self.label(left + 18, y + 10, text, style="soft")
            left += width
        return y + 24

    def picture(self, height):
        return self.svg(WIDTH, height)


def _text_box(x, y, text, anchor, size):
    width = LETTER * size * len(text)
    left = x - {"start": 0, "middle": width / 2, "end": width}[anchor]
    return left, y - 0.85 * size, left + width, y + 0.3 * size


def roofline(points, roofs, peak):
    """Plot MAC a cycle over MAC a weight bit, both logarithmic.

    points: (number, name, MAC a bit, MAC a cycle, bound).  roofs: (name, weight bits a cycle), highest first.
    peak: MAC a cycle of the array.
    """
    figure = _Figure("Roofline: MAC a cycle of each layer over its MAC a weight bit")
    left, right, top, bottom = 64, WIDTH - 16, 30, 330
    xs, ys = [x for _, _, x, _, _ in points], [y for _, _, _, y, _ in points]
    low_x, high_x = _decades([*xs, *(peak / bits for _, bits in roofs)])
    low_y, high_y = _decades([*ys, 1.6 * peak])

    def at(x, y):
        return (left + (math.log10(x) - low_x) / (high_x - low_x) * (right - left),
                bottom - (math.log10(y) - low_y) / (high_y - low_y) * (bottom - top))

    for power in range(low_x, high_x + 1):
        x = at(10 ** power, 1)[0]
        figure.line([(x, top), (x, bottom)], class_="grid")
        figure.label(min(x, right - 14), bottom + 18, _power(power), "middle", "soft")
    for power in range(low_y, high_y + 1):
        y = at(1, 10 ** power)[1]
        figure.line([(left, y), (right, y)], class_="grid")
        figure.label(left - 8, y + 4, _power(power), "end", "soft")
    figure.label((left + right) / 2, bottom + 38, "MAC a weight bit", "middle", "soft")
    figure.label(left, top - 12, "MAC a cycle", "start", "soft")

    floor, first, last = 10.0 ** low_y, 10.0 ** low_x, 10.0 ** high_x
    ridge = min(max(peak / max(bits for _, bits in roofs), first), last)
    figure.line([at(ridge, peak), at(last, peak)], class_="roof")
    figure.label_where_free([(right - 4, at(last, peak)[1] - 8, "end")], f"array: {peak:,} MAC a cycle", "strong")
    figure.boxes.append((*at(ridge, peak), right, at(last, peak)[1] + 4))
    lines = []
    for i, (name, bits) in enumerate(roofs):
        start, end = max(first, floor / bits), min(peak / bits, last)
        style = "roof dashed" if i else "roof"
        figure.line([at(start, start * bits), at(end, end * bits)], class_=style)
        lines.append((style, f"{name}: {bits:g} bits a cycle"))
        for share in range(101):
            x = start * (end / start) ** (share / 100)
            px, py = at(x, x * bits)
            figure.boxes.append((px - 2, py - 2, px + 2, py + 2))
    for x, y in (at(x, y) for _, _, x, y, _ in points):
        figure.boxes.append((x - 6, y - 6, x + 6, y + 6))

    groups = []
    for index, name, x, y, bound in points:
        px, py = at(x, y)
        figure.circle(px, py, 5, class_=f"fill-{bound}", hint=f"{index} {name}: {x:.4g} MAC a bit, {y:.4g} MAC a cycle, {bound}")
        for group in groups:
            if math.hypot(group[0] - px, group[1] - py) < 14:
                group[2].append(index)
                break
        else:
            groups.append((px, py, [index]))
    for px, py, numbers in groups:
        near = [(px, py + 20, "middle"), (px + 10, py + 4, "start"), (px - 10, py + 4, "end"), (px, py - 12, "middle"),
                (px + 10, py + 18, "start"), (px, py + 34, "middle")]
        figure.label_where_free(near, ", ".join(map(str, numbers)), "strong")
    bounds = dict.fromkeys(bound for *_, bound in points)
    return figure.picture(figure.legend(left, bottom + 56, [*lines, *((f"fill-{bound}", f"bound by {bound}") for bound in bounds)]))


def _decades(values):
    """(lowest, highest) power of ten around positive values, at least two decades apart."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 0.05)
    return low, max(high, low + 2)


def _power(power):
    return f"{10 ** power:,}" if power >= 0 else f"{10.0 ** power:g}"


def maps(rows, places, used):
    """Draw the feature maps in a bank: addresses to the right, layers downwards as time.

    rows: names of the layers, the image first.  places: (name, first address, words, first row, last row).  used: words in all.
    """
    figure = _Figure("Where each feature map lies in a bank, and from which to which layer")
    left, right, top = 168, WIDTH - 12, 34
    scale = (right - left) / max(1, used)
    for i, name in enumerate(rows):
        if i % 2 == 0:
            figure.area(4, top + ROW * i, WIDTH - 8, ROW, "stripe")
        figure.label(12, top + ROW * i + 17, shortened(name, 20))
    step = _round_step(used / 4)
    for address in range(0, used + 1, step):
        x = left + address * scale
        figure.line([(x, top), (x, top + ROW * len(rows))], class_="grid")
        if x < right - 60 or address == 0:
            figure.label(x, top - 8, f"{address:,}", "middle" if address else "start", "soft")
    figure.label(right, top - 8, f"{used:,} words", "end", "soft")
    rects = []
    for name, base, words, first, last in places:
        x0, y0, x1, y1 = rect = left + base * scale, top + ROW * first + 2, left + (base + words) * scale, top + ROW * (last + 1) - 2
        rects.append(rect)
        figure.boxes.append(rect)
        figure.area(x0, y0, max(x1 - x0, 1.5), y1 - y0, "map", f"{name}: {words:,} words from {base:,} on")
    for (name, *_), box in zip(places, rects):
        x0, y0, x1, y1 = box
        figure.boxes.remove(box)
        inside = LETTER * 12 * len(name) + 8 <= x1 - x0
        spots = [((x0 + x1) / 2, (y0 + y1) / 2 + 4, "middle")] if inside else [
            (x1 + 5, y + 17, "start") for y in (y0 - 2 + ROW * i for i in range(round((y1 - y0 + 4) / ROW)))]
        figure.label_where_free(spots, name)
        figure.boxes.append(box)
    return figure.picture(top + ROW * len(rows) + 8)


def bar(title, parts, unit):
    """Draw one bar of a whole.  parts: (name, size, style); empty ones are left out."""
    figure = _Figure(title)
    parts = [part for part in parts if part[1]]
    total = sum(size for _, size, _ in parts)
    x, left = 4.0, 4
    for name, size, style in parts:
        width = (WIDTH - 8) * size / total
        figure.area(x, 8, max(width, 1), 30, style, f"{name}: {size:,} {unit}")
        x += width
    return figure.picture(figure.legend(left, 48, [(style, f"{name}: {size:,} {unit}") for name, size, style in parts]))


def slowest_path(steps, wanted_ns):
    """Draw the delays of the slowest path one after the other, and the period that was wanted.  steps: (type, delay in ns)."""
    figure = _Figure("The slowest path")
    total = sum(delay for _, delay in steps)
    end = max(total, wanted_ns) * 1.04
    left, right = 8, WIDTH - 8
    scale = (right - left) / end
    x = left
    for kind, delay in steps:
        figure.area(x, 30, max(delay * scale, 0.6), 28, f"path-{kind}", f"{kind}: {delay:.2f} ns")
        x += delay * scale
    mark = left + wanted_ns * scale
    figure.line([(mark, 22), (mark, 66)], class_="roof")
    text = f"wanted: {wanted_ns:.2f} ns"
    figure.label(min(mark + 4, right), 16, text, "end" if mark > right - LETTER * 12 * len(text) - 8 else "start", "strong")
    figure.label(left, 80, "0 ns", "start", "soft")
    figure.label(left + total * scale, 80, f"{total:.2f} ns", "end", "soft")
    spent = {}
    for kind, delay in steps:
        spent[kind] = spent.get(kind, 0) + delay
    return figure.picture(figure.legend(left, 94, [(f"path-{kind}", f"{kind}: {delay:.2f} ns") for kind, delay in spent.items()]))


COLOURS = 10


def floorplan(columns, rows, components):
    """Draw the tiles of the part, each in the colour of the component that has most cells in it; row 0 is at the bottom.

    components: {name: [[column, row, cells], ...]}, the largest first; the ones after the first COLOURS - 1 share a colour.
    """
    figure = _Figure("Floorplan: which component has most cells in each tile")
    names = list(components)
    named = names[:COLOURS - 1] if len(names) > COLOURS else names
    best, cells = {}, dict.fromkeys([*named, "others"], 0)
    for name, tiles in components.items():
        group = name if name in named else "others"
        for x, y, count in tiles:
            cells[group] += count
            if count > best.get((x, y), (0, ""))[0]:
                best[x, y] = count, group
    side = min(18.0, (WIDTH - 8) / max(columns, 1), 560 / max(rows, 1))
    left, top = (WIDTH - side * columns) / 2, 8
    figure.area(left - 3, top - 3, side * columns + 6, side * rows + 6, "stripe")
    inner = side * 0.9
    for i, group in enumerate(cells):
        path = "".join(f"M{number(left + x * side)} {number(top + (rows - 1 - y) * side)}h{number(inner)}v{number(inner)}h{number(-inner)}z"
                       for (x, y), (_, owner) in sorted(best.items()) if owner == group)
        if path:
            figure.add("path", d=path, class_=f"part{i}", hint=group)
    entries = [(f"part{i}", f"{name}: {count:,}") for i, (name, count) in enumerate(cells.items()) if count]
    return figure.picture(figure.legend(8, top + side * rows + 14, entries))


def _round_step(value):
    """The next 1, 2 or 5 times a power of ten, at least 1."""
    power = 10 ** max(0, math.floor(math.log10(max(value, 1))))
    return next(int(f * power) for f in (1, 2, 5, 10) if f * power >= value)
