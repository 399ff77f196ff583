"""What a display has to show, drawn from the letters of its table alone."""

import numpy as np

from fbnn_hw.rtl.camera import display


def drawn(sign, number, score, digits=2):
    """The picture of a Sign, (64, 128) of bool.  score: of 64 steps.  digits: that the largest number has."""
    picture = np.zeros((64, 128), bool)

    def put(letter, top, left, scale):
        rows = np.array([[row >> x & 1 for x in range(8)] for row in display.FONT[letter]], bool)
        picture[top:top + 8 * scale, left:left + 8 * scale] = np.kron(rows, np.ones((scale, scale), bool))

    for line, text in enumerate(sign.name.split()):
        for at, letter in enumerate(text):
            put(letter, 16 * line, 16 * at, 2)
    if sign.name in ("class", "unknown"):
        picture[16:32, :2 * score] = True
    if sign.value:
        for at, digit in enumerate(str(number).rjust(digits), start=(4 - digits) // 2):
            put(digit, 32, 32 * at, 4)
    return picture
