// Holds SerialLine.find to a port of Web Serial whose board speaks at one speed.  node check_serial.mjs SPEED [SPEEDS TRIED]
import assert from "node:assert/strict";
import {Decoder, encode} from "../../fbnn_hw/studio/web/link.mjs";
import {SerialLine} from "../../fbnn_hw/studio/web/transports.mjs";

const [speed, tried] = process.argv.slice(2).map((text) => JSON.parse(text));
const IDENTITY = Uint8Array.from(JSON.parse(process.argv[4]));

class Port {
  constructor() { this.opened = []; }

  async open({baudRate}) {
    assert.ok(!this.readable, "opened twice");
    this.opened.push(baudRate);
    const decoder = new Decoder(65536), port = this;
    let out = null;
    this.readable = new ReadableStream({start(controller) { out = controller; }});
    this.writable = new WritableStream({write(bytes) {
      if (port.opened.at(-1) !== speed) {
        out.enqueue(Uint8Array.from(bytes, (byte) => byte ^ 0x5A));  // what another speed makes of it
        return;
      }
      for (const {opcode, sequence} of decoder.feed(bytes)) out.enqueue(encode(opcode | 0x80, IDENTITY, sequence));
    }});
  }

  async close() {
    assert.ok(!this.readable.locked && !this.writable.locked, "closed while in use");
    this.readable = this.writable = null;
  }
}

const port = new Port();
const line = await SerialLine.find(port, tried);
console.log(JSON.stringify({opened: port.opened, patience: line.patience ?? 1}));
process.exit(0);
