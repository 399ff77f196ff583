// The page: what is on it, and what its buttons do.

import {Board, lost} from "./teaching.mjs";
import {by, count, download, make, renew} from "./dom.mjs";
import {EMPTY_VIEWS, Guide, NOTHING} from "./guide.mjs";
import {explain, showCounters, showCycles, showLatent, showMaps, showMemory} from "./inside.mjs";
import {Keeper, bytesOf} from "./keeper.mjs";
import {LinkError, encode} from "./link.mjs";
import {LATENT, LOGITS, Opcode} from "./numbers.mjs";
import {Camera, MOST_FILES, cameras, decodeAll, decodeUrl, dropped, paint} from "./pictures.mjs";
import {nameFault} from "./state.mjs";
import {GatesLine, SerialLine, ServerLine} from "./transports.mjs";

const COLLECT_MS = 150, MOST_TRAY = 60, SPEED_MS = 2000, INSIDE_MS = 1500, MOST_BARS = 3, MOST_AGAIN = 3, NO_CLASS = "I know nothing yet";

const BLOCKS = {pixels: "dots", encoder: "first questions", array: "layers", banks: "memory", latent: "fingerprint", learner: "learner"};

const facts = unpackFacts(JSON.parse(by("facts").textContent));
const camera = new Camera(by("video"), () => {
  complain(new LinkError("The camera went away; plug it in and turn it on again, or drop pictures here instead."), by("look"));
  view = null;
  draw();
});
const store = new Keeper(`fbnn-hw ${facts.config} ${facts.check}`, () => drawKept(), () => board.past.length > 0);
const board = new Board(facts, () => draw(), store);
const guide = new Guide();
const tray = [];  // {image, element} of the pictures collected
let view = null;  // {image} of the picture in view; fresh: nobody has asked about it yet
let told = null;  // what the board said of it
let layer = Object.keys(facts.layers).find((name) => facts.layers[name].shape[1] > 1 && name !== "input") ?? null;
let seen = [];  // what lay in the banks after each step
let holding = null, looking = false, eager = true, times = [];  // eager: the next picture does not wait for what else is done
let outcome = null;  // the lesson whose outcome is shown
let question = null;  // ends a question about the lesson, with whether to teach it

function unpackFacts(facts) {
  facts.hidden = facts.hidden.map(bytesOf);
  facts.review.latents = facts.review.latents.map(bytesOf);
  return facts;
}

