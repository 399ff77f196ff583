// The first run: three steps, each said beside what it means.  What has been done says which step it is.

import {by} from "./dom.mjs";

export const NOTHING = "nothing", EMPTY_VIEWS = 20, VIEWS = 10;
const DONE = "fbnn-hw tour";

export class Guide {
  constructor() {
    try {
      this.on = !localStorage.getItem(DONE);
    } catch {
      this.on = true;  // no storage: it shows up each time
    }
    by("hint-end").onclick = () => this.end();
  }

  end() {
    this.on = false;
    this.target?.classList.remove("pointed");
    by("hint").hidden = true;
    try {
      localStorage.setItem(DONE, "1");
    } catch { /* no storage */ }
  }

  // taught: how many classes were taught.  seeing: whether the camera is on.  pictures: how many are collected.  named: whether a name is typed.
  draw({taught, seeing, pictures, named}) {
    if (!this.on) return;
    const [step, target, text] = this.step(taught, seeing, pictures, named), hint = by("hint");
    by("hint-step").textContent = `Step ${step} of 3.`;
    by("hint-text").textContent = text;
    by("hint-end").textContent = step === 3 ? "Done" : "Skip";
    const element = by(target);
    if (element === this.target && !hint.hidden) return;
    this.target?.classList.remove("pointed");
    this.target = element;
    element.classList.add("pointed");
    hint.hidden = false;
    if (target === "answer") by("look-title").after(hint);
    else {
      let place = element;
      while (place.parentElement.tagName !== "SECTION") place = place.parentElement;
      place.before(hint);
    }
    hint.classList.toggle("up", target === "answer");
  }

  step(taught, seeing, pictures, named) {
    if (!taught) {
      if (pictures >= EMPTY_VIEWS) return [1, "teach-now", "Now press Teach. Then it knows what it looks like when nothing is there."];
      if (!seeing && pictures >= VIEWS && named) return [1, "teach-now", "Press Teach."];
      if (!seeing) return [1, "camera", "Turn the camera on. No camera? Drop pictures here, or take the ten pictures of a mug."];
      return [1, "hold", `First it learns “${NOTHING}”. Take all things out of view and hold this button until there are ${EMPTY_VIEWS} pictures.`];
    }
    if (taught === 1) {
      if (!named) return [2, "name", "Now a thing of your own. Take one, a mug or a shoe, and type what it is."];
      if (pictures < VIEWS) return [2, "hold", `Hold it into the camera, turn it to all sides, and hold this button until there are ${VIEWS} pictures.`];
      return [2, "teach-now", "Press Teach."];
    }
    return [3, "answer", "Show it again, and take it away. Does the chip say so? Then teach a second thing, or try to fool it."];
  }
}
