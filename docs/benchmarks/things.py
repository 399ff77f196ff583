"""How well new things are learned from twenty pictures of each: a model's latents, and the learner that a chip has.

    pip install scikit-image==0.26.0 scikit-learn==1.9.1
    python docs/benchmarks/things.py teach.pt 0.5mb.pt [--seeds 5] [--kinds photographs drawings] [--unknown] [--taught 20]

Two kinds of twelve things, which no training saw: parts of photographs that come with those packages, and objects drawn flat in plain
colours.  A thing is taught before one background, held nearly still, and tested before another, in other light, size, angle and place.
The learner starts with no class and is taught one thing after the other: by the rule nearest-mean, and by replay, as `fbnn-hw learn` does
it, which rehearses at the end of a lesson.  Beside it stands the nearest mean in float of the same latents; --teacher adds that of
EfficientNet-Lite0's features (see extractor.py).

With --unknown the learner of the rule nearest-mean answers "unknown" by the limits that it learns from the lessons.  Asked are pictures of
the things taught, which should not be unknown, and of the others of the twelve, which should.  With --taught N a lesson has the first N of
the twenty pictures, or these and more of the same kind; the same pictures are asked.
"""

import argparse
import math
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter

import fbnn_hw
from fbnn_hw.board.lesson import ENOUGH, MOST
from fbnn_hw.reference.learning import LearnConfig, Learner
from fbnn_hw.reference.learning.config import ADDING_DEFAULTS, NEAREST_MEAN
from fbnn_hw.train.predict import integer_logits

SIDE, SEEN, TAUGHT, TESTED = 128, 32, 20, 60
PHOTOGRAPHS = {
    "mug": ("coffee.png", (150, 60, 480, 340)), "astronaut": ("astronaut.png", (120, 0, 330, 210)),
    "cat": ("chelsea.png", (100, 20, 360, 280)), "rocket": ("rocket.jpg", (240, 60, 400, 380)),
    "motorcycle": ("motorcycle_left.png", (60, 60, 640, 420)), "coins": ("coins.png", (20, 20, 160, 160)),
    "retina": ("retina.jpg", (100, 100, 1300, 1300)), "flower": ("flower.jpg", (180, 80, 480, 380)),
    "temple": ("china.jpg", (120, 100, 420, 330)), "page": ("page.png", (0, 0, 190, 190)), "cell": ("cell.png", (0, 0, 500, 500)),
    "moon": ("moon.png", (100, 100, 400, 400))}
BACKGROUNDS = ("brick.png", "grass.png", "gravel.png", "hubble_deep_field.jpg", "ihc.png", "text.png")
RED, BLUE, GREEN, YELLOW, BROWN, GREY, WHITE = "#c8322d", "#2d5fc8", "#2f9e44", "#f0c419", "#7a4a21", "#6b7280", "#f4f4f0"
STAR = [(100 + r * math.sin(i * math.pi / 5), 100 - r * math.cos(i * math.pi / 5)) for i in range(10) for r in [(95, 40)[i % 2]]]
DRAWINGS = {
    "cup": [("rectangle", (40, 40, 130, 170), RED), ("arc", (105, 65, 175, 140), RED, 16)],
    "hammer": [("rectangle", (90, 60, 110, 190), BROWN), ("rectangle", (45, 20, 155, 65), GREY)],
    "house": [("rectangle", (40, 90, 160, 185), YELLOW), ("polygon", ((20, 92), (100, 15), (180, 92)), RED),
              ("rectangle", (85, 130, 115, 185), BROWN)],
    "tree": [("rectangle", (88, 120, 112, 190), BROWN), ("ellipse", (35, 10, 165, 135), GREEN)],
    "fish": [("ellipse", (15, 60, 145, 140), BLUE),
             ("polygon", ((135, 100), (190, 60), (190, 140)), BLUE), ("ellipse", (40, 82, 54, 96), WHITE)],
    "star": [("polygon", STAR, YELLOW)],
    "umbrella": [("pieslice", (15, 20, 185, 190), BLUE, 180, 360), ("rectangle", (95, 100, 105, 190), GREY)],
    "bottle": [("rectangle", (65, 80, 135, 190), GREEN), ("rectangle", (87, 25, 113, 85), GREEN), ("rectangle", (84, 10, 116, 28), RED)],
    "car": [("rectangle", (10, 90, 190, 145), RED), ("polygon", ((50, 92), (75, 50), (135, 50), (160, 92)), RED),
            ("ellipse", (30, 122, 75, 167), GREY), ("ellipse", (125, 122, 170, 167), GREY)],
    "key": [("ellipse", (15, 65, 85, 135), YELLOW), ("ellipse", (35, 85, 65, 115), GREY), ("rectangle", (80, 92, 190, 108), YELLOW),
            ("rectangle", (155, 105, 167, 132), YELLOW), ("rectangle", (176, 105, 188, 126), YELLOW)],
    "mushroom": [("rectangle", (78, 95, 122, 185), WHITE), ("pieslice", (20, 20, 180, 180), RED, 180, 360),
                 ("ellipse", (60, 50, 85, 75), WHITE), ("ellipse", (115, 45, 140, 70), WHITE)],
    "book": [("polygon", ((30, 40), (100, 60), (100, 180), (30, 160)), BLUE),
             ("polygon", ((170, 40), (100, 60), (100, 180), (170, 160)), WHITE)]}


