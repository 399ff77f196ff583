// The memory of a learner on a chip, read and written over the link: the twin of fbnn_hw/link/chip.py.  The learner must rest meanwhile.
// facts: what the page was made with; facts.plan has the fields of fbnn_hw/machine/learner.py.

import {Space} from "./numbers.mjs";
import {REGISTERS, verify} from "./state.mjs";

export const ENOUGH = 0.8;  // a lesson ends when this share of its pictures is right
const PARTS = 5;  // `close` has the pictures of a lesson in so many parts, each judged by the others
const FORGOTTEN = 0x8000;  // in the word of a class's presentations
const counterRow = (plan, label, word, chunk) => word * plan.block_rows + chunk * plan.max_classes + label;
const mirrorRow = (plan, label, word, plane) =>
  word * plan.block_rows + plan.chunks * plan.max_classes + plane * Math.ceil(plan.max_classes / plan.pixels)
  + Math.floor(label / plan.pixels);

// The planes of the mirror of a class, a list of bits each, from its counters: LearnPlan.planes says what they are.
function planesOf(values, presented, plan) {
  const signs = Array.from(values, (value) => value >= 0);
  if (plan.planes === 1) return [signs];
  const strong = plan.averages ? presented >> 1 : plan.strong;
  const high = Array.from(values, (value) => value >= strong), notLow = Array.from(values, (value) => value >= -strong);
  let odd = false;
  return [signs, high, notLow, high.map((one, n) => {
    if (!one && notLow[n]) return true;
    odd = !odd;
    return plan.averages && odd;
  })];
}

// {classes known, exemplars, registers and so on} without the large tables.
async function readMarks(client, plan) {
  const registers = [];
  for (const [n, {width}] of REGISTERS.entries()) {
    const bits = await client.words(Space.NOISE + n, 0, width);
    registers.push(bits.reduce((value, bit, at) => value | BigInt(bit & 1) << BigInt(at), 0n));
  }
  const {known, used, frozen} = await client.learned();
  const counts = await client.words(Space.PRESENTED, 0, plan.max_classes);
  const limits = plan.unknown ? (await client.words(Space.COUNTS, 0, plan.max_classes)).map((n) => n << 16 >> 16) : null;
  const forgotten = plan.forget ? counts.flatMap((n, label) => n & FORGOTTEN ? [label] : []) : null;
  const left = counts.map((n) => (plan.forget ? n & ~FORGOTTEN : n) >> 8);
  return {known, used, frozen, registers, presented: counts.map((n) => n & 0xFF), left, limits, forgotten};
}

// The whole state; LinkError for one that no learner of this design can be in.
export async function readState(client, facts) {
  const {plan} = facts, {used, ...marks} = await readMarks(client, plan), rowBytes = plan.pixels * plan.lanes / 8;
  const labels = used ? await client.words(Space.LABELS, 0, used) : [];
  const latentRows = Math.ceil(plan.latent / 8 / rowBytes);  // the hidden bits behind them follow from the latent
  const samples = Array.from({length: used}, () => new Uint8Array(latentRows * rowBytes));
  for (let row = 0; row < latentRows && used; row++) {
    const bytes = await client.peek(Space.BANKS, (plan.slots_base + row * plan.slots) * plan.pixels, used * plan.pixels);
    samples.forEach((sample, slot) => sample.set(bytes.subarray(slot * rowBytes, (slot + 1) * rowBytes), row * rowBytes));
  }
  const table = await client.peek(Space.BANKS, plan.learn_base * plan.pixels, plan.class_rows * plan.pixels);
  const output = Array.from({length: marks.known}, (_, label) => counters(table, label, plan));
  const state = {...marks, labels, latents: samples.map((sample) => sample.slice(0, Math.ceil(plan.latent / 8))), output};
  verify(state, facts);
  return state;
}

// The counters of a class, from the bytes of the table.
function counters(table, label, plan) {
  const {counter_bits: width, stored_bits: stored, per_row: perRow} = plan, values = new Int8Array(plan.fan_in);
  const mask = (1 << width) - 1, sign = 1 << width - 1, rowBytes = plan.pixels * plan.lanes / 8;
  for (let word = 0; word < plan.fan_in_words; word++) {
    for (let chunk = 0; chunk < plan.chunks; chunk++) {
      const row = counterRow(plan, label, word, chunk) * rowBytes;
      for (let n = 0; n < perRow; n++) {
        const bit = n * stored, value = table[row + (bit >> 3)] >> (bit & 7) & mask;
        values[word * plan.lanes + chunk * perRow + n] = value - (value & sign ? 1 << width : 0);
      }
    }
  }
  return values;
}

