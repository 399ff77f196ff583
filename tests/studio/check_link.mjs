// Holds fbnn_hw/studio/web/link.mjs to link_vectors.json, whose answers fbnn_hw/machine/protocol.py gave.  node check_link.mjs
import assert from "node:assert/strict";
import fs from "node:fs";
import {Decoder, LinkError, encode, identity, result, status} from "../../fbnn_hw/studio/web/link.mjs";

const vectors = JSON.parse(fs.readFileSync(new URL("link_vectors.json", import.meta.url)));
const bytes = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const hex = (data) => Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");

for (const {opcode, payload, sequence, message} of vectors.encode) assert.equal(hex(encode(opcode, bytes(payload), sequence)), message);
for (const {limit, pieces, messages} of vectors.decode) {
  const decoder = new Decoder(limit);
  const heard = pieces.map((piece) => decoder.feed(bytes(piece)).map((one) => [one.opcode, one.sequence, hex(one.payload)]));
  assert.deepEqual(heard, messages);
}
const parsers = {identity, status, result: (data, one) => result(data, one.flags, one.latent_bytes, one.most)};
let refused = 0;
for (const [kind, parse] of Object.entries(parsers)) {
  for (const one of vectors[kind]) {
    if (one.fields === null) {
      assert.throws(() => parse(bytes(one.data), one), LinkError, `${kind} ${one.data}`);
      refused++;
    } else {
      const told = parse(bytes(one.data), one);
      for (const [name, value] of Object.entries(one.fields)) {
        assert.deepEqual(told[name] instanceof Uint8Array ? hex(told[name]) : told[name], value, `${kind} ${one.data} ${name}`);
      }
    }
  }
}
console.log(JSON.stringify({encode: vectors.encode.length, decode: vectors.decode.length, refused}));
