// A board that is taught: what the page knows of it, lessons, undo, and the way back after a broken line.
// Twins: fbnn_hw/board/board.py and, of a lesson, fbnn_hw/board/lesson.py.

import {ENOUGH, answer, close, ordered, readState, readWeights, scores, summed, weightsOf, writeExemplars, writeState} from "./memory.mjs";
import {Client} from "./requests.mjs";
import {LinkError} from "./link.mjs";
import {equal, nameFault, named, packFile, spelled, titled, unpackFile, without} from "./state.mjs";

const MOST_PASSES = 5, MOST_UNDO = 10, REHEARSAL = 1000, ROUND = 100, STEP = 10, THUMBNAILS = 12;

// facts: what the page was made with.  changed(): called whenever something that is shown may be another.
// store: {load() -> {file, thumbnails} or null, unread(), save(kept)}, where what was taught outlasts the page; unread: what it gave is no
// file of this design.
export class Board {
  constructor(facts, changed, store) {
    this.facts = facts;
    this.changed = changed;
    this.store = store;
    this.client = null;
    this.names = [...facts.classes];
    this.known = facts.classes.length;
    this.state = null;  // null until it was read
    this.past = [];
    this.thumbnails = new Map();  // {name of a class: [RGB bytes of pictures taught]}
    this.lesson = null;  // what the last one did
    this.busy = "";  // what is being done, in words
    this.changes = Promise.resolve();
    this.pictures = Promise.resolve();
    this.resting = false;
  }

  get line() { return this.client?.transport ?? null; }
  get frozen() { return this.state?.frozen ?? false; }
  get room() { return this.facts.plan.max_classes - this.known + this.names.filter((name) => name === null).length; }

  // Take up a line.  What the page knows of the board is given back to a board that forgot it.
  async connect(line) {
    const client = new Client(line), told = await client.identify();
    if (told.config !== this.facts.config) {
      throw new LinkError(`This board holds configuration ${told.config}, this page is of ${this.facts.config}; `
        + "open the page of the board's design, or build and flash this one.");
    }
    await client.waitReady();
    const {model} = await client.identify();
    if (model !== this.facts.model) {
      throw new LinkError(`This board holds the weights ${model}, this page is of ${this.facts.model}; `
        + "open the page of the board's design.");
    }
    this.client = client;
    client.asksUnknown = this.facts.plan.unknown;
    line.onlost = (reason) => this.lost(reason);
    this.known = (await client.learned()).known;
    if (!this.state) this.names = named(this.names, this.known);
    this.changed();
  }

  lost(reason) {
    this.client = null;
    this.trouble = `The line to the board broke: ${reason}. What it was taught is kept in this page.`;
    this.changed();
  }

  // One thing at a time that changes what the board knows.  words: what it is, for the page.
  change(words, work) {
    this.resting = false;
    const done = this.changes.then(async () => {
      this.busy = words;
      this.changed();
      try {
        if (!this.client) throw new LinkError("No board is connected; choose one above.");
        return await work(this.client);
      } finally {
        this.busy = "";
        this.changed();
      }
    });
    this.changes = done.catch(() => {});
    return done;
  }

  // A picture and what belongs to it go to the board without another picture between them.
  picture(work) {
    const done = this.pictures.then(() => work());
    this.pictures = done.catch(() => {});
    return done;
  }

  // {index, logits, latent} of a picture, bytes of RGB pixels.
  classify(image) {
    return this.picture(async () => {
      if (!this.client) throw new LinkError("No board is connected.");
      const told = await this.client.classify(image, {latent: true});
      return {...told, latent: ordered(told.latent, this.facts)};
    });
  }

