// The gates of a design behind the link's messages, a WebAssembly module of fbnn_hw/simulate/browser, and the few calls of WASI that such a module makes.

const ERRNO = {SUCCESS: 0, BADF: 8, NOENT: 44, NOSYS: 52};
const FOLDER = 3, FIRST_FILE = 4;  // file descriptors: the folder that is open from the start, then what path_open opens
const REGULAR_FILE = 4;

// What the module imports from wasi_snapshot_preview1.  files: {name: bytes} of the only folder.  memory(): the module's memory.
function wasi(files, memory) {
  const open = new Map();
  const view = () => new DataView(memory().buffer), bytes = () => new Uint8Array(memory().buffer);
  const each = (list, count, use) => {
    let total = 0;
    for (let n = 0; n < count; n++) {
      const length = view().getUint32(list + 8 * n + 4, true), done = use(view().getUint32(list + 8 * n, true), length);
      total += done;
      if (done < length) break;
    }
    return total;
  };
  return {
    fd_prestat_get(fd, at) {
      if (fd !== FOLDER) return ERRNO.BADF;
      view().setUint32(at, 0, true);
      view().setUint32(at + 4, 1, true);
      return ERRNO.SUCCESS;
    },
    fd_prestat_dir_name(fd, at) {
      bytes()[at] = ".".charCodeAt(0);
      return ERRNO.SUCCESS;
    },
    fd_fdstat_get(fd, at) {
      bytes().fill(0, at, at + 24);
      bytes()[at] = fd === FOLDER ? 3 : REGULAR_FILE;
      bytes().fill(0xFF, at + 8, at + 24);  // all rights
      return ERRNO.SUCCESS;
    },
    path_open(folder, lookup, at, length, create, rights, inherited, flags, result) {
      const name = new TextDecoder().decode(bytes().slice(at, at + length)).replace(/^\.\//, "");
      if (!files[name]) return ERRNO.NOENT;
      const fd = FIRST_FILE + open.size;
      open.set(fd, {data: files[name], at: 0});
      view().setUint32(result, fd, true);
      return ERRNO.SUCCESS;
    },
    fd_read(fd, list, count, result) {
      const file = open.get(fd);
      if (!file) return ERRNO.BADF;
      view().setUint32(result, each(list, count, (at, length) => {
        const part = file.data.subarray(file.at, file.at + length);
        bytes().set(part, at);
        file.at += part.length;
        return part.length;
      }), true);
      return ERRNO.SUCCESS;
    },
    fd_seek(fd, offset, whence, result) {
      const file = open.get(fd);
      if (!file) return ERRNO.BADF;
      file.at = Number(offset) + [0, file.at, file.data.length][whence];
      view().setBigUint64(result, BigInt(file.at), true);
      return ERRNO.SUCCESS;
    },
    fd_write(fd, list, count, result) {
      let text = "";
      view().setUint32(result, each(list, count, (at, length) => {
        text += new TextDecoder().decode(bytes().slice(at, at + length));
        return length;
      }), true);
      console.warn(text);
      return ERRNO.SUCCESS;
    },
    fd_close: () => ERRNO.SUCCESS,
    environ_sizes_get(count, size) {
      view().setUint32(count, 0, true);
      view().setUint32(size, 0, true);
      return ERRNO.SUCCESS;
    },
    environ_get: () => ERRNO.SUCCESS,
    clock_time_get(id, precision, at) {
      view().setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true);
      return ERRNO.SUCCESS;
    },
    proc_exit(code) { throw new Error(`the gates ended with code ${code}`); }};
}

// A board made of gates.  module: bytes of the WebAssembly module.  files: {name: bytes} that it reads.
export class Gates {
  static async start(module, files) {
    const compiled = await WebAssembly.compile(module);
    let instance = null;
    const calls = wasi(files, () => instance.exports.memory), imports = {};
    for (const {module: from, name} of WebAssembly.Module.imports(compiled)) {
      (imports[from] ??= {})[name] = calls[name] ?? (() => ERRNO.NOSYS);
    }
    instance = await WebAssembly.instantiate(compiled, imports);
    instance.exports._initialize?.();
    instance.exports.start();
    const gates = new Gates();
    gates.exports = instance.exports;
    if (!gates.exports.ready()) throw new Error("the gates do not load their weights");
    return gates;
  }

  // {bytes, cycles}: what the board answers to some bytes, and how many cycles that took.
  exchange(bytes) {
    const {exports} = this, before = exports.cycles();
    new Uint8Array(exports.memory.buffer, exports.inbox(), bytes.length).set(bytes);
    const count = exports.exchange(bytes.length);
    return {bytes: new Uint8Array(exports.memory.buffer, exports.outbox(), count).slice(), cycles: exports.cycles() - before};
  }

  // The same; besides, steps: [{step, banks: [bytes of a bank's words]}] of what lay in the banks when so many steps were done.
  watch(bytes) {
    const {exports} = this;
    exports.watch(1);
    const answer = this.exchange(bytes), size = exports.words() * exports.word_bytes(), banks = exports.banks();
    const steps = Array.from({length: exports.records()}, (_, n) => ({
      step: exports.record_step(n),
      banks: Array.from({length: banks}, (_, q) =>
        new Uint8Array(exports.memory.buffer, exports.record() + (n * banks + q) * size, size).slice())}));
    exports.watch(0);
    return {...answer, steps};
  }
}
