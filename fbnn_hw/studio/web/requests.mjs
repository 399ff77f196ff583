// Requests to a board over any transport, repeated when one is lost: the twin of fbnn_hw/link/client.py.

import {Decoder, FAULTS, LinkError, encode, identity, isAnswer, isFault, isReply, operand, result, status} from "./link.mjs";
import {LATENT, LOGITS, LONGEST_PAYLOAD, LONGEST_POKE, OPERAND_BYTES, Opcode, Space, UNKNOWN} from "./numbers.mjs";

const RETRIES = 3, WAIT_MS = 2000, IDENTIFY_MS = 5000, READY_MS = 5000, POLL_MS = 50;
const PEEK_WORDS = 128, REHEARSE_MOST = 64, LONGEST_IDENTITY = 0xFF;

// Pieces [first, count] of a range of addresses in which first xor i is first + i, for all i below count; `most` of them at most.
export function aligned(first, count, most) {
  const pieces = [], largest = 2 ** Math.floor(Math.log2(most));
  for (let at = first, end = first + count; at < end;) {
    const size = Math.min((at & -at) || largest, largest, end - at);
    pieces.push([at, size]);
    at += size;
  }
  return pieces;
}

// transport: write(bytes), read(ms) -> bytes or none after that time, discard(), name, patience (times the usual waits).
// Requests wait for each other, so that two parts of the page may ask at once.
export class Client {
  constructor(transport) {
    this.transport = transport;
    this.identity = null;
    this.repeated = 0;
    this.asksUnknown = false;  // of a design made with --unknown alone
    this.sequence = Math.floor(Math.random() * 256);
    this.last = Promise.resolve();
  }

  get waitMs() { return WAIT_MS * (this.transport.patience ?? 1); }

  // A board that is still busy for the page that was here before hears nothing; a slow one is asked again sooner than it may take.
  async identify() {
    const waitMs = Math.min(this.waitMs, IDENTIFY_MS), tries = Math.ceil((RETRIES + 1) * this.waitMs / waitMs);
    this.identity = identity(await this.ask(Opcode.IDENTIFY, [], LONGEST_IDENTITY, {waitMs, tries}));
    return this.identity;
  }

  async status() { return status(await this.ask(Opcode.STATUS)); }

  async waitReady() {
    const until = Date.now() + READY_MS * (this.transport.patience ?? 1);
    for (;;) {
      const told = await this.status();
      if (told.ready) return told;
      if (told.wrongFlash) {
        throw new LinkError("The flash holds no weights of this design; run fbnn-hw flash with the folder that was built.");
      }
      if (Date.now() > until) throw new LinkError("The board has not loaded its weights; is the flash written?");
      await new Promise((done) => setTimeout(done, POLL_MS));
    }
  }

  // {index, logits, latent, unknown} of an image, bytes of RGB pixels row by row.  Where the answer is unknown, index is the nearest.
  async classify(image, {latent = false} = {}) {
    const told = this.identity ?? await this.identify();
    if (image.length !== told.imageBytes) throw new LinkError(`The picture has ${image.length} bytes, expected ${told.imageBytes}.`);
    const flags = LOGITS | (latent ? LATENT : 0) | (this.asksUnknown ? UNKNOWN : 0);
    return result(await this.ask(Opcode.CLASSIFY | flags, image), flags, told.latentBytes, told.maxClasses || told.classes);
  }

  learn(label) { return this.ask(Opcode.LEARN, operand(label)); }
  store(label) { return this.ask(Opcode.STORE, operand(label)); }
  freeze(frozen) { return this.ask(Opcode.FREEZE, operand(0, Number(frozen))); }

  async rehearse(count) {
    for (let done = 0; done < count; done += REHEARSE_MOST) {
      await this.ask(Opcode.REHEARSE, operand(0, Math.min(REHEARSE_MOST, count - done)));
    }
  }

  async reset() {
    await this.ask(Opcode.RESET, operand());
    await this.waitReady();
  }

