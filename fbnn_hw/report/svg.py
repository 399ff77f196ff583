"""An SVG picture, built as an XML tree: ElementTree escapes every text and every attribute when it writes them."""

from xml.etree import ElementTree


class Canvas:
    """Shapes in the order in which they are painted.

    Attributes are keywords: an underscore stands for a hyphen (font_size), one at the end is dropped (class_), numbers are rounded
    to hundredths, and None leaves the attribute out.  `hint` is the text that a browser shows over a shape.
    """

    def __init__(self, **attributes):
        self.root = ElementTree.Element("svg", _attributes(attributes))

    def add(self, tag, text=None, hint=None, parent=None, **attributes):
        """Append an element to `parent`, by default the picture, and return it."""
        element = ElementTree.SubElement(self.root if parent is None else parent, tag, _attributes(attributes))
        element.text = text
        if hint:
            ElementTree.SubElement(element, "title").text = hint
        return element

    def rect(self, x, y, width, height, **attributes):
        self.add("rect", x=x, y=y, width=width, height=height, **attributes)

    def circle(self, x, y, radius, **attributes):
        self.add("circle", cx=x, cy=y, r=radius, **attributes)

    def line(self, points, **attributes):
        """A path through `points`, (x, y) each."""
        self.add("path", d=" ".join(f"{'L' if i else 'M'}{number(x)} {number(y)}" for i, (x, y) in enumerate(points)), **attributes)

    def text(self, x, y, text, size=12, anchor="start", **attributes):
        self.add("text", text, x=x, y=y, font_size=size, text_anchor=anchor, **attributes)

    def svg(self, width, height):
        """The picture as text, one element a line, with a viewBox of `width` and `height`."""
        self.root.set("viewBox", f"0 0 {number(width)} {number(height)}")
        ElementTree.indent(self.root, "")
        return ElementTree.tostring(self.root, encoding="unicode") + "\n"


def number(value):
    """A coordinate as text, rounded to hundredths."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def shortened(text, length):
    """A text of at most so many characters."""
    return text if len(text) <= length else text[:length - 3] + "..."


def _attributes(values):
    return {key.removesuffix("_").replace("_", "-"): value if isinstance(value, str) else number(value)
            for key, value in values.items() if value is not None}