async function unzip(text) {
  return new Uint8Array(await new Response(new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
}

function drawKept() {
  by("kept").hidden = !store.fault;
  by("kept-text").textContent = store.fault;
  by("beside").hidden = !store.beside;
}

// ---- Words to the person

function say(text) { by("said").textContent = text; }

// place: the part of the page where it happened; without one it is about the line to the board.
function complain(error, place = null) {
  if (!(error instanceof LinkError)) console.error(error);
  const text = error instanceof LinkError ? error.message : `Something went wrong: ${error.message}; open the page again.`;
  const message = place?.querySelector(".message");
  if (message) {
    message.textContent = text;
    message.hidden = false;
  } else {
    by("trouble-text").textContent = text;
    by("trouble").hidden = false;
  }
}

// Without a board the way to connect again stays.
function calm() {
  by("trouble").hidden ||= Boolean(board.client);
  for (const message of document.querySelectorAll(".message")) message.hidden = true;
}

// Run what a button asks for; what goes wrong is said beside it.
// A button that was disabled meanwhile gets the focus back, so that the keyboard goes on where it was.
const doing = (work) => async (...given) => {
  const pressed = document.activeElement, place = (given[0]?.target?.closest?.("section") ?? pressed.closest("section"));
  try {
    return await work(...given);
  } catch (error) {
    complain(error, place);
    return null;
  } finally {
    if (document.activeElement === document.body) (pressed.disabled ? by("outcome") : pressed).focus({preventScroll: true});
  }
};

function sure(question) {
  by("sure-text").textContent = question;
  by("sure").showModal();
  return new Promise((done) => {
    const end = (answer) => () => {
      by("sure").close();
      done(answer);
    };
    by("sure-yes").onclick = end(true);
    by("sure-no").onclick = end(false);
    by("sure").oncancel = end(false);
  });
}

// ---- The line to a board

function offers() {
  const list = [];
  if (facts.server) list.push(["server", facts.server.name]);
  if (facts.gates) list.push(["gates", "the chip's gates, in this page"]);
  if (navigator.serial && facts.bauds.length) list.push(["serial", "a board at a serial port…"]);
  by("transport").replaceChildren(...list.map(([value, text]) => make("option", {value}, text)));
  for (const element of [by("transport"), document.querySelector("label[for=transport]")]) element.hidden = list.length < 2;
  if (!list.length) complain(new LinkError("This browser has neither gates nor a serial port here; open this page in Chromium."));
}

async function openLine(kind) {
  if (kind === "gates") {
    const files = {};
    for (const [name, text] of Object.entries(facts.gates.files)) files[name] = await unzip(text);
    return GatesLine.open(await unzip(facts.gates.module), files, by("worker").textContent);
  }
  if (kind === "server") {
    const url = new URL("line" + location.search, location.href);
    url.protocol = "ws:";
    return ServerLine.open(url, facts.server.patience);
  }
  const [known] = await navigator.serial.getPorts();
  return SerialLine.find(known ?? await navigator.serial.requestPort().catch(() => {
    throw new LinkError("No port was chosen; plug the board in and choose its port.");
  }), facts.bauds);
}

const connect = doing(async () => {
  board.line?.close();
  board.client = null;
  draw();
  say("connecting");
  const line = await openLine(by("transport").value);
  try {
    await board.connect(line);
  } catch (error) {  // its port would stay taken; and it may be another's port, so the browser asks for one again
    await line.close();
    await line.port?.forget?.();
    throw error;
  }
  calm();
  say(`connected to ${board.line.name}`);
  if (!view && board.known) await firstExample();
  look();
  setTimeout(doing(() => board.prepare()), 400);
});

// ---- The picture in view

async function firstExample() {
  const example = facts.examples.find((one) => one.kind === "ask");
  const image = example && await decodeUrl(example.data, facts.size);
  if (image && !view) show(image, example.data);
}

// Take a picture into view.  source: the file or the data URL that it is of.
function show(image, source) {
  camera.stop();
  view = {image, fresh: true};
  URL.revokeObjectURL(by("still").src);
  by("still").src = typeof source === "string" ? source : URL.createObjectURL(source);
  draw();
  look();
}

// Ask the board about the picture in view, again and again while the camera is on.  After a first answer, and a first one of the camera,
// what else is done for the board comes first: its many short requests would each wait for a picture.
async function look() {
  if (view) view.fresh = true;
  if (looking) return;
  looking = true;
  try {
    while (board.client && view && (camera.on || view.fresh)) {
      if (camera.on) {
        const image = camera.now(facts.size);
        if (image) view = {image, live: true};
      }
      const asked = view;
      if (!asked.image || board.busy && !eager) {
        await new Promise((done) => setTimeout(done, 60));
        continue;
      }
      asked.fresh = false;
      paint(by("preview"), asked.image, facts.size);
      const begun = performance.now();
      told = await board.classify(asked.image);
      eager = Boolean(camera.on && !asked.live);
      times.push({at: performance.now(), ms: performance.now() - begun});
      times = times.filter(({at}) => at > performance.now() - SPEED_MS);
      drawTold();
      if (!camera.on) say(`The chip says ${by("verdict").textContent}.`);
      if (camera.on) await new Promise((done) => requestAnimationFrame(done));
    }
  } catch (error) {
    complain(error);
  } finally {
    looking = false;
  }
  watch();
}

// Look into the banks while the picture in view goes through the gates.
const watch = doing(async () => {
  if (by("how-view").hidden || !view?.image || !board.client || !(board.line instanceof GatesLine) || board.busy) return;
  const {image} = view, message = encode(Opcode.CLASSIFY | LOGITS | LATENT, image, 0);
  seen = (await board.picture(() => board.line.watch(message))).steps;
  drawInside();
});

// ---- What is drawn

function draw() {
  const {client, known, names, busy} = board, used = board.state?.labels.length ?? 0;
  if (board.trouble) {
    complain(new LinkError(board.trouble));
    board.trouble = "";
  }
  by("trouble-retry").hidden = Boolean(client);
  const most = facts.plan.max_classes, number = most - board.room;
  by("about").textContent = number ? `It knows ${count(number, "thing")} and has room for ${board.room} more.`
    : `It knows nothing yet and has room for ${count(most, "thing")}.`;
  by("class-count").textContent = `${number} of ${most}${board.frozen ? ", frozen" : ""}`;
  if (!told) by("verdict").textContent = known ? "–" : NO_CLASS;
  by("known").replaceChildren(...names.filter((name) => name !== null).map((name) => make("option", {value: name})));
  by("camera").textContent = camera.on ? "Camera off" : "Turn the camera on";
  by("camera").classList.toggle("strong", !camera.on);
  by("video").hidden = !camera.on;
  by("still").hidden = camera.on || !view?.image || !by("still").src;
  by("stage-empty").hidden = camera.on || Boolean(view?.image);
  by("undo").disabled = !board.past.length || Boolean(busy) || !client;
  by("freeze").textContent = board.frozen ? "Thaw" : "Freeze";
  by("rehearse").hidden = by("rest-line").hidden = facts.plan.adds;
  for (const id of ["save", "kept-save", "freeze", "rehearse", "reset"]) by(id).disabled = !board.state || Boolean(busy) || !client;
  by("hold").disabled = !(camera.on || view?.image);
  drawKept();
  drawLesson();
  drawCards();
  showMemory(by("memory-bar"), by("memory-list"), facts, known, used);
  drawGuide();
  if (outcome?.rehearsed) drawOutcome(outcome);
  if (busy) say(busy);
}

function drawGuide() {
  const taught = board.names.filter((name, label) => name !== null && label >= facts.plan.shipped).length, name = by("name");
  if (guide.on && !taught && camera.on && !name.value && !tray.length) name.value = NOTHING;
  guide.draw({taught, seeing: camera.on || tray.length >= EMPTY_VIEWS, pictures: tray.length, named: Boolean(name.value)});
}

function drawTold() {
  const {names} = board, {logits, index, unknown} = told, fan = facts.plan.fan_in;
  by("verdict").textContent = index === null ? NO_CLASS : unknown ? "unknown" : names[index] ?? "–";
  by("verdict-why").textContent = index === null ? "Teach it something first." : unknown ? `No class fits well enough. The nearest is ${names[index]}; if it is one, teach more pictures of it.` : "";
  const known = logits.map((score, label) => ({score, label})).filter(({label}) => names[label] !== null);
  const order = known.sort((a, b) => b.score - a.score || a.label - b.label);
  const most = order[0]?.score, least = Math.min(...known.map(({score}) => score), most - fan / 8);
  by("bars").replaceChildren(...order.slice(0, MOST_BARS).map(({score, label}) => make("li", {class: label === index && !unknown ? "first" : null},
    make("span", {class: "label", title: names[label] ?? ""}, names[label] ?? `class ${label}`),
    make("span", {class: "track", role: "img", "aria-label": `${names[label] ?? label}: ${score} of ${fan}`},
      make("div", {class: "fill", style: `width:${100 * (score - least) / (most - least || 1)}%`})))));
  const span = times.length > 1 ? times.at(-1).at - times[0].at : 0;
  by("speed").textContent = span ? `It answers ${((times.length - 1) * 1000 / span).toFixed(1)} pictures a second here.`
    : `It took ${Math.round(times.at(-1).ms)} ms for this picture.`;
  showLatent(by("latent"), told.latent, facts.plan.latent);
  by("latent-text").textContent = `The fingerprint: ${count(facts.plan.latent, "yes or no", "answers")} are left of the picture. Lessons happen behind them.`;
}

function drawLesson() {
  const name = by("name").value, fault = name ? nameFault(name) : "", index = board.place(name);
  by("name-help").textContent = fault || (board.frozen ? "The chip is frozen and learns nothing; press Thaw below."
    : !name ? tray.length ? "Type a name for the class, such as mug." : "A new name makes a new class."
    : index >= 0 ? "It knows this class; the lesson goes on with it."
      : board.room > 0 ? `A new class; there is room for ${board.room}.`
        : "There is no room for a new class; teach one that it knows, or reset.");
  by("name-help").classList.toggle("asks", Boolean(tray.length) && (!name || Boolean(fault) || board.frozen));
  by("tray-count").textContent = tray.length ? `${count(tray.length, "picture")}. Press one to take it out.`
    : `No pictures yet. Ten will do, from all sides; of an empty view ${EMPTY_VIEWS}.`;
  const ready = tray.length && name && !fault && (index >= 0 || board.room > 0) && board.client && !board.busy && !board.frozen;
  by("teach-now").disabled = !ready;
  by("teach-now").textContent = board.busy.startsWith("learning") ? "Learning…" : name && !fault ? `Teach “${name}”` : "Teach";
  by("progress").hidden = !board.busy.startsWith("learning");
}

function drawCards() {
  renew(by("cards"), ...board.names.slice(0, board.known).map((name, label) => {
    if (name === null) return null;
    const stored = board.state?.labels.filter((one) => one === label).length ?? 0, taught = board.thumbnails.get(name) ?? [];
    const shipped = label < facts.plan.shipped ? facts.examples.filter((one) => one.kind === "ask" && one.name === name) : [];
    const faces = taught.map((image) => {
      const canvas = make("canvas", {role: "img", "aria-label": `taught as ${name}`});
      paint(canvas, image, facts.size);
      return canvas;
    }).concat(taught.length ? [] : shipped.map(({data}) => make("img", {src: data, alt: `an example of ${name}`})));
    return make("li", {class: label >= facts.plan.shipped || taught.length ? "taught" : null, tabindex: -1, "data-key": `card of ${name}`},
      make("strong", {}, name),
      faces.length ? make("div", {class: "faces"}, ...faces) : null,
      make("span", {class: "quiet small"}, facts.plan.adds ? `from ${count(board.state?.presented[label] ?? 0, "picture")}`
        : label < facts.plan.shipped ? `shipped; ${stored} stored` : `${count(stored, "picture")} stored`),
      facts.plan.forget ? forgetClassButton(name, label) : stored ? forgetButton(name, label, stored) : null);
  }).filter(Boolean));
}

function forgetClassButton(name, label) {
  return make("button", {
    type: "button", class: "plain", "data-key": name, "aria-label": `Forget ${name}`, disabled: Boolean(board.busy),
    onclick: doing(async () => {
      if (!await sure(`Forget ${name}? Undo brings it back.`)) return;
      await board.forgetClass(label);
      conclude(make("p", {}, `It has forgotten ${name}. All others are as they were. `, undoButton()));
      drawInside();
      look();
    })}, "Forget");
}

function forgetButton(name, label, stored) {
  return make("button", {
    type: "button", class: "plain", "data-key": name, "aria-label": `Forget the stored pictures of ${name}`, disabled: Boolean(board.busy),
    onclick: doing(async () => {
      if (await sure(`Forget the ${stored} stored pictures of ${name}? Undo brings them back.`)) await board.forget(label);
    })}, "Forget pictures");
}

function drawInside() {
  if (by("how-view").hidden) return;
  const place = facts.layers[layer], working = place?.shape[1] > 1 ? ["encoder", "array", "banks"] : ["array", "latent", "learner"];
  by("blocks").replaceChildren(...Object.entries(BLOCKS).map(([name, text]) =>
    make("span", {class: working.includes(name) ? "works" : null}, text)));
  showCycles(by("cycles"), facts, layer, (name) => {
    layer = name;
    drawInside();
    watch();
  });
  if (layer && seen.length) by("maps-text").textContent = showMaps(by("maps"), layer, facts, seen);
  else if (board.client && !(board.line instanceof GatesLine)) {
    by("maps-text").textContent = "Maps can be seen where the gates run in this page.";
  }
  const {lesson} = board, change = lesson?.counters[lesson.index];
  by("counters-figure").hidden = !change;
  if (change) {
    showCounters(by("counters"), change, facts.plan.counter_bits);
    by("counters-text").textContent = `The counters of ${lesson.label} before (grey) and after the lesson: `
      + `${count(change.moved, "counter")} moved. Right of the middle it expects a yes, left of it a no.`;
  }
}

function drawOutcome(lesson) {
  const sum = (key) => lesson.effects.reduce((total, one) => total + one[key], 0), stored = sum("exemplars");
  const pictures = `${lesson.rightAfter} of ${count(lesson.images, "picture")}`, gone = lost(lesson);
  outcome = lesson;
  by("outcome").replaceChildren(
    make("p", {}, make("strong", {}, lesson.fresh ? `It has learned ${lesson.label}.` : `It knows more of ${lesson.label}.`),
      ` ${pictures} right after ${count(lesson.passes, "look")}.`),
    stored ? make("p", {}, `Of ${stored} pictures stored before, ${sum("before")} were right before and ${sum("after")} are now`
      + (lesson.rehearsed ? `, after ${lesson.rehearsed} rehearsals.` : ".")) : "",
    gone.length && !board.resting && (lesson.rehearsed || !by("rest").checked) ? drawLost(gone) : "",
    stored ? make("table", {}, make("tr", {}, ...["class", "before", "after"].map((text) => make("th", {scope: "col"}, text))),
      ...lesson.effects.map(drawEffect)) : "");
}

// Say something in the place of the outcome of a lesson.
function conclude(...children) {
  outcome = null;
  by("outcome").replaceChildren(...children);
}

// What a lesson cost that rehearsals did not bring back, and the ways out.
function drawLost(names) {
  return make("div", {class: "lost"},
    make("p", {}, `It forgot more than a tenth of ${names.join(", ")}. Teach them again, or take the lesson back.`),
    make("div", {class: "row"}, ...names.slice(0, MOST_AGAIN).map((name) => make("button", {
      type: "button", onclick: doing(() => again(name))}, `Teach ${name} again`)), undoButton()));
}

function undoButton() { return make("button", {type: "button", class: "plain", onclick: undo}, "Undo"); }

// Whether to teach a class that is close to a known one.
function asked({name, mistaken}, images, label) {
  question?.(false);
  return new Promise((done) => {
    question = (answer) => {
      question = null;
      conclude();
      done(answer);
    };
    conclude(
      make("p", {}, make("strong", {}, `${label} looks much like ${name}.`), ` It would take ${mistaken} of these ${images} pictures for ${name}. `
        + "Pictures from other sides, nearer, or before another background help."),
      make("div", {class: "row"},
        make("button", {type: "button", onclick: () => question(true)}, "Teach it all the same"),
        make("button", {type: "button", onclick: () => question(false)}, "Not yet")));
  });
}

function drawEffect({name, exemplars, before, after}) {
  const turn = Math.sign(after - before) + 1;
  return make("tr", {class: ["down", "same", "up"][turn]}, make("th", {scope: "row"}, name),
    make("td", {}, `${before} of ${exemplars}`), make("td", {}, `${["\u2193", "", "\u2191"][turn]} ${after}`.trim()));
}

// ---- Collecting and teaching

function collect(image) {
  if (tray.length >= MOST_TRAY) return complain(new LinkError(`A lesson takes at most ${MOST_TRAY} pictures; teach these first.`), by("teach"));
  question?.(false);
  const canvas = make("canvas"), one = {image};
  paint(canvas, image, facts.size);
  one.element = make("div", {class: "thumb", role: "listitem"}, canvas, make("button", {
    type: "button", "aria-label": `Take picture ${tray.length + 1} out`, onclick: () => {
      question?.(false);
      const at = tray.indexOf(one);
      tray.splice(at, 1);
      one.element.remove();
      (tray[Math.min(at, tray.length - 1)]?.element.querySelector("button") ?? by("hold")).focus();
      drawLesson();
    }}, "×"));
  tray.push(one);
  by("tray").append(one.element);
  by("tray").scrollTop = by("tray").scrollHeight;
  drawLesson();
  drawGuide();
}

function hold() {
  if (holding || by("hold").disabled) return;
  const take = () => {
    const image = camera.on ? camera.now(facts.size) : view?.image;
    if (image) collect(image);
    if (!camera.on || tray.length >= MOST_TRAY) release();
  };
  by("hold").classList.add("held");
  holding = setInterval(take, COLLECT_MS);
  take();
}

function release() {
  clearInterval(holding);
  holding = null;
  by("hold").classList.remove("held");
}

const teach = doing(async () => {
  calm();
  const pictures = [...tray], images = pictures.map(({image}) => image), label = by("name").value;
  const near = await board.near(images, label);
  if (near && !await asked(near, images.length, label)) return;
  const lesson = await board.teach(images, label, {
    rehearse: by("rest").checked,
    shown(n) {
      by("progress").value = (n + 1) / images.length;
      pictures.forEach(({element}, at) => element.classList.toggle("shown", at === n));
    }});
  for (const one of pictures) {
    tray.splice(tray.indexOf(one), 1);
    one.element.remove();
  }
  by("name").value = "";
  draw();
  drawOutcome(lesson);
  drawInside();
  say(`learned ${label}`);
  look();
});

const undo = doing(async () => {
  calm();
  await board.undo();
  conclude(make("p", {}, "The last change is taken back."));
  drawInside();
  look();
});

// Put the pictures that are there of a class into the tray.
async function again(name) {
  by("name").value = name;
  for (const image of board.thumbnails.get(name) ?? []) collect(image);
  if (!tray.length) {
    for (const {data} of facts.examples.filter((one) => one.name === name)) collect(await decodeUrl(data, facts.size));
  }
  drawLesson();
}

// use(image, file) for the pictures of files.  A choice of files is emptied, so that the same ones can be chosen again.
const takeFiles = async (files, use) => {
  calm();
  const {images, sources, message} = await decodeAll(files, facts.size, use === collect ? MOST_TRAY - tray.length : MOST_FILES);
  images.forEach((image, n) => use(image, sources[n]));
  if (message) throw new LinkError(message);
};

const chosen = (use) => doing(({target}) => {
  const files = [...target.files].slice(0, MOST_FILES + 1);
  target.value = "";
  return takeFiles(files, use);
});

// ---- Buttons

function wire() {
  by("transport").onchange = connect;
  by("trouble-retry").onclick = connect;
  by("camera").onclick = doing(async () => {
    calm();
    if (camera.on) {
      by("still").src = camera.frame();  // the last picture stays in view
      camera.stop();
    } else {
      const before = view;
      view = {image: null};
      try {
        await camera.start(by("which").value);
        eager = true;
      } catch (error) {
        view = before;
        throw error;
      }
      await offerCameras();
    }
    draw();
    look();
  });
  by("which").onchange = doing(async () => {
    calm();
    camera.stop();
    await camera.start(by("which").value);
    draw();
    look();
  });
  by("files").onchange = chosen(show);
  by("lesson-files").onchange = chosen(collect);
  by("name").oninput = () => {
    question?.(false);
    drawLesson();
    drawGuide();
  };
  by("hold").onpointerdown = hold;
  for (const end of ["pointerup", "pointercancel", "blur"]) window.addEventListener(end, release);
  by("hold").onkeydown = (event) => { if ([" ", "Enter"].includes(event.key) && !event.repeat) hold(); };
  by("hold").onkeyup = release;
  by("teach-now").onclick = teach;
  by("undo").onclick = undo;
  by("save").onclick = by("kept-save").onclick = () => {
    download(board.file(), "taught.snapshot");
    store.saved = true;
  };
  by("beside-save").onclick = () => {
    download(store.beside.file, "taught.snapshot");
    store.taken();
  };
  by("open").onchange = doing(async ({target}) => {
    const [file] = target.files;
    target.value = "";
    if (file.size > 1 << 26) throw new LinkError(`${file.name} is too large for a file of what was taught.`);
    await board.open(new Uint8Array(await file.arrayBuffer()));
    conclude(make("p", {}, `It knows what is in ${file.name}.`));
    look();
  });
  by("freeze").onclick = doing(() => board.freeze(!board.frozen));
  by("rehearse").onclick = doing(async () => {
    const effects = await board.rehearse(200), sum = (key) => effects.reduce((total, one) => total + one[key], 0);
    conclude(make("p", {},
      `200 rehearsals: ${sum("before")} of ${sum("exemplars")} stored pictures right before, ${sum("after")} after.`));
    look();
  });
  by("reset").onclick = doing(async () => {
    const shipped = facts.plan.shipped ? "Back to the classes that ship" : "Forget everything";
    if (await sure(`${shipped}? Undo brings back what it was taught.`)) await board.reset();
    look();
  });
  window.onhashchange = turn;
  wireDrop();
}

// The view that the address names: teaching, or how it works.
function turn() {
  const how = location.hash === "#how";
  by("how-view").hidden = by("to-teach").hidden = !how;
  by("teach-view").hidden = by("to-how").hidden = how;
  if (location.hash === "#how" || location.hash === "#teach") scrollTo(0, 0);
  drawInside();
  watch();
}

async function offerCameras() {
  const list = await cameras();
  by("which").hidden = list.length < 2;
  by("which").replaceChildren(...list.map(({deviceId, label}, n) =>
    make("option", {value: deviceId, selected: deviceId === camera.device}, label || `camera ${n + 1}`)));
}

function wireDrop() {
  window.ondragover = (event) => {
    event.preventDefault();
    by("stage").classList.add("drop");
  };
  window.ondragleave = () => by("stage").classList.remove("drop");
  window.ondrop = doing(async (event) => {
    event.preventDefault();
    by("stage").classList.remove("drop");
    const teaching = by("teach").contains(event.target), files = await dropped(event.dataTransfer);
    await takeFiles(files, teaching || files.length > 1 ? collect : show);
  });
}

async function drawExamples() {
  by("examples").replaceChildren(...facts.examples.filter(({kind}) => kind === "ask").map(({name, data}) => make("button", {
    type: "button", "aria-label": `Show a picture of a ${name}`, title: name,
    onclick: doing(async () => show(await decodeUrl(data, facts.size), data))},
  make("img", {src: data, alt: ""}))));
  const lesson = facts.examples.filter(({kind}) => kind === "teach");
  by("lesson-example").hidden = !lesson.length;
  by("lesson-example").onclick = doing(async () => {
    if (!by("name").value) by("name").value = lesson[0].name;
    for (const {data} of lesson) collect(await decodeUrl(data, facts.size));
  });
}

wire();
drawExamples();
offers();
explain(facts);
draw();
turn();
connect();
window.studio = {board, facts, tray, store};  // for a look from the browser's console, and for tests
setInterval(() => { if (camera.on && !by("how-view").hidden) watch(); }, INSIDE_MS);
