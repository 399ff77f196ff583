// Holds state.mjs and memory.mjs of fbnn_hw/studio/web to learner_vectors.json, which the reference wrote.  node check_state.mjs
import assert from "node:assert/strict";
import fs from "node:fs";
import {close, readState, readWeights, sampleBytes, scores, summed, weightsOf, writeState} from "../../fbnn_hw/studio/web/memory.mjs";
import {LinkError} from "../../fbnn_hw/studio/web/link.mjs";
import {crc32, equal, isName, nameFault, named, pack, packFile, spelled, titled, unpack, unpackFile, without} from "../../fbnn_hw/studio/web/state.mjs";

const bytes = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const hex = (data) => Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");

// A chip that is a dictionary, with the calls of requests.mjs that memory.mjs makes.
class Memory {
  constructor(wordBytes, content = []) {
    this.size = wordBytes;
    this.identity = {wordBytes};
    this.held = new Map();
    for (const [space, address, word] of content) {
      this.held.set(`${space} ${address}`, bytes(word.padStart(2 * wordBytes, "0")).reverse());
    }
  }

  async peek(space, address, count) {
    const data = new Uint8Array(count * this.size);
    for (let n = 0; n < count; n++) data.set(this.held.get(`${space} ${address + n}`) ?? [], n * this.size);
    return data;
  }

  async words(space, address, count) {
    const data = await this.peek(space, address, count);
    return Array.from({length: count}, (_, n) => data[n * this.size] | data[n * this.size + 1] << 8);
  }

  async learned() {
    const [known, used, frozen] = await this.words(4, 0, 3);
    return {known, used, frozen: Boolean(frozen)};
  }

  async poke(space, address, data) {
    for (let n = 0; n < data.length / this.size; n++) this.held.set(`${space} ${address + n}`, data.slice(n * this.size, (n + 1) * this.size));
  }

  async pokeWords(space, address, values) {
    const data = new Uint8Array(values.length * this.size);
    values.forEach((value, n) => data.set([value & 255, value >> 8], n * this.size));
    await this.poke(space, address, data);
  }

  content() {
    return [...this.held].filter(([, word]) => word.some(Boolean)).map(([place, word]) =>
      [...place.split(" ").map(Number), hex(word.slice().reverse()).replace(/^0+/, "")]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  }
}

const vectors = JSON.parse(fs.readFileSync(new URL("learner_vectors.json", import.meta.url)));
let refused = 0;
for (const vector of vectors) {
  const {facts} = vector, text = bytes(vector.snapshot);
  facts.hidden = facts.hidden.map((row) => Uint8Array.from(atob(row), (c) => c.charCodeAt(0)));
  const chip = new Memory(facts.plan.lanes / 8, vector.memory), state = await readState(chip, facts);
  assert.equal(hex(pack(state, facts.check)), vector.snapshot);
  assert.deepEqual(unpack(text, facts), state);
  assert.ok(equal(await readState(chip, facts), state));
  assert.ok(!equal({...state, frozen: true}, state));
  // Another lesson may leave the same numbers of classes, samples and draws.
  const [first, ...rest] = state.output;
  assert.ok(!equal({...state, output: [first.map((value, n) => n ? value : value ^ 1), ...rest]}, state));
  const other = new Memory(facts.plan.lanes / 8);
  await writeState(other, state, facts);
  assert.deepEqual(other.content(), vector.memory);
  assert.equal(hex(packFile(vector.names, state, facts.check)), vector.file);
  assert.deepEqual(unpackFile(bytes(vector.file), facts), {names: vector.names, state});
  assert.deepEqual(unpackFile(text, facts).names, []);
  const weights = weightsOf(state, facts.plan);
  assert.deepEqual(await readWeights(chip, facts.plan, state.known), weights);
  vector.latents.forEach((latent, n) => {
    assert.equal(hex(sampleBytes(bytes(latent), facts)), vector.samples[n]);
    assert.deepEqual(scores(bytes(latent), weights, facts, state.forgotten), vector.scores[n]);
  });
  for (const [label, latents, after, near] of vector.near) {
    const shown = latents.map(bytes), then = summed(state, label, shown, facts), rows = weightsOf(then, facts.plan);
    assert.deepEqual(shown.map((latent) => scores(latent, rows, facts, then.forgotten)), after);
    assert.deepEqual(close(state, label, shown, facts), near);
  }
  for (const [label, after] of vector.less) assert.equal(hex(pack(without(state, label, facts), facts.check)), after);
  const sealed = (change) => {
    const copy = text.slice();
    change(copy);
    new DataView(copy.buffer).setUint32(10, crc32(copy.subarray(14)), true);
    return copy;
  };
  const wrong = [
    text.slice(0, -1), text.slice(0, 20), new Uint8Array(0), sealed((t) => { t[14] ^= 1; }), sealed((t) => { t[18] = 1; }),
    sealed((t) => { t[20] = 2; }), sealed((t) => { t.fill(0, 25, 33); }), sealed((t) => { t[49] = 255; })];
  const taken = (data) => {
    try {
      return Boolean(unpackFile(data, facts));
    } catch (error) {
      assert.ok(error instanceof LinkError, error);
      return false;
    }
  };
  for (const [offset, byte, legal] of vector.changes) {
    assert.equal(taken(sealed((t) => { t[offset] = byte; })), legal, `byte ${offset} is ${byte}`);
  }
  for (const [line, legal] of vector.lines) assert.equal(taken(bytes(line + vector.snapshot)), legal, `names ${line}`);
  if (state.labels.length) wrong.push(sealed((t) => { t[49 + 2 * facts.plan.max_classes] = 4; }));
  for (const data of wrong) {
    assert.throws(() => unpack(data, facts), LinkError);
    refused++;
  }
}
assert.deepEqual(named(["a", "class 2"], 4), ["a", "class 2", "class 2'", "class 3"]);
for (const name of ["", " ", "a ", "a\u0007", "a\u200e", "x".repeat(101)]) assert.notEqual(nameFault(name), "", JSON.stringify(name));
for (const name of ["a", "a b", "\u732b", "x".repeat(100)]) assert.equal(nameFault(name), "");
assert.deepEqual(titled(["b"], ["a", "b", "c"]), ["b", "class 1", "c"]);
assert.deepEqual(titled(["class 1", "b"], ["a", "class 1", "b"]), ["class 1", "b", "class 2"]);
assert.equal(spelled("cafe\u0301"), "caf\u00e9");
for (const name of ["a ", " a", "\ud83e\udebf"]) assert.ok(isName(name));
for (const name of ["", "  ", 7, null, "x".repeat(101)]) assert.ok(!isName(name));
const runs = [];  // [first, last + 1] of the characters that a name may consist of
for (let number = 0; number <= 0x10FFFF; number++) {
  if (!isName(`a${String.fromCodePoint(number)}`)) continue;
  if (runs.at(-1)?.[1] === number) runs.at(-1)[1]++;
  else runs.push([number, number + 1]);
}
console.log(JSON.stringify({learners: vectors.length, refused, names: runs}));