def photograph(name):
    for package, folder in (("skimage", "data"), ("sklearn", "datasets/images")):
        spec = find_spec(package)  # importing them takes seconds
        path = spec and Path(spec.origin).parent / folder / name
        if path and path.is_file():
            return Image.open(path).convert("RGB")
    raise SystemExit(f"{name}: in neither package, expected scikit-image and scikit-learn")


def backgrounds():
    return [photograph(name).resize((256, 256)) for name in BACKGROUNDS]


def cut_out(name):
    """The thing of PHOTOGRAPHS."""
    file, box = PHOTOGRAPHS[name]
    return photograph(file).crop(box)


def drawing(parts):
    image = Image.new("RGBA", (200, 200))
    draw = ImageDraw.Draw(image)
    for kind, place, colour, *rest in parts:
        if kind == "arc":
            draw.arc(place, -90, 90, colour, *rest)
        elif kind == "pieslice":
            draw.pieslice(place, *rest, fill=colour)
        else:
            getattr(draw, kind)(place, fill=colour)
    return image.crop(image.getbbox())


def picture(thing, background, random, moving, side=SEEN):
    """uint8 (3, side, side), by default as a chip sees it; moving: as a thing is tested, else as it is taught."""
    size = random.uniform(0.65, 1.0) if moving else random.uniform(0.75, 0.95)
    scale = size * SIDE / max(thing.size)
    angle, shift = (20, 0.15) if moving else (8, 0.08)
    patch = thing.resize((max(8, int(thing.width * scale)), max(8, int(thing.height * scale)))).convert("RGBA")
    patch = patch.rotate(random.uniform(-angle, angle), expand=True, resample=Image.Resampling.BILINEAR)
    left, top = random.integers(0, 256 - SIDE, 2)
    image = background.crop((left, top, left + SIDE, top + SIDE)).copy()
    image.paste(patch, tuple(int((SIDE - n) / 2 + random.uniform(-shift, shift) * SIDE) for n in patch.size), patch)
    image = ImageEnhance.Brightness(image).enhance(random.uniform(0.6, 1.3) if moving else random.uniform(0.85, 1.15))
    image = ImageEnhance.Color(image).enhance(random.uniform(0.6, 1.2))
    if random.random() < 0.5:
        image = image.filter(ImageFilter.GaussianBlur(random.uniform(0, 1.5)))
    noisy = np.clip(np.asarray(image, float) + random.normal(0, 8, (SIDE, SIDE, 3)), 0, 255).astype(np.uint8)
    return np.asarray(Image.fromarray(noisy).resize((side, side), Image.Resampling.LANCZOS)).transpose(2, 0, 1)


def pictures(kind, classes, seed, side=SEEN, lesson=TAUGHT):
    """(images uint8 (N, 3, side, side), labels) to teach, thing after thing, and the same to test, of `classes` things, which the seed
    draws.  lesson: how many pictures of a thing are taught: the first of the TAUGHT ones, or these and more."""
    random, more = np.random.default_rng(seed), np.random.default_rng((seed, 1))
    views = backgrounds()
    taught, tested, table = [], [], PHOTOGRAPHS if kind == "photographs" else DRAWINGS
    for name in random.permutation(sorted(table))[:classes]:
        thing = cut_out(name) if kind == "photographs" else drawing(DRAWINGS[name])
        one, other = random.permutation(len(views))[:2]
        taught += [picture(thing, views[one], random, False, side) for _ in range(TAUGHT)][:lesson]
        taught += [picture(thing, views[one], more, False, side) for _ in range(lesson - TAUGHT)]
        tested += [picture(thing, views[other], random, True, side) for _ in range(TESTED)]
    numbers = np.arange(classes)
    return (np.stack(taught), numbers.repeat(lesson)), (np.stack(tested), numbers.repeat(TESTED))


def nearest_mean(taught, labels, tested):
    """Class of each row of `tested` (N, D): the mean of `taught` with the largest cosine, both less the mean of all that was taught."""
    centre = taught.mean(0)
    means = np.stack([taught[labels == c].mean(0) for c in np.unique(labels)]) - centre
    return ((tested - centre) @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T).argmax(1)


def learned(network, latents, labels, tested, slots, rehearse, seed):
    """Class of each latent of `tested` after a lesson in each class, from none."""
    learner = Learner.of(network, LearnConfig(16, slots, confidence=32, prototype=16, seed=seed + 1), keep_classes=False)
    for label in np.unique(labels):
        lesson = latents[labels == label]
        for _ in range(MOST):
            learner.learn(lesson, np.full(len(lesson), label))
            if (learner.classify(lesson) == label).mean() >= ENOUGH:
                break
        learner.rehearse(rehearse)
    return learner.classify(tested)


