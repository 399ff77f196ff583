// Three lines to a board: gates in this page, a serial port of this computer, a server on this computer.
// Each has name, patience (times the usual waits), write(bytes), read(ms) -> bytes or none after that time, discard(), close(),
// and calls onlost(reason) when the other end goes away.

import {Client} from "./requests.mjs";
import {LinkError} from "./link.mjs";

const SPEED_PATIENCE = 0.2;  // while the speed of a board is not known

// Bytes that come in, waited for.
class Inbox {
  constructor() {
    this.parts = [];
    this.wake = null;
  }

  push(bytes) {
    this.parts.push(bytes);
    this.wake?.();
  }

  clear() { this.parts = []; }

  async read(ms) {
    if (!this.parts.length) {
      await new Promise((done) => {
        const timer = setTimeout(done, ms);
        this.wake = () => {
          clearTimeout(timer);
          done();
        };
      });
      this.wake = null;
    }
    return this.parts.shift() ?? new Uint8Array(0);
  }
}

export class GatesLine {
  // module: bytes of the WebAssembly module.  files: what it reads.  source: text of the worker.
  static async open(module, files, source) {
    if (typeof WebAssembly !== "object") {
      throw new LinkError("This browser cannot run WebAssembly, so it has no gates; use a current Chromium, Firefox or Safari.");
    }
    const line = new GatesLine(source);
    await line.call({start: {module, files}});
    return line;
  }

  constructor(source) {
    this.name = "the gates in this page";
    this.patience = 60;
    this.inbox = new Inbox();
    this.waiting = new Map();
    this.calls = 0;
    this.busyMs = 0;
    this.cycles = 0;
    this.worker = new Worker(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
    this.worker.onmessage = ({data}) => {
      const {done, failed} = this.waiting.get(data.id);
      this.waiting.delete(data.id);
      if (data.error) failed(new LinkError(`The gates stopped: ${data.error}; open the page again.`));
      else done(data);
    };
    this.worker.onerror = (event) => {
      for (const {failed} of this.waiting.values()) failed(new LinkError(`The gates did not start: ${event.message}.`));
    };
  }

  call(request) {
    const id = ++this.calls;
    return new Promise((done, failed) => {
      this.waiting.set(id, {done, failed});
      this.worker.postMessage({id, ...request});
    });
  }

  async write(bytes) {
    const answer = await this.call({exchange: bytes});
    this.busyMs += answer.ms;
    this.cycles += answer.cycles;
    this.inbox.push(answer.bytes);
  }

  // {bytes, steps}: the answer to a message, and the banks after each step.
  watch(bytes) { return this.call({watch: bytes}); }

  read(ms) { return this.inbox.read(ms); }
  async discard() { this.inbox.clear(); }
  close() { this.worker.terminate(); }
}

export class SerialLine {
  // The line at the first of some speeds at which a board identifies itself; at the first of all where none does.
  static async find(port, bauds) {
    for (const baud of bauds.length > 1 ? bauds : []) {
      const line = await SerialLine.open(port, baud);
      line.patience = SPEED_PATIENCE;
      try {
        await new Client(line).identify();
        line.patience = 1;
        return line;
      } catch (error) {
        if (!(error instanceof LinkError)) throw error;
        await line.close();
      }
    }
    return SerialLine.open(port, bauds[0]);
  }

  static async open(port, baud) {
    try {
      await port.open({baudRate: baud, bufferSize: 1 << 16});
    } catch (error) {
      const taken = ["NetworkError", "InvalidStateError"].includes(error.name);
      const reason = taken ? "another page or program has it open" : error.message;
      throw new LinkError(`The serial port cannot be opened: ${reason}; close that one, or plug the board in again.`);
    }
    return new SerialLine(port);
  }

  constructor(port) {
    this.name = "the board at the serial port";
    this.port = port;
    this.inbox = new Inbox();
    this.closed = false;
    this.writer = port.writable.getWriter();
    this.listen();
  }

  async listen() {
    let reason = "it was unplugged";
    while (this.port.readable && !this.closed) {
      this.reader = this.port.readable.getReader();
      try {
        for (;;) {
          const {value, done} = await this.reader.read();
          if (done) break;
          this.inbox.push(value);
        }
      } catch (error) {  // noise on the line ends a stream too; the next one goes on
        reason = error.message;
      } finally {
        this.reader.releaseLock();
      }
    }
    if (!this.closed) this.onlost?.(reason);
  }

  async write(bytes) {
    try {
      await this.writer.write(bytes);
    } catch (error) {
      this.onlost?.(error.message);
      throw new LinkError("The board is gone; plug it in again.");
    }
  }

  read(ms) { return this.inbox.read(ms); }
  async discard() { this.inbox.clear(); }

  async close() {
    this.closed = true;
    await this.reader?.cancel().catch(() => {});
    this.writer.releaseLock();
    await this.port.close().catch(() => {});
  }
}

export class ServerLine {
  // url: of the WebSocket, token included.
  static open(url, patience) {
    const line = new ServerLine(new WebSocket(url), patience);
    return new Promise((done, failed) => {
      line.socket.onopen = () => done(line);
      line.onlost = () => failed(line.broken());
    });
  }

  constructor(socket, patience) {
    this.name = "the board behind fbnn-hw studio";
    this.patience = patience;
    this.inbox = new Inbox();
    this.gone = "";  // why the line is no more
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({data}) => this.inbox.push(new Uint8Array(data));
    socket.onclose = ({reason}) => {
      this.gone = reason || "the program has ended; start it again";
      this.inbox.push(new Uint8Array(0));
      this.onlost?.(this.gone);
    };
  }

  broken() { return new LinkError(`fbnn-hw studio: ${this.gone}.`); }

  async write(bytes) {
    if (this.gone) throw this.broken();
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(bytes);  // else it closes, and the next read says so
  }

  async read(ms) {
    const bytes = await this.inbox.read(ms);
    if (this.gone) throw this.broken();
    return bytes;
  }

  async discard() { this.inbox.clear(); }

  close() {
    this.onlost = null;
    this.socket.close();
  }
}
