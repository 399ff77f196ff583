// The state of a learner as plain data, and as the bytes of a snapshot: docs/learner.md, section "Snapshots".
// Twins: fbnn_hw/reference/learning/snapshot.py and fbnn_hw/board/taught.py.
//
// A state: {known, frozen, registers: [BigInt of noise, mask, pick], presented: [of each class], left: [of each class],
// labels: [of each exemplar], latents: [bytes of each exemplar], output: [Int8Array of the counters of each class known],
// limits: [of each class] or null, forgotten: [class numbers] or null}.

import {LinkError} from "./link.mjs";

const MAGIC = "FBNNLRN\0", VERSION = 2, EXTENDED = 3, SNAPSHOT_HEADER_BYTES = 14, SCALAR_BYTES = 35;
const HEAD = "fbnn-hw learned ", LONGEST_NAME = 100, MOST_NAMES = 1024, LONGEST_LINE = 1 << 21;
const UNSHOWN = new RegExp("[\\0-\\x1f\\x7f-\\xa0\\xad\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u1680\\u180e\\u2000-\\u200f"
  + "\\u2028-\\u202f\\u205f-\\u206f\\u3000\\ud800-\\uf8ff\\ufdd0-\\ufdef\\ufeff\\ufff9-\\ufffb\\ufffe\\uffff\\u{110bd}\\u{110cd}"
  + "\\u{13430}-\\u{1343f}\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e007f}\\u{f0000}-\\u{10ffff}]", "u");
export const REGISTERS = [{name: "noise", width: 31, tap: 13}, {name: "mask", width: 63, tap: 31}, {name: "pick", width: 47, tap: 21}];

const CRC32_TABLE = Uint32Array.from({length: 256}, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? value >>> 1 ^ 0xEDB88320 : value >>> 1;
  return value >>> 0;
});

export function crc32(bytes) {
  let value = 0xFFFFFFFF;
  for (const byte of bytes) value = value >>> 8 ^ CRC32_TABLE[(value ^ byte) & 0xFF];
  return (value ^ 0xFFFFFFFF) >>> 0;
}

const refuse = (name, value, expected) => new LinkError(`${name}: ${value}, expected ${expected}.`);

// LinkError unless a learner with these facts can be in this state.
export function verify(state, facts) {
  const {max_classes: most, shipped, slots, prototype, counter_bits: width, adds, averages, presented_most: presentedMost} = facts.plan;
  if (state.known < shipped || state.known > most) throw refuse("classes known", state.known, `${shipped} to ${most}`);
  if (state.labels.length > slots) throw refuse("exemplars", state.labels.length, `at most ${slots}`);
  REGISTERS.forEach(({name, width: bits}, n) => {
    const value = state.registers[n];
    if (value <= 0n || value >= 1n << BigInt(bits)) throw refuse(`register ${name}`, value, "another value");
  });
  if (state.labels.length && (adds || !state.known)) throw refuse("exemplars", state.labels.length, "0");
  const forgotten = state.forgotten ?? [];
  for (const label of forgotten) {
    const wrong = label >= Math.max(shipped, state.known - 1) || state.labels.includes(label) || state.output[label].some(Boolean);
    if (wrong || forgotten.length === state.known) throw refuse("forgotten class", label, "another");
  }
  for (let label = 0; label < most; label++) {
    const none = label >= state.known || forgotten.includes(label), ships = label < shipped && !facts.plan.forget;
    const limits = none ? [0, 0, 0] : [presentedMost, ships ? 0 : prototype, 3 * facts.plan.fan_in];
    if (state.presented[label] > limits[0]) throw refuse(`presentations of class ${label}`, state.presented[label], `at most ${limits[0]}`);
    if (state.left[label] > limits[1]) throw refuse(`prototype presentations of class ${label}`, state.left[label], `at most ${limits[1]}`);
    if (Math.abs(state.limits?.[label] ?? 0) > limits[2]) throw refuse(`limit of class ${label}`, state.limits[label], `at most ${limits[2]}`);
  }
  state.labels.forEach((label, slot) => {
    if (label >= state.known) throw refuse(`class of exemplar ${slot}`, label, `one below ${state.known}`);
  });
  const top = 1 << width - 1;
  state.output.forEach((counters, label) => {
    const most = averages ? state.presented[label] : top - 1;
    if (averages && !most && !forgotten.includes(label)) throw refuse(`presentations of class ${label}`, 0, "at least 1 of a class known");
    for (const value of counters) if (value < -1 - most || value > most) throw refuse("counter", value, `${-1 - most} to ${most}`);
  });
}

