"""The part of a page that a program writes: from a comment that names the program to the next `<!-- end -->`."""

END = "<!-- end -->"


def parts(text, begin):
    """The page's text (before the comment, behind it, behind the end)."""
    before, rest = text.split(begin)
    return before, *rest.split(END, 1)


def joined(before, begin, lines, after):
    """The page's text of its parts."""
    return "\n".join([before + begin, *lines, END]) + after


def replaced(text, begin, lines):
    """The page's text with other lines between the comment and the end."""
    before, _, after = parts(text, begin)
    return joined(before, begin, lines, after)
