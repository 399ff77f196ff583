// Messages between this page and a board: docs/link.md is the definition, fbnn_hw/machine/protocol.py its twin in Python.
// tests/studio/link_vectors.json holds both to the same answers.

import {
  CRC_BYTES, CRC_POLYNOMIAL, CRC_START, ERROR, Fault, HEADER_BYTES, IDENTITY_BYTES, LATENT, LINK_VERSION, LOGITS, LONGEST_PAYLOAD, REPLY,
  STATUS_BYTES, SYNC, UNKNOWN, WORD_SIZES} from "./numbers.mjs";

// What a fault means, for the person at the page.
const MEANINGS = {
  CRC: "the check sum was wrong",
  OPCODE: "the request is unknown",
  LENGTH: "the length was wrong",
  TIMEOUT: "the message ended early",
  LINE: "a byte had no stop bit, the speed may differ",
  BUSY: "it was not ready for an image",
  RESULT: "no result came in time",
  LABEL: "it has no such class, or no room for one more",
  FROZEN: "it is frozen and learns nothing",
  SAMPLE: "no picture was shown to it before"};

// Of each fault: its meaning, whether the request may be sent again; damaged: the board may not have heard its number.
export const FAULTS = Object.fromEntries(Object.entries(Fault).map(
  ([code, {name, repeat, damaged}]) => [code, {text: MEANINGS[name], repeat, damaged, busy: name === "BUSY"}]));

// A sentence for the person at the page: what, found, expected, way out.
export class LinkError extends Error {}

const CRC_TABLE = Uint16Array.from({length: 256}, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? value >> 1 ^ CRC_POLYNOMIAL : value >> 1;
  return value;
});

// CRC-16/MCRF4XX of bytes from `start` up to `end`.
export function crc16(bytes, start = 0, end = bytes.length) {
  let value = CRC_START;
  for (let at = start; at < end; at++) value = value >> 8 ^ CRC_TABLE[(value ^ bytes[at]) & 0xFF];
  return value;
}

// The bytes of a message.
export function encode(opcode, payload = [], sequence = 0) {
  const message = new Uint8Array(HEADER_BYTES + payload.length + CRC_BYTES);
  message.set([SYNC, opcode, sequence, payload.length & 0xFF, payload.length >> 8]);
  message.set(payload, HEADER_BYTES);
  const crc = crc16(message, 1, message.length - CRC_BYTES);
  message.set([crc & 0xFF, crc >> 8], message.length - CRC_BYTES);
  return message;
}

// Bytes in, messages out; what belongs to no message is skipped.  limit: longest payload of a message.
export class Decoder {
  constructor(limit = LONGEST_PAYLOAD) {
    this.limit = Math.min(limit, LONGEST_PAYLOAD);
    this.bytes = new Uint8Array(0);
    this.base = 0;  // number of the first byte kept; numbers count from the first byte ever fed
    this.searched = 0;
    this.begun = [];  // {start, end} of messages whose header has come
    this.reported = {start: 0, end: 0};
  }

  // [{opcode, sequence, payload}] of the messages that `data` completes.
  feed(data) {
    const joined = new Uint8Array(this.bytes.length + data.length);
    joined.set(this.bytes);
    joined.set(data, this.bytes.length);
    this.bytes = joined;
    this.begin();
    const total = this.base + joined.length, messages = [];
    const complete = this.begun.filter((one) => one.end <= total).sort((a, b) => a.start - b.start);
    this.begun = this.begun.filter((one) => one.end > total);
    for (const {start, end} of complete) {
      if (this.reported.start < start && start < this.reported.end) continue;
      const text = this.bytes.subarray(start - this.base, end - this.base), body = text.length - CRC_BYTES;
      if (crc16(text, 1, body) !== (text[body] | text[body + 1] << 8)) continue;
      messages.push({opcode: text[1], sequence: text[2], payload: text.slice(HEADER_BYTES, body)});
      this.reported = {start, end};
    }
    const keep = Math.min(this.searched, ...this.begun.map((one) => one.start));
    this.bytes = this.bytes.slice(keep - this.base);
    this.base = keep;
    return messages;
  }

  begin() {
    const text = this.bytes;
    let at = text.indexOf(SYNC, this.searched - this.base);
    while (at >= 0 && at + HEADER_BYTES <= text.length) {
      const length = text[at + 3] | text[at + 4] << 8, start = this.base + at;
      if (length <= this.limit) this.begun.push({start, end: start + HEADER_BYTES + length + CRC_BYTES});
      at = text.indexOf(SYNC, at + 1);
    }
    this.searched = this.base + (at >= 0 ? at : text.length);
  }
}

