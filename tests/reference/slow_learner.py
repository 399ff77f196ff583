"""The definition of docs/learner.md once more, as plain loops on Python integers; it shares no code with the package."""

import decimal
import math

REGISTERS = {"noise": (31, 13), "mask": (63, 31), "pick": (47, 21)}
TOP64 = 2 ** 64
ADDING = "prototypes", "means", "nearest-mean"


class Register:
    def __init__(self, name, seed):
        self.n, self.k = REGISTERS[name]
        index = list(REGISTERS).index(name)
        z = (seed * 0x9E3779B97F4A7C15 + (index + 1) * 0xBF58476D1CE4E5B9) % TOP64
        z = (z ^ (z >> 31)) * 0x94D049BB133111EB % TOP64
        z = z ^ (z >> 29)
        self.state = z % (2 ** self.n - 1) + 1

    def bit(self):
        out = self.state & 1
        top = out ^ (self.state >> self.k & 1)
        self.state = self.state >> 1 | top << (self.n - 1)
        return out

    def word(self, width):
        value = 0
        for i in range(width):
            value |= self.bit() << i
        return value


def table(temperature):
    entries = []
    with decimal.localcontext() as context:
        context.prec = 60
        for i in range(256):
            u = decimal.Decimal(2 * i + 1) / 512
            entries.append(int((temperature * -(-u.ln()).ln()).quantize(decimal.Decimal(1), decimal.ROUND_HALF_EVEN)))
    return entries


def pm(bit):
    return 1 if bit else -1


