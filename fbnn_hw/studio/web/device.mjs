// The page of a simulated device: what comes before its lens, its buttons and LEDs, and what it says of itself.
// The messages are those of fbnn_hw/simulate/device/watched.py.

import {by, make, count} from "./dom.mjs";
import {Camera, decodeAll, dropped, paint} from "./pictures.mjs";

const facts = JSON.parse(by("facts").textContent), NUMBER_LEDS = 4, CAMERA_MS = 1000;
const signs = new Map(facts.signs.map((sign) => [sign.name, sign]));
const leds = Array.from({length: NUMBER_LEDS}, () => make("i", {class: "led"}));
const held = new Set(), pictures = [], waiting = [];
const camera = new Camera(by("video"), () => lens(null));
let powered = true, socket = null, following = null;

function send(what, ...bytes) {
  const message = new Uint8Array(1 + bytes.length);
  message[0] = facts.messages[what];
  message.set(bytes, 1);
  if (socket.readyState === WebSocket.CONNECTING) waiting.push(message);
  else socket.send(message);  // a line that has ended drops it
}

function trouble(text) {
  by("trouble").hidden = !text;
  by("trouble").textContent = text;
}

// Put a picture before the lens, or nothing: null.
function show(picture) {
  paint(by("lens-view"), picture ?? new Uint8Array(3 * facts.window ** 2), facts.window);
  by("empty").hidden = Boolean(picture);
  if (picture) send("show", ...picture);
}

// The camera of this computer before the lens, a picture a second, or no longer.
async function follow() {
  if (camera.on) {
    camera.stop();
    return lens(null);
  }
  try {
    await camera.start();
    trouble("");
    following = setInterval(() => {
      const now = camera.now(facts.window);
      if (now) show(now);
    }, CAMERA_MS);
    lens(null);
  } catch (error) {
    trouble(error.message);
  }
}

// Which picture is marked as the one before the lens.
function lens(number) {
  if (!camera.on) clearInterval(following);
  by("camera").setAttribute("aria-pressed", camera.on);
  by("camera").textContent = camera.on ? "Stop the camera" : "Use this computer's camera";
  [...by("strip").children].forEach((one, index) => one.setAttribute("aria-pressed", index === number));
}

async function add(files) {
  const {images, message} = await decodeAll(files, facts.window);
  trouble(message);
  for (const image of images) {
    const number = pictures.push(image) - 1, canvas = make("canvas", {class: "pixels"});
    paint(canvas, image, facts.window);
    by("strip").append(make("button", {type: "button", "aria-label": `picture ${number + 1}`, onclick: () => choose(number)}, canvas));
  }
  if (images.length) choose(pictures.length - images.length);
}

function choose(number) {
  camera.stop();
  show(pictures[number]);
  lens(number);
}

function press(name, down) {
  if (held.has(name) === down) return;
  if (down) held.add(name);
  else held.delete(name);
  by(`button-${name}`).classList.toggle("held", down);
  send("press", facts.buttons.reduce((bits, one, bit) => bits | (held.has(one) << bit), 0));
}

function button(name) {
  const space = (down) => (event) => {
    if (event.key !== " " && event.key !== "Enter") return;
    event.preventDefault();
    press(name, down);
  };
  return make("button", {
    type: "button", id: `button-${name}`, onkeydown: space(true), onkeyup: space(false), onblur: () => press(name, false),
    onpointerdown: (event) => {
      event.target.setPointerCapture(event.pointerId);
      press(name, true);
    },
    onpointerup: () => press(name, false), onpointercancel: () => press(name, false)}, name);
}

function power() {
  powered = !powered;
  send("power", Number(powered));
  by("power").textContent = powered ? "Cut the power" : "Give it power";
}

// What the device says of itself, after each step of its time.
function told(state) {
  const sign = signs.get(state.sign), off = {number: "off", flag: "off", ready: "off", fault: "off", meaning: "nothing is powered"};
  const now = sign ?? off;
  leds.forEach((led, bit) => led.dataset.does = state.value !== null && state.value >> bit & 1 ? now.number : "off");
  for (const name of ["flag", "ready", "fault"]) by(name).dataset.does = now[name];
  by("sign").textContent = state.text;
  by("meaning").textContent = now.meaning;
  by("time").textContent = `${state.seconds.toFixed(2)} s`;
  by("score").textContent = state.score ?? "-";
  by("sensor").textContent = state.sensor || "-";
  by("faults").textContent = Object.entries(state.faults).map(([what, times]) => `${what}, ${count(times, "time")}`).join("; ") || "none";
  by("slots").replaceChildren(...state.slots.map((slot) => make("li", {}, slot)));
  if (state.view) paint(by("view"), state.view, Math.sqrt(state.view.length / 3));
}

function connect() {
  const url = new URL(location.href);
  url.protocol = "ws:";
  url.pathname = "/line";
  socket = new WebSocket(url);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => waiting.splice(0).forEach((message) => socket.send(message));
  socket.onmessage = ({data}) => told(JSON.parse(new TextDecoder().decode(data)));
  socket.onclose = ({reason}) => trouble(`fbnn-hw studio: ${reason || "the program has ended; start it again"}. Then load this page again.`);
}

by("about").textContent = `${facts.design}, simulated with its sensor, flash and panel; a second of it takes a minute or so`;
by("number").append(...leds.toReversed());
by("buttons").append(...facts.buttons.map(button));
by("buttons").hidden = !facts.buttons.length;
by("flash").hidden = !facts.keeps;
by("camera").onclick = follow;
by("power").onclick = power;
by("files").onchange = ({target}) => add([...target.files]);
by("stage").ondragover = (event) => event.preventDefault();
by("stage").ondrop = async (event) => {
  event.preventDefault();
  add(await dropped(event.dataTransfer));
};
show(null);
lens(null);
connect();
