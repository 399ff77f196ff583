// What the gates of a page answer to messages, one after the other: node check_gates.mjs PAGE < a JSON list of messages in hexadecimal
import fs from "node:fs";
import zlib from "node:zlib";
import {Gates} from "../../fbnn_hw/studio/web/gates.mjs";

const {gates} = JSON.parse(fs.readFileSync(process.argv[2], "utf8").match(/id="facts">(.*?)<\/script>/)[1]);
const unzip = (text) => new Uint8Array(zlib.gunzipSync(Buffer.from(text, "base64")));
const files = Object.fromEntries(Object.entries(gates.files).map(([name, data]) => [name, unzip(data)]));
const board = await Gates.start(unzip(gates.module), files);
const messages = JSON.parse(fs.readFileSync(0, "utf8")).map((text) => new Uint8Array(Buffer.from(text, "hex")));
console.log(JSON.stringify(messages.map((message) => Buffer.from(board.exchange(message).bytes).toString("hex"))));
