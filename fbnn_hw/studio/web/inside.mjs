// What lies inside the chip: the latent, a layer's maps, where the cycles go, the counters of a lesson, and what fills the memory.

import {by, count, make, renew} from "./dom.mjs";

const CELL = 3, MAPS = 64;

const color = (element, name) => getComputedStyle(element).getPropertyValue(name).trim();

function rgb(text) {
  const pen = new OffscreenCanvas(1, 1).getContext("2d");
  pen.fillStyle = text;
  pen.fillRect(0, 0, 1, 1);
  return pen.getImageData(0, 0, 1, 1).data;
}

// Bits as dots: bit(x, y) of width x height.
function dots(canvas, width, height, bit) {
  const on = rgb(color(canvas, "--ink")), off = rgb(color(canvas, "--sunken")), data = new ImageData(width, height);
  for (let n = 0; n < width * height; n++) data.data.set(bit(n % width, Math.floor(n / width)) ? on : off, 4 * n);
  canvas.width = width;
  canvas.height = height;
  canvas.getContext("2d").putImageData(data, 0, 0);
}

export function showLatent(canvas, latent, bits) {
  const width = 2 ** Math.ceil(Math.log2(bits) / 2 + 0.5);
  dots(canvas, width, Math.ceil(bits / width), (x, y) => {
    const n = y * width + x;
    return n < bits && latent[n >> 3] >> (n & 7) & 1;
  });
}

// bit(channel, y, x) of a layer, out of the banks.  place: the layer's entry in layout.json.
function reader(place, banks, plan) {
  const wordBytes = plan.lanes / 8, across = plan.pixels / 2, where = new Map();
  place.lanes.forEach((word, n) => word.forEach((channel, lane) => { if (channel >= 0) where.set(channel, [n, lane]); }));
  return (channel, y, x) => {
    const bank = y % 2 * across + x % across, [word, lane] = where.get(channel);
    const address = place.base[0] + (Math.floor(y / 2) * place.columns + Math.floor(x / across)) * place.pitch + word;
    return banks[bank][address * wordBytes + (lane >> 3)] >> (lane & 7) & 1;
  };
}

// Draw the maps of a layer.  steps: what Gates.watch gave.  Returns a sentence about them.
export function showMaps(canvas, name, facts, steps) {
  const place = facts.layers[name], record = steps.find((one) => one.step === place.steps[0]);
  if (!record) return `${name} was not seen in the last picture.`;
  const [channels, height, width] = place.shape, shown = height > 1 ? Math.min(channels, MAPS) : channels;
  const bit = reader(place, record.banks, facts.plan);
  if (height === 1) {
    const across = Math.min(64, shown);
    dots(canvas, across, Math.ceil(shown / across), (x, y) => y * across + x < shown && bit(y * across + x, 0, 0));
    return `${name}: ${count(channels, "bit")}, each a yes or a no.`;
  }
  const across = Math.ceil(Math.sqrt(shown)), down = Math.ceil(shown / across), step = width + 1;
  dots(canvas, across * step - 1, down * (height + 1) - 1, (x, y) => {
    const map = Math.floor(y / (height + 1)) * across + Math.floor(x / step), px = x % step, py = y % (height + 1);
    return map < shown && px < width && py < height && bit(map, py, px);
  });
  return `${name} asks ${count(channels, "question")} at ${width} x ${height} places${shown < channels ? `; you see ${shown} of them` : ""}.`;
}

// A strip as wide as the cycles of each layer; a click chooses one.  chosen(layer name).
export function showCycles(element, facts, layer, chosen) {
  const total = facts.layer_cycles.reduce((sum, one) => sum + one.cycles, 0);
  renew(element, ...facts.layer_cycles.map((one) => {
    const name = one.layer.split("+").findLast((part) => facts.layers[part]) ?? null;
    return make("button", {
      type: "button", style: `flex-grow:${Math.max(one.cycles / total, 0.02)}`, class: "layer", "data-key": one.layer,
      "aria-pressed": String(name === layer),
      disabled: name === null, title: `${one.layer}: ${count(one.cycles, "tick")} of the clock`,
      onclick: () => chosen(name)}, make("span", {}, one.layer));
  }));
}