  // {known, used, frozen}
  async learned() {
    const [known, used, frozen] = await this.words(Space.SCALARS, 0, 3);
    return {known, used, frozen: Boolean(frozen)};
  }

  // Bytes of `count` words of a learner's memory.
  async peek(space, address, count) {
    const size = this.identity.wordBytes, bytes = new Uint8Array(count * size);
    for (const [first, part] of aligned(address, count, PEEK_WORDS)) {
      const data = await this.ask(Opcode.PEEK | space, operand(first, part));
      if (data.length !== part * size) throw new LinkError(`The board sent ${data.length} bytes of its memory, expected ${part * size}.`);
      bytes.set(data, (first - address) * size);
    }
    return bytes;
  }

  // The same as numbers, of words that hold at most 32 bits.
  async words(space, address, count) {
    const size = this.identity.wordBytes, bytes = await this.peek(space, address, count);
    return Array.from({length: count}, (_, n) => {
      let value = 0;
      for (let byte = Math.min(size, 4) - 1; byte >= 0; byte--) value = value * 256 + bytes[n * size + byte];
      return value;
    });
  }

  // Write bytes of whole words.
  async poke(space, address, bytes) {
    const size = this.identity.wordBytes, most = Math.floor((LONGEST_POKE - OPERAND_BYTES) / size);
    for (const [first, count] of aligned(address, bytes.length / size, most)) {
      const part = bytes.subarray((first - address) * size, (first - address + count) * size);
      await this.ask(Opcode.POKE | space, [...operand(first, count), ...part]);
    }
  }

  async pokeWords(space, address, values) {
    const size = this.identity.wordBytes, bytes = new Uint8Array(values.length * size);
    values.forEach((value, n) => bytes.set([value & 0xFF, value >> 8 & 0xFF], n * size));
    await this.poke(space, address, bytes);
  }

  ask(opcode, payload = [], limit = null, {waitMs = this.waitMs, tries = RETRIES + 1} = {}) {
    const answer = this.last.then(() => this.send(opcode, payload, limit, waitMs, tries));
    this.last = answer.catch(() => {});
    return answer;
  }

  async send(opcode, payload, limit, waitMs, tries) {
    this.sequence = this.sequence + 1 & 0xFF;
    const sequence = this.sequence, name = this.transport.name;
    let reason = "";
    for (let attempt = 0; attempt < tries; attempt++) {
      this.repeated += attempt > 0;
      const reply = await this.once(opcode, payload, sequence, limit ?? this.identity?.replyLimit ?? LONGEST_PAYLOAD, waitMs);
      if (reply.payload) return reply.payload;
      reason = reply.reason;
      if (reply.fault && !reply.fault.repeat) throw new LinkError(`${name}: ${reason}.`);
      if (reply.fault?.busy) await new Promise((done) => setTimeout(done, POLL_MS));
    }
    throw new LinkError(`${name}: ${reason}, ${tries} times.`);
  }

  // {payload}, or {reason} and perhaps {fault}
  async once(opcode, payload, sequence, limit, waitMs) {
    await this.transport.discard();
    await this.transport.write(encode(opcode, payload, sequence));
    const decoder = new Decoder(limit), until = Date.now() + waitMs;
    let heard = false;
    for (let left = waitMs; left > 0; left = until - Date.now()) {
      const data = await this.transport.read(left);
      heard ||= data.length > 0;
      for (const message of decoder.feed(data)) {
        if (isReply(message, opcode, sequence)) return {payload: message.payload};
        const fault = isFault(message) ? FAULTS[message.payload[0]] ?? {text: `error ${message.payload[0]}`, repeat: true} : null;
        if (fault && (message.sequence === sequence || fault.damaged)) return {reason: fault.text, fault};
        if (isAnswer(message)) heard = true;
      }
    }
    return {reason: heard ? "what came back was no message; is the speed right" : "no answer; is the board plugged in and loaded"};
  }
}