  // Bring page and board to one state, once after they met: `changes` must be held.
  async agree(client) {
    if (this.state && client === this.agreed) return;
    const kept = this.state ? {state: this.state, names: this.names, thumbnails: this.thumbnails} : this.load();
    const found = await readState(client, this.facts);
    if (kept && equal(found, kept.state)) {
      this.take(kept.state, kept.names);
    } else if (kept && this.untaught(found)) {
      await writeState(client, kept.state, this.facts);
      this.take(kept.state, kept.names);
    } else {
      if (kept) {
        this.past.push(kept);
        this.trouble = "This board knows something else than this page kept. Undo gives it what the page kept; without that, the page forgets it.";
      }
      this.take(found, kept ? kept.names : this.names);
    }
    if (kept) this.thumbnails = kept.thumbnails;
    this.agreed = client;
    await this.review(client);
  }

  // A board that nobody has taught since its power came.
  untaught(state) {
    const review = this.facts.review?.labels.length ?? 0;
    return state.known === this.facts.plan.shipped && state.presented.every((n) => n === 0)
      && (state.labels.length === 0 || state.labels.length === review);
  }

  // Exemplars of the classes that ship, or the first lesson would make the board forget them.
  async review(client) {
    const {review} = this.facts;
    if (!review?.labels.length || this.state.labels.length) return;
    await writeExemplars(client, review.labels, review.latents, this.facts);
    this.take({...this.state, labels: [...review.labels], latents: [...review.latents]}, this.names);
  }

  take(state, names) {
    this.state = state;
    this.known = state.known;
    this.names = named(names, state.known).map((name, label) => state.forgotten?.includes(label) ? null : name);
    this.save();
    this.changed();
  }

  async read(client) { this.take(await readState(client, this.facts), this.names); }

  remember() {
    const thumbnails = new Map([...this.thumbnails].map(([name, list]) => [name, [...list]]));
    this.past.push({state: this.state, names: [...this.names], thumbnails});
    if (this.past.length > MOST_UNDO) this.past.shift();
  }

  // Read what it knows, while nothing else is asked.
  prepare() { return this.change("reading what the chip knows", (client) => this.agree(client)); }

  // The number of the class of that name, -1 where there is none.
  place(label) { return this.names.findIndex((name) => name !== null && spelled(name) === spelled(label)); }

  // The number of the class `label`; LinkError where it cannot be taught.
  number(label) {
    const fault = nameFault(label);
    if (fault) throw new LinkError(fault);
    const known = this.place(label);
    if (known < 0 && !this.room) {
      throw new LinkError(`The chip has room for ${this.known} classes and knows ${this.names.filter((name) => name !== null).join(", ")}; `
        + "teach one of them, or reset it.");
    }
    if (known >= 0) return known;
    return this.names.includes(null) ? this.names.indexOf(null) : this.names.length;  // the lowest that is free
  }

  // {name, mistaken} of the known class that a class is close to, before pictures of it are taught; or null.
  near(images, label) {
    return this.change(`looking at ${label}`, async (client) => {
      await this.agree(client);
      const index = this.number(label), latents = [];
      if (!this.facts.plan.adds || !this.state.known) return null;
      for (const image of images) {
        latents.push(ordered((await this.picture(() => client.classify(image, {latent: true}))).latent, this.facts));
      }
      const found = close(this.state, index, latents, this.facts);
      return found && {name: this.names[found.index], mistaken: found.mistaken};
    });
  }

  // Teach a class from pictures, RGB bytes each.  passes: how often they are shown; null: until ENOUGH are right, MOST_PASSES at most.
  // shown(picture number, pass): called before each.
  teach(images, label, {passes = null, rehearse = true, shown = () => {}} = {}) {
    return this.change(`learning ${label}`, async (client) => {
      await this.agree(client);
      const index = this.number(label);
      label = this.names[index] ?? spelled(label);
      if (this.facts.plan.adds) passes ??= 1;  // more of the same would only make the sums larger
      if (this.frozen) throw new LinkError("The chip is frozen and learns nothing; thaw it first.");
      const before = this.state;
      const fresh = index === this.known || this.names[index] === null;
      const lesson = {label, index, fresh, images: images.length, passes: 0, rightBefore: 0, rightAfter: 0, rehearsed: 0};
      this.remember();
      let samples;
      try {
        samples = await this.show(client, lesson, images, passes, shown);
      } finally {  // of a line that broke, `known` says how far it came
        this.names = named(this.names, this.known);
      }
      const found = await readState(client, this.facts);
      if (forgot(before, found, index, samples, this.facts)) {
        await writeState(client, before, this.facts);
        this.take(before, this.past.pop().names);
        throw new LinkError("The board lost its power during the lesson. It knows again what it knew before; teach the lesson once more.");
      }
      const list = this.thumbnails.get(label) ?? [];
      this.thumbnails.set(label, [...list, ...images].slice(-THUMBNAILS));
      this.take(found, this.names);
      lesson.effects = this.effects(before, this.state);
      lesson.counters = moved(before, this.state);
      this.lesson = lesson;
      if (rehearse) setTimeout(() => this.rest(lesson, before));
      return lesson;
    });
  }

