// Seconds of the processor that docs/teach.html's gates take for a picture and for a lesson: node docs/benchmarks/gates_speed.mjs
import fs from "node:fs";
import zlib from "node:zlib";
import {Board} from "../../fbnn_hw/studio/web/teaching.mjs";
import {Gates} from "../../fbnn_hw/studio/web/gates.mjs";

const PICTURES = 10;
const text = fs.readFileSync(new URL("../teach.html", import.meta.url), "utf8");
const facts = JSON.parse(text.match(/id="facts">(.*?)<\/script>/)[1]);
const bytes = (data) => new Uint8Array(Buffer.from(data, "base64")), unzip = (data) => new Uint8Array(zlib.gunzipSync(bytes(data)));
facts.hidden = facts.hidden.map(bytes);
facts.review.latents = facts.review.latents.map(bytes);
const seconds = () => process.cpuUsage().user / 1e6;
let cycles = 0, begun = seconds();
const files = Object.fromEntries(Object.entries(facts.gates.files).map(([name, data]) => [name, unzip(data)]));
const gates = await Gates.start(unzip(facts.gates.module), files), answers = [];
const line = {
  name: "gates", patience: 60, read: async () => answers.shift() ?? new Uint8Array(0), discard: async () => { answers.length = 0; },
  async write(message) {
    const answer = gates.exchange(message);
    cycles += answer.cycles;
    answers.push(answer.bytes);
  }};

function report(what, times = 1) {
  const took = (seconds() - begun) / times;
  console.log(`${what.padEnd(34)} ${took.toFixed(3)} s, ${Math.round(cycles / times).toLocaleString("en")} cycles`);
  cycles = 0;
  begun = seconds();
}

const noise = (seed) => Uint8Array.from({length: 3 * facts.size ** 2}, (_, n) => Math.imul(n + 1, 2654435761 * seed) >>> 24);
const board = new Board(facts, () => {}, null);
await board.connect(line);
report("start");
await board.classify(noise(1));
report("first picture");
for (let n = 0; n < PICTURES; n++) await board.classify(noise(n + 2));
report("a picture", PICTURES);
await board.prepare();
report("reading the state, storing exemplars");
await board.teach(Array.from({length: PICTURES}, (_, n) => noise(n + 50)), "noise", {passes: 1, rehearse: false});
report("a lesson of ten pictures, state read");
await board.undo();
report("undo");