// The snapshot of a state.  design: check value of the design.
export function pack(state, design) {
  const parts = [], scalars = new Uint8Array(SCALAR_BYTES), view = new DataView(scalars.buffer);
  view.setUint32(0, design, true);
  view.setUint16(4, state.known, true);
  view.setUint8(6, Number(state.frozen));
  view.setUint32(7, state.labels.length, true);
  state.registers.forEach((value, n) => view.setBigUint64(11 + 8 * n, value, true));
  const labels = new Uint8Array(2 * state.labels.length);
  state.labels.forEach((label, n) => labels.set([label & 0xFF, label >> 8], 2 * n));
  const limits = (state.limits ?? []).flatMap((limit) => [limit & 0xFF, limit >> 8 & 0xFF]);
  const forgotten = state.forgotten ? state.presented.map((_, label) => Number(state.forgotten.includes(label))) : [];
  parts.push(scalars, Uint8Array.from(state.presented), Uint8Array.from(state.left), Uint8Array.from(limits), Uint8Array.from(forgotten),
    labels, ...state.latents,
    ...state.output.map((row) => new Uint8Array(row.buffer, row.byteOffset, row.length)));
  const body = join(parts), header = new Uint8Array(SNAPSHOT_HEADER_BYTES), head = new DataView(header.buffer);
  header.set(new TextEncoder().encode(MAGIC));
  head.setUint16(8, state.limits || state.forgotten ? EXTENDED : VERSION, true);
  head.setUint32(10, crc32(body), true);
  return join([header, body]);
}

// The state after a class is forgotten; LinkError for the last one of a design that ships some.
export function without(state, label, facts) {
  const {shipped} = facts.plan, zero = (values) => values.map((value, n) => n === label ? 0 : value);
  if (shipped && state.known - state.forgotten.length === 1) throw new LinkError("This is the last class; another one must stay.");
  const keep = state.labels.map((_, slot) => slot).filter((slot) => state.labels[slot] !== label);
  let {known} = state, forgotten = [...state.forgotten, label].sort((a, b) => a - b);
  while (known > shipped && forgotten.at(-1) === known - 1) {
    known--;
    forgotten = forgotten.slice(0, -1);
  }
  return {
    ...state, known, forgotten, presented: zero(state.presented), left: zero(state.left), limits: state.limits && zero(state.limits),
    labels: keep.map((slot) => state.labels[slot]), latents: keep.map((slot) => state.latents[slot]),
    output: state.output.slice(0, known).map((row, n) => n === label ? new Int8Array(row.length) : row)};
}

// Whether two states are the same, bit for bit.
export function equal(one, other) {
  const [a, b] = [pack(one, 0), pack(other, 0)];
  return a.length === b.length && a.every((byte, n) => byte === b[n]);
}

// The state of a snapshot; LinkError for anything but a state of a learner with these facts.
export function unpack(data, facts) {
  const {max_classes: most, shipped, slots, latent, fan_in: fanIn} = facts.plan;
  if (data.length < SNAPSHOT_HEADER_BYTES + SCALAR_BYTES || new TextDecoder().decode(data.subarray(0, 8)) !== MAGIC) {
    throw new LinkError("This is no snapshot of a learner; expected a file that this page or fbnn-hw learn --snapshot wrote.");
  }
  const view = new DataView(data.buffer, data.byteOffset, data.length), body = data.subarray(SNAPSHOT_HEADER_BYTES);
  const version = facts.plan.unknown || facts.plan.forget ? EXTENDED : VERSION;
  if (view.getUint16(8, true) !== version) throw refuse("version of the snapshot", view.getUint16(8, true), version);
  if (view.getUint32(10, true) !== crc32(body)) throw new LinkError("The snapshot is damaged: its check sum does not fit.");
  if (view.getUint32(14, true) !== facts.check) {
    throw new LinkError("This snapshot is of another design; expected one of the same classifier and the same configuration.");
  }
  const known = view.getUint16(18, true), frozen = view.getUint8(20), used = view.getUint32(21, true);
  if (known < shipped || known > most) throw refuse("classes known", known, `${shipped} to ${most}`);
  if (used > slots) throw refuse("exemplars", used, `at most ${slots}`);
  if (frozen > 1) throw refuse("frozen", frozen, "0 or 1");
  const latentBytes = Math.ceil(latent / 8), extras = 2 * facts.plan.unknown + facts.plan.forget;
  const expected = SCALAR_BYTES + (2 + extras) * most + used * (2 + latentBytes) + known * fanIn;
  if (body.length !== expected) throw refuse("bytes of the snapshot", data.length, SNAPSHOT_HEADER_BYTES + expected);
  let at = SCALAR_BYTES;
  const take = (count) => body.slice(at, at += count);
  const presented = [...take(most)], left = [...take(most)];
  const limits = facts.plan.unknown ? [...new Int16Array(take(2 * most).buffer)] : null;
  const marks = facts.plan.forget ? [...take(most)] : [], labels = take(2 * used);
  if (marks.some((mark) => mark > 1)) throw refuse("forgotten", Math.max(...marks), "0 or 1");
  const state = {
    known, frozen: Boolean(frozen), registers: REGISTERS.map((_, n) => view.getBigUint64(25 + 8 * n, true)), presented, left,
    labels: Array.from({length: used}, (_, n) => labels[2 * n] | labels[2 * n + 1] << 8),
    latents: Array.from({length: used}, () => take(latentBytes)),
    output: Array.from({length: known}, () => new Int8Array(take(fanIn).buffer)), limits,
    forgotten: facts.plan.forget ? marks.flatMap((mark, label) => mark ? [label] : []) : null};
  verify(state, facts);
  return state;
}