  // The latents of all that the board was shown, in order.
  async show(client, lesson, images, passes, shown) {
    const {label, index} = lesson, latents = [], forgotten = this.state.forgotten?.filter((one) => one !== index);
    while (lesson.passes < (passes ?? MOST_PASSES) && (passes !== null || lesson.rightAfter < ENOUGH * images.length)) {
      for (const [n, image] of images.entries()) {
        shown(n, lesson.passes);
        const told = await this.picture(async () => {
          const result = await client.classify(image, {latent: true});
          await client.learn(index);
          return result;
        });
        latents[n] = ordered(told.latent, this.facts);
        if (!lesson.passes && told.index === index && !told.unknown) lesson.rightBefore++;
        if (index === this.known) this.known++;
        if (this.names[index] !== label) this.names = [...this.names.slice(0, index), label, ...this.names.slice(index + 1)];
      }
      lesson.passes++;
      const weights = await readWeights(client, this.facts.plan, this.known);
      lesson.rightAfter = latents.filter((latent) => answer(scores(latent, weights, this.facts, forgotten)) === index).length;
    }
    return Array(lesson.passes).fill(latents).flat();
  }

  // [{name, exemplars, before, after}]: how many exemplars of each class, stored before a lesson, were right before and after it.
  effects(before, after) {
    const weights = [weightsOf(before, this.facts.plan), weightsOf(after, this.facts.plan)];
    const list = this.names.map((name) => ({name, exemplars: 0, before: 0, after: 0}));
    before.latents.forEach((latent, slot) => {
      const label = before.labels[slot];
      const [old, now] = weights.map((rows, n) => answer(scores(latent, rows, this.facts, [before, after][n].forgotten)));
      list[label].exemplars++;
      list[label].before += old === label;
      list[label].after += now === label;
    });
    return list.filter((one) => one.exemplars);
  }

  // Rehearse after a lesson, while nothing else is asked, until no class has lost more than a tenth of its exemplars.
  rest(lesson, before) {
    if (this.resting || this.frozen || !lost(lesson).length) return;
    this.resting = true;
    this.changes = this.changes.then(() => this.rehearseIdly(lesson, before)).catch((error) => { this.trouble = error.message; }).finally(() => {
      this.resting = false;
      this.changed();
    });
  }

  async rehearseIdly(lesson, before) {
    const {client} = this;
    while (this.resting && client === this.client && lost(lesson).length && lesson.rehearsed < REHEARSAL) {
      for (let round = 0; round < ROUND && this.resting; round += STEP, lesson.rehearsed += STEP) await client.rehearse(STEP);
      await this.read(client);
      lesson.effects = this.effects(before, this.state);
      this.changed();
    }
  }

  undo() {
    return this.change("taking the last lesson back", async (client) => {
      if (!this.past.length) throw new LinkError("There is no lesson to take back.");
      await this.agree(client);
      const {state, names, thumbnails} = this.past.pop();
      await writeState(client, state, this.facts);
      this.thumbnails = thumbnails;
      this.lesson = null;
      this.take(state, names);
    });
  }

  freeze(frozen) {
    return this.change(frozen ? "freezing" : "thawing", async (client) => {
      await this.agree(client);
      await client.freeze(frozen);
      this.take({...this.state, frozen}, this.names);
    });
  }