export const isReply = (message, opcode, sequence) => message.opcode === (opcode | REPLY) && message.sequence === sequence;
export const isFault = (message) => message.opcode === ERROR && message.payload.length === 1;
export const isAnswer = (message) => Boolean(message.opcode & REPLY);

// Payload of a request to a learner; words follow in a POKE.
export const operand = (number = 0, count = 0) => [number & 0xFF, number >> 8 & 0xFF, number >> 16 & 0xFF, count];

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

// The reply to IDENTIFY; LinkError for one that no board of this protocol can give.
export function identity(data) {
  if (!data.length || data[0] !== LINK_VERSION) {
    throw new LinkError(`The board speaks version ${data.length ? data[0] : "nothing"} of the protocol, expected ${LINK_VERSION}.`);
  }
  if (data.length !== IDENTITY_BYTES) throw new LinkError(`The board's identity has ${data.length} bytes, expected ${IDENTITY_BYTES}.`);
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const told = {
    version: data[0], config: hex(data.subarray(1, 5)), classes: view.getUint16(5, true), size: view.getUint16(7, true),
    latentBytes: view.getUint16(9, true), frames: data[11], maxClasses: view.getUint16(12, true), wordBytes: data[14],
    model: hex(data.subarray(15, 19))};
  const imageBytes = 3 * told.size ** 2, learns = told.maxClasses > 0;
  const resultBytes = 2 * Math.max(told.classes, told.maxClasses) + told.latentBytes + 2;
  const legal = [
    ["classes", told.classes, told.classes > 0 || learns], ["pixels a side", told.size, imageBytes > 0 && imageBytes <= LONGEST_PAYLOAD],
    ["images of a pass", told.frames, told.frames === 1],
    ["most classes", told.maxClasses, !learns || told.maxClasses >= told.classes],
    ["bytes of a word", told.wordBytes, learns ? WORD_SIZES.includes(told.wordBytes) : told.wordBytes === 0],
    ["bytes of a result", resultBytes, resultBytes <= LONGEST_PAYLOAD]];
  for (const [name, value, good] of legal) {
    if (!good) throw new LinkError(`The board's identity is damaged: ${name}: ${value}.`);
  }
  return {...told, imageBytes, replyLimit: Math.max(IDENTITY_BYTES, STATUS_BYTES, resultBytes, 255 * told.wordBytes)};
}

// The reply to STATUS.
export function status(data) {
  if (data.length !== STATUS_BYTES) throw new LinkError(`The board's status has ${data.length} bytes, expected ${STATUS_BYTES}.`);
  if (data[0] > 31) throw new LinkError(`The board's status has the flags ${data[0]}, expected at most 31.`);
  return {
    ready: Boolean(data[0] & 1), wrongFlash: Boolean(data[0] & 2), frozen: Boolean(data[0] & 4), ahead: Boolean(data[0] & 8),
    frames: data[1] | data[2] << 8, errors: data[3] | data[4] << 8, cycles: data[5] | data[6] << 8 | data[7] << 16};
}

// The reply to CLASSIFY of one image, asked for with `flags`, from a board with room for `most` classes.
export function result(data, flags, latentBytes, most) {
  const latentLength = flags & LATENT ? latentBytes : 0;
  const classes = flags & LOGITS ? Math.max(0, data.length - 2 - latentLength) >> 1 : most;
  const length = (flags & LOGITS ? 2 * classes : 0) + latentLength + 2;
  if (data.length !== length || classes > most) {
    throw new LinkError(`The board's result has ${data.length} bytes and ${classes} classes, expected at most ${most}.`);
  }
  const view = new DataView(data.buffer, data.byteOffset, data.length), at = flags & LOGITS ? 2 * classes : 0;
  const logits = flags & LOGITS ? Array.from({length: classes}, (_, n) => view.getInt16(2 * n, true)) : null;
  const word = view.getUint16(length - 2, true), unknown = Boolean(flags & UNKNOWN && word >> 15);
  const index = flags & UNKNOWN ? word & 0x7FFF : word;
  if (logits && !classes && !index) return {index: null, logits, latent: latentLength ? data.slice(at, -2) : null};  // no class is known
  if (index >= classes) throw new LinkError(`The board found class ${index}, expected one below ${classes}.`);
  if (logits && index !== logits.indexOf(Math.max(...logits))) {
    throw new LinkError(`The board found class ${index}, whose logit is not the largest.`);
  }
  return {index, logits, latent: latentLength ? data.slice(at, -2) : null, ...(flags & UNKNOWN ? {unknown} : {})};
}