class SlowLearner:
    """head, config: any objects with the fields of `Head` and `LearnConfig`; hidden, output: nested lists of bits."""

    def __init__(self, head, config, hidden, output):
        self.head, self.config = head, config
        self.noise, self.mask, self.pick = (Register(name, config.seed) for name in REGISTERS)
        self.table = table(config.temperature)
        self.top = 2 ** (config.counter_bits - 1)
        self.hidden_top = 2 ** (config.hidden_counter_bits - 1) if config.hidden_counter_bits else 1

        def start(bit, top):
            far = min(config.confidence, top - 1)
            return far if bit else -1 - far

        self.known = len(output)
        self.rows = [[start(bit, self.top) for bit in row] for row in output]
        self.hidden = [[start(bit, self.hidden_top) for bit in row] for row in hidden]
        self.used, self.slots, self.labels = 0, [None] * config.slots, [None] * config.slots
        self.counts = [0] * config.max_classes
        self.presented = [0] * config.max_classes
        self.left = [0] * config.max_classes
        self.limits = [0] * config.max_classes
        self.gone, self.shipped = set(), len(output)

    # forward

    def group_input(self, latent, j):
        group = j // (self.head.hidden // self.head.groups)
        size = self.head.latent // self.head.groups
        return [pm(bit) for bit in latent[group * size:(group + 1) * size] for _ in range(self.head.hidden_copies)]

    def forward(self, latent):
        dots = [sum(x * pm(h >= 0) for x, h in zip(self.group_input(latent, j), self.hidden[j])) for j in range(self.head.hidden)]
        values = [pm(bit) for bit in latent] + [pm(dot >= 0) for dot in dots]
        values = [v for v in values for _ in range(self.head.copies)]
        return dots, values, [sum(v * pm(h >= 0) for v, h in zip(values, row)) for row in self.rows]

    def logits(self, latent):
        wide = 4 if self.config.rule in ("means", "nearest-mean") else 1
        below_all = -wide * self.head.copies * (self.head.latent + self.head.hidden) - 2
        return [below_all if c in self.gone else score for c, score in enumerate(self.living_logits(latent))]

    def living_logits(self, latent):
        _, values, scores = self.forward(latent)
        if self.config.rule == "nearest-mean":
            return [self.mean_score(values, row, count) for row, count in zip(self.rows, self.presented)]
        if self.config.rule != "means":
            return scores
        far, scores = 3 * self.top // 4, []  # h and -1 - h are equally far from 0
        for row in self.rows:
            strong = [2 * h + 1 > 2 * far if h >= 0 else 2 * h + 1 < -2 * far for h in row]
            scores.append(sum(v * pm(h >= 0) * (3 if one else 1) - pm(one) for v, h, one in zip(values, row, strong)))
        return scores

    def mean_score(self, values, row, count):
        score, strong = self.head.copies * (self.head.latent + self.head.hidden), 0
        for v, h in zip(values, row):
            if h >= count // 2 or h < -(count // 2):
                score += 3 * v * pm(h >= 0)
                strong += 1
            else:
                score += v * pm(h >= 0)
        return score - 2 * (strong // 2)

    def classify(self, latent):
        scores = self.logits(latent)
        return scores.index(max(scores))

    def unknown(self, latent):
        scores = self.logits(latent)
        known = self.head.fan_in + math.floor(3 * self.head.fan_in / 8)
        return max(scores) < min(known, self.limits[scores.index(max(scores))])

    # learning

    def forget(self, label):
        self.gone.add(label)
        self.rows[label] = [0] * len(self.rows[label])
        self.presented[label] = self.left[label] = self.limits[label] = self.counts[label] = 0
        kept = [slot for slot in range(self.used) if self.labels[slot] != label]
        empty = [None] * (len(self.slots) - len(kept))
        self.slots, self.labels = [self.slots[slot] for slot in kept] + empty, [self.labels[slot] for slot in kept] + empty
        self.used = len(kept)
        while self.known > self.shipped and self.known - 1 in self.gone:
            self.known -= 1
            self.gone.discard(self.known)
            self.rows.pop()

    def learn(self, latent, label):
        if label == self.known or label in self.gone:
            if label == self.known:
                self.known += 1
                self.rows.append(None)
            self.gone.discard(label)
            self.rows[label] = [0 if self.mask.bit() else -1 for _ in range(self.head.fan_in)]
            self.left[label] = self.config.prototype
            if self.config.rule != "nearest-mean":
                self.presented = [0] * self.config.max_classes
        self.present(latent, label)
        for _ in range(self.config.replays):
            self.replay()
        self.store(latent, label)

    def replay(self):
        if not self.used:
            return
        width = max(1, (self.config.slots - 1).bit_length())
        wanted = None
        if self.config.pick == "least":
            fewest = None
            for c in range(self.known):
                if self.counts[c] and (fewest is None or self.presented[c] < fewest):
                    wanted, fewest = c, self.presented[c]
        elif self.config.pick == "class":
            while wanted is None:
                c = self.pick.word(max(1, (self.config.max_classes - 1).bit_length()))
                if c < self.known and self.counts[c] > 0:
                    wanted = c
        slot = self.draw(width, wanted)
        self.present(self.slots[slot], self.labels[slot])

    def draw(self, width, wanted):
        while True:
            slot = self.pick.word(width)
            if slot < self.used and wanted in (None, self.labels[slot]):
                return slot

    def store(self, latent, label):
        if self.config.rule in ADDING:
            return
        if self.used < self.config.slots:
            slot = self.used
            self.used += 1
        else:
            most = max(self.counts)
            fullest = label if self.counts[label] == most else self.counts.index(most)
            slot = self.draw(max(1, (self.config.slots - 1).bit_length()), fullest)
            self.counts[fullest] -= 1
        self.slots[slot], self.labels[slot] = list(latent), label
        self.counts[label] += 1

    def rival(self, scores, label):
        if self.config.rule != "margin":
            noisy = [s + self.table[self.noise.word(8)] for s in scores]
            noisy = [min(noisy) - 1 if c in self.gone else s for c, s in enumerate(noisy)]
            drawn = noisy.index(max(noisy))
            return None if drawn == label else drawn
        best = None
        for c, score in enumerate(scores):
            if c != label and c not in self.gone and (best is None or score > scores[best]):
                best = c
        return None if best is None or scores[label] - scores[best] >= self.config.margin else best

    def present(self, latent, label):
        config = self.config
        dots, values, scores = self.forward(latent)
        rival = None if config.rule in ADDING else self.rival(scores, label)
        if config.unknown and self.presented[label] > 0:
            score, limit = self.mean_score(values, self.rows[label], self.presented[label]), self.limits[label]
            slow = score >= limit and self.presented[label] >= 6
            self.limits[label] = limit + math.floor((score - limit) / (16 if slow else 2))
        if config.rule == "nearest-mean" and self.presented[label] == self.top - 1:
            self.presented[label] //= 2
            self.rows[label] = [h // 2 for h in self.rows[label]]
        self.presented[label] += 1
        if self.presented[label] == 255:
            self.presented = [n // 2 for n in self.presented]
        if config.rule in ADDING:
            self.rows[label] = [self.move(h, v, self.top) for h, v in zip(self.rows[label], values)]
            return
        if self.left[label]:
            self.left[label] -= 1
            self.rows[label] = [self.move(h, v, self.top) for h, v in zip(self.rows[label], values)]
            return
        if rival is None:
            return
        if config.weighted:
            if self.noise.word(8) * (self.presented[label] + 1) >= 256 * (
                    min(self.presented[c] for c in range(self.known) if c not in self.gone) + 1):
                return
        if config.hidden_counter_bits:
            self.update_hidden(latent, dots, label, rival)
        for row, sign in ((label, 1), (rival, -1)):
            self.rows[row] = [self.move(h, sign * v if all([self.passes(config.thinning), self.turns(h, sign * v)]) else 0, self.top)
                              for h, v in zip(self.rows[row], values)]

    def update_hidden(self, latent, dots, label, rival):
        head, config = self.head, self.config
        weights = [[pm(h >= 0) for h in self.rows[c]] for c in (label, rival)]
        for j in range(head.hidden):
            at = head.copies * (head.latent + j)
            towards = sum(weights[0][at:at + head.copies]) - sum(weights[1][at:at + head.copies])
            if towards == 0 or abs(dots[j]) > config.gate:
                continue
            sign = 1 if towards > 0 else -1
            self.hidden[j] = [self.move(h, sign * x if self.passes(config.hidden_thinning) else 0, self.hidden_top)
                              for h, x in zip(self.hidden[j], self.group_input(latent, j))]

    def passes(self, m):
        return all([self.mask.bit() for _ in range(m)])

    def turns(self, h, move):
        """With metaplastic steps: whether a counter moves."""
        if self.config.rule != "metaplastic":
            return True
        drawn, k = self.mask.word(8), h if h >= 0 else -1 - h
        return (move > 0) == (h >= 0) or drawn >= round(256 * math.tanh((2 * k + 1) / self.top) ** 2)

    def move(self, h, move, top):
        new = max(-top, min(top - 1, h + move))
        if self.config.rule == "flip" and (new >= 0) != (h >= 0):
            new = top - 1 if new >= 0 else -top
        return new
