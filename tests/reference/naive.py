"""The definition of docs/checkpoint.md once more, as plain loops on Python integers; it shares no code with the package."""


def run(architecture, weights, thresholds, image):
    """{layer: nested list [c][y][x] of 0 / 1, or of bytes behind bits8; the last one a list of integers}.

    architecture: list of dicts; weights: {layer: nested lists of 0 / 1}; thresholds: {layer: list}; image [3][y][x] of bytes.
    """
    values, of_bytes = {}, set()
    for op in architecture:
        x = [values[name] for name in op["inputs"]]
        w = weights.get(op["name"])
        t = thresholds.get(op["name"])
        if op["op"] == "bits8" or (op["op"] == "flatten" and op["inputs"][0] in of_bytes):
            of_bytes.add(op["name"])
        if op["op"] in ("conv", "dense"):
            number = signed if op["inputs"][0] in of_bytes else pm
            values[op["name"]] = OPS[op["op"]](op, x[0], w, t, number)
        else:
            values[op["name"]] = OPS[op["op"]](op, x, w, t, image)
    return values


def pm(bit):
    return 1 if bit else -1


def signed(byte):
    return 2 * byte - 255


def luma(r, g, b):
    return (77 * r + 150 * g + 29 * b + 128) // 256


def size(x):
    return len(x), len(x[0]), len(x[0][0])


def grid(channels, height, width, value):
    return [[[value(c, y, x) for x in range(width)] for y in range(height)] for c in range(channels)]


def thermometer(op, _x, _w, _t, image):
    n = op["levels"]

    def planes(r, g, b):
        if op["encoder"] == "trgb":
            return (r, n), (g, n), (b, n)
        if op["encoder"] == "grey":
            return ((luma(r, g, b), n),)
        blue = 128 + (-43 * r - 85 * g + 128 * b + 127) // 256
        red = 128 + (128 * r - 107 * g - 21 * b + 127) // 256
        return (luma(r, g, b), 2 * n), (blue, n), (red, n)

    def channel(y, x):
        codes = []
        for value, levels in planes(*(image[c][y][x] for c in range(3))):
            assert 0 <= value <= 255
            codes += [int(value * levels // 256 >= k) for k in range(levels)]
        return codes

    pixels = [[channel(y, x) for x in range(op["size"])] for y in range(op["size"])]
    return grid(len(pixels[0][0]), op["size"], op["size"], lambda c, y, x: pixels[y][x][c])


def binarize(op, _x, _w, _t, image):
    return grid(1, op["size"], op["size"], lambda c, y, x: int(luma(*(image[p][y][x] for p in range(3))) >= op["threshold"]))


def bits8(op, _x, _w, _t, image):
    return grid(3, op["size"], op["size"], lambda c, y, x: op["table"][image[c][y][x]])


def conv(op, x, w, t, number):
    channels, height, width = size(x)
    outputs, groups, k, stride = op["out_channels"], op["groups"], op["kernel"], op["stride"]
    depth, pad = channels // groups, k // 2 if op.get("padding", "same") == "same" else 0

    def value(o, y, column):
        first = o // (outputs // groups) * depth
        dot = 0
        for c in range(depth):
            for dy in range(k):
                for dx in range(k):
                    row, col = stride * y + dy - pad, stride * column + dx - pad
                    inside = 0 <= row < height and 0 <= col < width
                    dot += pm(w[o][c][dy][dx]) * number(x[first + c][row][col] if inside else 0)
        return int(dot >= (t[o] if t else 0))

    return grid(outputs, (height + 2 * pad - k) // stride + 1, (width + 2 * pad - k) // stride + 1, value)


def maxpool(_op, x, _w, _t, _image):
    x, = x
    channels, height, width = size(x)
    return grid(channels, height // 2, width // 2, lambda c, i, j: max(x[c][2 * i + a][2 * j + b] for a in (0, 1) for b in (0, 1)))


def gap(_op, x, _w, t, _image):
    x, = x
    return grid(len(x), 1, 1, lambda c, i, j: int(sum(pm(v) for row in x[c] for v in row) >= (t[c] if t else 0)))


def depthwise(_op, x, w, t, _image):
    x, = x
    channels, height, width = size(x)

    def value(c, i, j):
        dot = sum(pm(x[c][y][k]) * pm(w[c][y][k]) for y in range(height) for k in range(width))
        return int(dot >= (t[c] if t else 0))

    return grid(channels, 1, 1, value)


def flatten(_op, x, _w, _t, _image):
    return [[[value]] for channel in x[0] for row in channel for value in row]


def dense(op, x, w, t, number):
    outputs, groups = op["out_channels"], op["groups"]
    depth = len(x) // groups

    def dot(o):
        first = o // (outputs // groups) * depth
        return sum(pm(w[o][c]) * number(x[first + c][0][0]) for c in range(depth))

    if op["logits"]:
        return [dot(o) for o in range(outputs)]
    return grid(outputs, 1, 1, lambda o, i, j: int(dot(o) >= (t[o] if t else 0)))


def duplicate(op, x, _w, _t, _image):
    return [channel for channel in x[0] for _ in range(op["times"])]


def concat(_op, x, _w, _t, _image):
    return [channel for part in x for channel in part]


def cut(op, x, _w, _t, _image):
    return x[0][op["start"]:op["stop"]]


def shuffle(op, x, _w, _t, _image):
    x, = x
    per_group = len(x) // op["groups"]
    return [x[g * per_group + i] for i in range(per_group) for g in range(op["groups"])]


OPS = {"thermometer": thermometer, "binarize": binarize, "bits8": bits8, "conv": conv, "maxpool": maxpool, "gap": gap,
       "depthwise": depthwise, "flatten": flatten, "dense": dense, "duplicate": duplicate, "concat": concat, "slice": cut,
       "shuffle": shuffle}