// The bytes of the table of the classes: counters, and their mirror.
function tableOf({output, presented}, plan) {
  const rowBytes = plan.pixels * plan.lanes / 8, wordBytes = plan.lanes / 8, table = new Uint8Array(plan.class_rows * rowBytes);
  const mask = (1 << plan.counter_bits) - 1;
  output.forEach((values, label) => {
    const planes = planesOf(values, presented[label], plan);
    for (let word = 0; word < plan.fan_in_words; word++) {
      for (let chunk = 0; chunk < plan.chunks; chunk++) {
        const row = counterRow(plan, label, word, chunk) * rowBytes;
        for (let n = 0; n < plan.per_row; n++) {
          const bit = n * plan.stored_bits;
          table[row + (bit >> 3)] |= (values[word * plan.lanes + chunk * plan.per_row + n] & mask) << (bit & 7);
        }
      }
      for (let plane = 0; plane < plan.planes; plane++) {
        const mirror = mirrorRow(plan, label, word, plane) * rowBytes + label % plan.pixels * wordBytes;
        for (let lane = 0; lane < plan.lanes; lane++) {
          if (planes[plane][word * plan.lanes + lane]) table[mirror + (lane >> 3)] |= 1 << (lane & 7);
        }
      }
    }
  });
  return table;
}

// Make the chip know a state.  The buffer is empty while the rest is written, so that a learner whose write breaks off still comes to
// rest after a replay.
export async function writeState(client, state, facts) {
  const {plan} = facts;
  verify(state, facts);
  await client.pokeWords(Space.SCALARS, 1, [0]);
  await client.pokeWords(Space.COUNTS, 0, new Array(plan.max_classes).fill(0));
  await client.poke(Space.BANKS, plan.learn_base * plan.pixels, tableOf(state, plan));
  for (const [n, {width}] of REGISTERS.entries()) {
    await client.pokeWords(Space.NOISE + n, 0, Array.from({length: width}, (_, bit) => Number(state.registers[n] >> BigInt(bit) & 1n)));
  }
  await client.pokeWords(Space.PRESENTED, 0, state.presented.map((n, label) =>
    n | state.left[label] << 8 | (state.forgotten?.includes(label) ? FORGOTTEN : 0)));
  if (state.limits) await client.pokeWords(Space.COUNTS, 0, state.limits);
  if (!plan.adds) await writeExemplars(client, state.labels, state.latents, facts);
  await client.pokeWords(Space.SCALARS, 0, [state.known, state.labels.length, Number(state.frozen)]);
}

// Fill the replay buffer with exemplars of classes known.
export async function writeExemplars(client, labels, latents, facts) {
  const {plan} = facts, rowBytes = plan.pixels * plan.lanes / 8;
  const samples = latents.map((latent) => sampleBytes(latent, facts, plan.slot_rows * rowBytes));
  for (let row = 0; row < plan.slot_rows && labels.length; row++) {
    const bytes = new Uint8Array(samples.length * rowBytes);
    samples.forEach((sample, slot) => bytes.set(sample.subarray(row * rowBytes, (row + 1) * rowBytes), slot * rowBytes));
    await client.poke(Space.BANKS, (plan.slots_base + row * plan.slots) * plan.pixels, bytes);
  }
  if (labels.length) await client.pokeWords(Space.LABELS, 0, labels);
  await client.pokeWords(Space.COUNTS, 0, Array.from({length: plan.max_classes}, (_, c) => labels.filter((label) => label === c).length));
  await client.pokeWords(Space.SCALARS, 1, [labels.length]);
}

// The weights of the classes known, bits of each packed in bytes, plane by plane, from the mirror alone.
export async function readWeights(client, plan, known) {
  const rows = Math.ceil(known / plan.pixels), wordBytes = plan.lanes / 8;
  const weights = Array.from({length: known}, () => new Uint8Array(plan.planes * plan.fan_in / 8));
  for (let at = 0; at < plan.planes * plan.fan_in_words; at++) {
    const first = mirrorRow(plan, 0, at % plan.fan_in_words, Math.floor(at / plan.fan_in_words));
    const bytes = await client.peek(Space.BANKS, (plan.learn_base + first) * plan.pixels, rows * plan.pixels);
    weights.forEach((row, label) => row.set(bytes.subarray(label * wordBytes, (label + 1) * wordBytes), at * wordBytes));
  }
  return weights;
}

// The same from the counters of a state.
export const weightsOf = ({output, presented}, plan) => output.map((values, label) => {
  const bits = new Uint8Array(plan.planes * values.length / 8);
  planesOf(values, presented[label], plan).flat().forEach((one, at) => { if (one) bits[at >> 3] |= 1 << (at & 7); });
  return bits;
});

const ONES = Uint8Array.from({length: 256}, (_, byte) => byte.toString(2).replaceAll("0", "").length);

function differing(a, b) {
  let count = 0;
  for (let n = 0; n < b.length; n++) count += ONES[a[n] ^ b[n]];
  return count;
}