  rehearse(count) {
    return this.change(`rehearsing ${count} times`, async (client) => {
      await this.agree(client);
      if (this.frozen) throw new LinkError("The chip is frozen and learns nothing; thaw it first.");
      const before = this.state;
      this.remember();
      await client.rehearse(count);
      await this.read(client);
      return this.effects(before, this.state);
    });
  }

  reset() {
    return this.change("back to the classes that ship", async (client) => {
      await this.agree(client);
      this.remember();
      await client.reset();
      this.thumbnails = new Map();
      this.names = (this.facts.plan.forget ? this.facts.classes : this.names).slice(0, this.facts.plan.shipped);
      this.lesson = null;
      await this.read(client);
      await this.review(client);
    });
  }

  // Forget a class: its row and its pictures.  All others stay as they are and keep their numbers.
  forgetClass(label) {
    return this.change(`forgetting ${this.names[label]}`, async (client) => {
      await this.agree(client);
      if (this.frozen) throw new LinkError("The chip is frozen and forgets nothing; thaw it first.");
      const state = without(this.state, label, this.facts);
      this.remember();
      await writeState(client, state, this.facts);
      this.thumbnails.delete(this.names[label]);
      this.lesson = null;
      this.take(state, this.names);
    });
  }

  // Take the exemplars of a class out of the replay buffer; its weights stay until other lessons move them.
  forget(label) {
    return this.change(`forgetting the stored pictures of ${this.names[label]}`, async (client) => {
      await this.agree(client);
      this.remember();
      const keep = this.state.labels.map((_, slot) => slot).filter((slot) => this.state.labels[slot] !== label);
      const labels = keep.map((slot) => this.state.labels[slot]), latents = keep.map((slot) => this.state.latents[slot]);
      await client.pokeWords(4, 1, [0]);
      await writeExemplars(client, labels, latents, this.facts);
      this.thumbnails.delete(this.names[label]);
      this.take({...this.state, labels, latents}, this.names);
    });
  }

  // Bytes of a file that fbnn-hw and this page take.
  file() { return packFile(this.names, this.state, this.facts.check); }

  open(bytes) {
    const {names, state} = unpackFile(bytes, this.facts);
    return this.change("taking up a file", async (client) => {
      await this.agree(client);
      this.remember();
      await writeState(client, state, this.facts);
      this.thumbnails = new Map([...this.thumbnails].filter(([name]) => names.includes(name)));
      this.lesson = null;
      this.take(state, titled(names, this.facts.classes));
    });
  }

  save() {
    if (this.state) this.store?.save({file: this.file(), thumbnails: this.thumbnails});
  }

  load() {
    const kept = this.store?.load();
    if (!kept) return null;
    try {
      return {...unpackFile(kept.file, this.facts), thumbnails: kept.thumbnails};
    } catch {
      this.store.unread();
      return null;
    }
  }
}

// Whether a board lost its power in a lesson of a class, which takes nothing away; where samples are summed, it is known what it gives.
function forgot(before, found, index, samples, facts) {
  if (found.known < before.known || found.labels.length < before.labels.length) return true;
  return Boolean(facts.plan.adds) && summed(before, index, samples, facts).output.some(
    (row, label) => row.some((value, n) => value !== found.output[label]?.[n]));
}

// Names of the classes that a lesson cost more than a tenth of their exemplars.
export const lost = (lesson) =>
  lesson.effects.filter(({name, exemplars, before, after}) => name !== lesson.label && 10 * (before - after) > exemplars).map(({name}) => name);

// What a lesson moved: for each class the counters moved, the weights flipped, and the counters before and after.
function moved(before, after) {
  return after.output.map((now, label) => {
    const old = before.output[label] ?? null;
    let count = 0, flipped = 0;
    now.forEach((value, n) => {
      if (!old || value !== old[n]) count++;
      if (old && (value >= 0) !== (old[n] >= 0)) flipped++;
    });
    return {moved: count, flipped, before: old, after: now};
  });
}