// The counters of a class before and after a lesson, as two histograms.
export function showCounters(canvas, {before, after}, width) {
  const bins = 64, top = 1 << width, tall = 80, pen = canvas.getContext("2d");
  const histogram = (values) => {
    const counts = new Array(bins).fill(0);
    values?.forEach((value) => counts[Math.floor((value + top / 2) * bins / top)]++);
    return counts;
  };
  const old = histogram(before), now = histogram(after), most = Math.max(1, ...old, ...now);
  canvas.width = bins * CELL * 2;
  canvas.height = tall;
  for (const [counts, name, shift] of [[old, "--faint", 0], [now, "--accent", CELL]]) {
    pen.fillStyle = color(canvas, name);
    counts.forEach((number, n) => {
      const height = Math.ceil(number / most * tall);
      pen.fillRect(n * CELL * 2 + shift, tall - height, CELL - 1, height);
    });
  }
}

// The rows of the chip's memory, as one bar.  used: exemplars stored, known: classes known.
export function showMemory(bar, list, facts, known, used) {
  const {rows, plan} = facts, taught = known / plan.max_classes;
  const share = {classifier: taught, counters: taught, exemplars: used / plan.slots};
  const total = Object.values(rows).reduce((sum, n) => sum + n, 0);
  const texts = {
    "feature maps": ["the picture", "on its way through the layers"],
    classifier: ["what is typical of each class", `${known} of ${plan.max_classes} classes`],
    counters: ["counters", "how sure it is of each answer of a class"],
    exemplars: ["stored fingerprints", `${used} of ${plan.slots}, for rehearsals`],
    "resident weights": ["the questions of the layers", "those that stay on the chip"], free: ["free", "nothing"]};
  const present = Object.entries(rows).filter(([name, size]) => size && !(plan.adds && name === "exemplars"));
  bar.replaceChildren(...present.map(([name, size], n) => make("div", {
    style: `flex-grow:${size / total};--share:${100 * (share[name] ?? 1)}%`, class: `rows kind${n}`})));
  list.replaceChildren(...present.map(([name, size], n) => make("li", {},
    make("span", {class: `key kind${n}`, "aria-hidden": "true"}), make("strong", {}, texts[name]?.[0] ?? name), " ",
    `${count(Math.round(size * facts.row_bits / 1000), "thousand bits", "thousand bits")}${texts[name] ? `: ${texts[name][1]}` : ""}`)));
}

const WORDS = [
  ["Picture", "What the chip sees: 32 by 32 dots. A thing that is small in view is hardly more than one dot."],
  ["Class", "One kind of thing that it can name, such as mug."],
  ["Lesson", "You show pictures of one class, and it changes what it remembers of this class."],
  ["Nothing", "A class like any other, made from pictures of the empty view. Without it an empty table gets the name of the thing that is most like it."],
  ["Score", "How well a picture fits a class. The bars show the best three; the longest one wins."],
  ["Unknown", "No class fits well enough. Each class learns from its own pictures how well a picture has to fit, so this gets better with more pictures. It is not always right."],
  ["Forget", "One class goes. All others stay exactly as they are, bit for bit."],
  ["Undo", "The last lesson, or whatever you changed last, is taken back. Up to ten times."],
  ["Freeze", "It answers and learns nothing until you press Thaw."],
  ["Bit", "A yes or a no. Everything in this chip is made of bits: the picture, the questions, what it remembers."],
  ["Fingerprint", "The answers that are left of a picture after the last layer. Engineers call it the latent."],
  ["Counter", "For each class and each answer of the fingerprint the chip counts how often the answer was yes and how often no."],
  ["Gate", "The smallest part of a chip: a few bits go in, one comes out. Without a chip at hand the page computes what its gates would do."],
  ["Tick", "A chip works in step with a clock. At each tick every part does one small piece of work."]];
const REPLAY_WORDS = [
  ["Stored pictures", "It keeps the fingerprints of some pictures of each class, so that it does not forget them while it learns others."],
  ["Rehearse", "It learns stored fingerprints again. Each lesson pulls on what it remembers of the other classes; this pulls back."]];

// The texts of the page on how it works that depend on the design.
export function explain(facts) {
  const {plan} = facts, words = WORDS.filter(([word]) => plan.unknown || word !== "Unknown").filter(([word]) => plan.forget || word !== "Forget");
  by("word-list").replaceChildren(...[...words, ...(plan.adds ? [] : REPLAY_WORDS)].flatMap(([word, text]) =>
    [make("dt", {}, word), make("dd", {}, text)]));
  by("latent-count").textContent = plan.latent.toLocaleString("en");
  const rate = count(Math.round(facts.clock_hz / facts.cycles), "picture");
  by("size-of-it").textContent = `${facts.title}: for one picture the chip compares ${Math.round(facts.macs / 1e6).toLocaleString("en")} million `
    + `pairs of bits in ${count(facts.cycles, "tick")} of its clock. At ${facts.clock_hz / 1e6} million ticks a second these are ${rate} a second (estimated).`;
}