// Bits of packed bytes from `first` on, each `copies` times in a row, packed.
function spread(bytes, first, count, copies) {
  const wide = new Uint8Array(Math.ceil(count * copies / 8));
  for (let n = 0; n < count; n++) {
    if (!(bytes[first + n >> 3] >> (first + n & 7) & 1)) continue;
    for (let at = n * copies; at < (n + 1) * copies; at++) wide[at >> 3] |= 1 << (at & 7);
  }
  return wide;
}

// A latent and behind it the bits of the hidden layer, which does not learn: what an exemplar holds.
export function sampleBytes(latent, facts, length = 0) {
  const {plan, hidden} = facts, bits = new Uint8Array(Math.max(length, Math.ceil((plan.latent + plan.hidden) / 8)));
  bits.set(latent);
  const perGroup = plan.hidden / plan.groups, inputs = plan.latent / plan.groups, fanIn = inputs * plan.hidden_copies;
  for (let neuron = 0, input = null; neuron < plan.hidden; neuron++) {
    if (neuron % perGroup === 0) input = spread(latent, neuron / perGroup * inputs, inputs, plan.hidden_copies);
    const at = plan.latent + neuron;
    if (fanIn - 2 * differing(hidden[neuron], input) >= 0) bits[at >> 3] |= 1 << (at & 7);
  }
  return bits;
}

// Scores of each class for a latent; that of a forgotten one is below all others.  The last of several planes meets ones.
export function scores(latent, weights, facts, forgotten = null) {
  const {plan} = facts, values = new Uint8Array(plan.planes * plan.fan_in / 8).fill(255);
  const own = spread(sampleBytes(latent, facts), 0, plan.latent + plan.hidden, plan.copies);
  for (let plane = 0; plane < Math.max(1, plan.planes - 1); plane++) values.set(own, plane * plan.fan_in / 8);
  return weights.map((row, label) => forgotten?.includes(label) ? -2 - plan.planes * plan.fan_in
    : plan.planes * plan.fan_in - 2 * differing(row, values));
}

// The state after more samples of a class, of a learner that sums them; registers and limits stay as they were.
export function summed(state, index, latents, facts) {
  const {plan} = facts, top = 1 << plan.counter_bits - 1, width = plan.fan_in;
  const fresh = index === state.known || state.forgotten?.includes(index);
  let row = fresh ? Int8Array.from(drawn(state.registers[1], REGISTERS[1], width), (bit) => bit - 1) : state.output[index];
  let presented = fresh ? 0 : state.presented[index];
  for (const latent of latents) {
    const input = spread(sampleBytes(latent, facts), 0, plan.latent + plan.hidden, plan.copies);
    if (plan.averages && presented === plan.presented_most) {
      presented >>= 1;
      row = row.map((value) => value >> 1);
    }
    presented++;
    row = row.map((value, n) => Math.max(-top, Math.min(top - 1, value + (input[n >> 3] >> (n & 7) & 1 ? 1 : -1))));
  }
  const put = (list, value) => [...list.slice(0, index), value, ...list.slice(index + 1)];
  return {
    ...state, known: Math.max(state.known, index + 1), output: put(state.output, row), presented: put(state.presented, presented),
    forgotten: state.forgotten?.filter((label) => label !== index) ?? null};
}

// The next bits of a register, a list.
function drawn(register, {width, tap}, count) {
  return Array.from({length: count}, () => {
    const bit = register & 1n;
    register = register >> 1n | (bit ^ register >> BigInt(tap) & 1n) << BigInt(width - 1);
    return Number(bit);
  });
}

// {index, mistaken} of the known class that a class is close to before a lesson of these latents, or null: the twin of `close` of
// fbnn_hw/board/lesson.py.
export function close(state, index, latents, facts) {
  const count = latents.length, parts = Math.min(PARTS, count), mistaken = new Array(state.known).fill(0);
  if (!state.known || count < 2) return null;
  for (let part = 0, first = 0; part < parts; part++) {
    const last = first + Math.floor(count / parts) + (part < count % parts);
    const trial = summed(state, index, [...latents.slice(0, first), ...latents.slice(last)], facts), weights = weightsOf(trial, facts.plan);
    for (const latent of latents.slice(first, last)) {
      const label = answer(scores(latent, weights, facts, trial.forgotten));
      if (label !== index) mistaken[label]++;
    }
    first = last;
  }
  if (count - mistaken.reduce((sum, one) => sum + one) > ENOUGH * count) return null;
  const near = answer(mistaken);
  return {index: near, mistaken: mistaken[near]};
}

export const answer = (numbers) => numbers.indexOf(Math.max(...numbers));

// A latent as the learner orders its bits, from the bytes of the feature memory.
export function ordered(memory, facts) {
  const {latent_bits: where, plan} = facts, bits = new Uint8Array(Math.ceil(plan.latent / 8));
  if (!where) return memory.slice(0, bits.length);
  where.forEach((from, at) => { if (memory[from >> 3] >> (from & 7) & 1) bits[at >> 3] |= 1 << (at & 7); });
  return bits;
}