def summed(rule, network, latents, labels, **fields):
    """A learner of one of the rules of `ADDING` after a lesson in each class, from none."""
    learner = Learner.of(network, LearnConfig(16, rule=rule, **ADDING_DEFAULTS[rule], **fields), keep_classes=False)
    learner.learn(latents, labels)
    return learner


def unknown(network, latents, labels, own, truth, others):
    """Shares of the latents `own`, of classes `truth`, that are answered "unknown" and that are right, and of `others` the first."""
    learner = summed(NEAREST_MEAN, network, latents, labels, unknown=True)
    lost = learner.unknown(own)
    return lost.mean(), (~lost & (learner.classify(own) == truth)).mean(), learner.unknown(others).mean()


def unknowns(network, kind, classes, seeds, lesson=TAUGHT):
    """`unknown` of each seed, (seeds, 3), for `classes` of the things of a kind, from `lesson` pictures; the others are not taught."""
    shares = []
    for seed in range(seeds):
        (seen, labels), (unseen, truth) = pictures(kind, len(PHOTOGRAPHS), seed, lesson=lesson)
        a, b = (integer_logits(network, images, "torch", latent=True)[1] for images in (seen[labels < classes], unseen))
        shares.append(unknown(network, a, labels[labels < classes], b[truth < classes], truth[truth < classes], b[truth >= classes]))
    return np.array(shares)


def row(name, cells):
    return f"| {name} | " + " | ".join(f"{100 * np.mean(cell):.1f}" for cell in cells) + " |"


def row_of_several(name, cells):
    """A row of a table whose cells have several figures each."""
    return f"| `{Path(name).name}` | " + " | ".join("; ".join(f"{value:.1f}" for value in cell) for cell in cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", choices=("photographs", "drawings"), default=["photographs", "drawings"])
    parser.add_argument("--classes", type=int, nargs="+", default=[3, 5, 12])
    parser.add_argument("--slots", type=int, default=212)
    parser.add_argument("--rehearse", type=int, default=1000)
    parser.add_argument("--teacher", action="store_true")
    parser.add_argument("--unknown", action="store_true")
    parser.add_argument("--taught", type=int, choices=range(1, 1001), default=TAUGHT, metavar="N")
    args = parser.parse_args()
    if args.unknown:
        counts = [(kind, count) for kind in args.kinds for count in args.classes if count < len(PHOTOGRAPHS)]
        print("| % known, unknown; known, right; others, unknown | " + " | ".join(f"{count} {kind}" for kind, count in counts) + " |")
        print("|---" * (len(counts) + 1) + "|", flush=True)
        for name in args.models:
            cells = [100 * unknowns(fbnn_hw.load(name), *column, args.seeds, args.taught).mean(0) for column in counts]
            print(row_of_several(name, cells), flush=True)
        return
    if args.teacher:  # before all work: its packages may be missing
        import torch
        from extractor import Teacher

        teacher = Teacher()
    columns = [(kind, count) for kind in args.kinds for count in args.classes]
    sets = {column: [pictures(*column, seed, lesson=args.taught) for seed in range(args.seeds)] for column in columns}
    print("| % right | " + " | ".join(f"{count} {kind}" for kind, count in columns) + " |", flush=True)
    print("|---" * (len(columns) + 1) + "|", flush=True)
    for name in args.models:
        network, means, sums, lessons = fbnn_hw.load(name), [], [], []
        for column in columns:
            for seed, ((seen, labels), (unseen, truth)) in enumerate(sets[column]):
                a, b = (integer_logits(network, images, "torch", latent=True)[1] for images in (seen, unseen))
                means.append((nearest_mean(2.0 * a - 1, labels, 2.0 * b - 1) == truth).mean())
                sums.append((summed(NEAREST_MEAN, network, a, labels).classify(b) == truth).mean())
                lessons.append((learned(network, a, labels, b, args.slots, args.rehearse, seed) == truth).mean())
        name = f"`{Path(name).name}`"
        print(row(f"{name}, {NEAREST_MEAN}", np.reshape(sums, (-1, args.seeds))), flush=True)
        print(row(f"{name}, replay", np.reshape(lessons, (-1, args.seeds))), flush=True)
        print(row(f"{name}, nearest mean in float", np.reshape(means, (-1, args.seeds))), flush=True)
    if args.teacher:
        cells = []
        for column in columns:
            for (seen, labels), (unseen, truth) in sets[column]:
                a, b = (np.concatenate([teacher(part) for part in torch.from_numpy(images).split(100)]) for images in (seen, unseen))
                cells.append((nearest_mean(a, labels, b) == truth).mean())
        cells = np.reshape(cells, (-1, args.seeds))
        print(row("EfficientNet-Lite0, nearest mean in float", cells))


if __name__ == "__main__":
    main()