// Whether a value can be the name of a class, in a file too: `is_name` of fbnn_hw/errors.py, which has the same characters.
export function isName(name) {
  return typeof name === "string" && /[^ ]/.test(name) && !UNSHOWN.test(name) && [...name].length <= LONGEST_NAME;
}

// A name as it enters and is compared.
export const spelled = (name) => name.normalize("NFC");

// Why a class cannot be taught under this name, or "".
export function nameFault(name) {
  if (!name.trim()) return "Type a name for the class first.";
  if ([...name].length > LONGEST_NAME) return `The name has ${[...name].length} characters, expected at most ${LONGEST_NAME}.`;
  if (/^ | $/.test(name)) return "The name begins or ends with a blank; take that away.";
  return isName(name) ? "" : "The name has characters that cannot be shown; take them away.";
}

// `names`, then those of `classes` behind them; `class N`, and a ' as often as needed, in place of one that is there.
export function titled(names, classes) {
  const result = [...names];
  for (let number = names.length; number < classes.length; number++) {
    let name = result.includes(classes[number]) ? `class ${number}` : classes[number];
    while (result.includes(name)) name += "'";
    result.push(name);
  }
  return result;
}

// Names of `count` classes: those of `names`, then `class N`.
export const named = (names, count) => titled(names.slice(0, count), Array.from({length: count}, (_, number) => `class ${number}`));

// The file of what a board was taught, as fbnn-hw writes it.
export function packFile(names, state, design) {
  const escape = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const head = `${HEAD}[${names.map((name) => name === null ? "null" : escape(name)).join(", ")}]\n`;
  return join([new TextEncoder().encode(head), pack(state, design)]);
}

// {names, state} of such a file, or of a bare snapshot.
export function unpackFile(data, facts) {
  const starts = (text) => new TextDecoder("latin1").decode(data.subarray(0, text.length)) === text;
  if (starts(MAGIC)) return {names: [], state: unpack(data, facts)};
  const end = data.subarray(0, LONGEST_LINE).indexOf(10);
  let names = null;
  if (starts(HEAD) && end > 0) {
    try {
      names = JSON.parse(new TextDecoder("utf-8", {fatal: true, ignoreBOM: true}).decode(data.subarray(HEAD.length, end)));
    } catch { /* no UTF-8 or no JSON: refused below */ }
  }
  if (!Array.isArray(names) || names.length > MOST_NAMES) {
    throw new LinkError("This file is damaged or another one; expected a file that this page or fbnn-hw learn --snapshot wrote.");
  }
  names.forEach((name, index) => {
    if (name !== null && (!isName(name) || names.indexOf(name) !== index)) throw refuse(`name of class ${index}`, JSON.stringify(name), "one of its own");
  });
  const state = unpack(data.subarray(end + 1), facts);
  if (names.length > state.known) throw refuse("names of classes", names.length, `at most ${state.known}`);
  names.forEach((name, label) => {
    if ((name === null) !== Boolean(state.forgotten?.includes(label))) throw refuse(`name of class ${label}`, name, "null of a forgotten class");
  });
  return {names, state};
}

export function join(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
