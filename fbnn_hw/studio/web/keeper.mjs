// Where a browser keeps what was taught, so that it outlasts the page.

const SETTLED_MS = 1000, YOUNG_MS = 5000;
const OTHER = "Another tab has taught this chip since. What this tab knows is not kept: save it to a file; "
  + "open the page again to go on from what the other tab taught.";
const UNREADABLE = "What this browser kept of an earlier visit cannot be read by this page. It stays there, and what is taught now is "
  + "not kept: save it to a file.";

export const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const textOf = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
const reason = (error) => `This browser keeps nothing for this page (${error.name === "QuotaExceededError" ? "its storage is full"
  : "its storage is forbidden"}). What the chip learns is lost with this tab: save it to a file.`;

// The store of a page.  key: of its design.  changed(): called when `fault` may be another.  taught(): whether there is something to lose.
//
// All tabs have one entry.  Two tabs may write it in the same moment, each before it hears of the other; so a tab first writes what it
// knows to an entry of its own, and removes that one when it has found its mark in the common entry a moment later.  An entry of its own
// that stayed is `beside` for the tab that opens next.
export class Keeper {
  constructor(key, changed, taught) {
    this.key = key;
    this.own = `${key} ${crypto.randomUUID()}`;
    this.changed = changed;
    this.mark = null;  // of what this page has read or written last
    this.fault = "";  // why nothing is kept
    this.saved = false;  // whether a file has what is not kept
    this.beside = null;  // {entry, file}: what another tab taught, which the common entry has not
    window.addEventListener("storage", (event) => {
      if (event.key === key && event.newValue && JSON.parse(event.newValue).mark !== this.mark) this.replaced();
    });
    window.addEventListener("beforeunload", (event) => { if (this.fault && !this.saved && taught()) event.preventDefault(); });
  }

  replaced() {
    this.fault = OTHER;
    this.saved = false;
    this.changed();
  }

  load() {
    let kept = null;
    try {
      kept = localStorage.getItem(this.key);
      const {mark = null, file, thumbnails} = JSON.parse(kept) ?? {};
      if (!file) return null;
      this.beside = this.others(mark);
      const found = {file: bytesOf(file), thumbnails: new Map(thumbnails.map(([name, list]) => [name, list.map(bytesOf)]))};
      this.mark = mark;
      return found;
    } catch (error) {
      this.fault = kept === null ? reason(error) : UNREADABLE;
      return null;
    }
  }

  // An entry that a tab has left of its own; all those of what the common entry has are removed first.
  others(mark) {
    const left = [];
    for (const entry of Object.keys(localStorage).filter((one) => one.startsWith(`${this.key} `) && one !== this.own)) {
      const kept = JSON.parse(localStorage.getItem(entry));
      if (kept.mark === mark) localStorage.removeItem(entry);
      else if (Date.now() - kept.at > YOUNG_MS) left.push({entry, file: bytesOf(kept.file)});
    }
    return left[0] ?? null;
  }

  // `beside` is in a file.
  taken() {
    localStorage.removeItem(this.beside.entry);
    this.beside = null;
    this.changed();
  }

  unread() { this.fault = UNREADABLE; }

  save({file, thumbnails}) {
    this.saved = false;
    if (this.fault === UNREADABLE) return;
    try {
      const there = JSON.parse(localStorage.getItem(this.key)), now = textOf(file);
      if (there && (there.mark ?? null) !== this.mark) this.fault = OTHER;
      else if (there?.file !== now || this.fault) {
        this.write(now, [...thumbnails].map(([name, list]) => [name, list.map(textOf)]));
        this.fault = "";
      }
    } catch (error) {
      this.fault = reason(error);
    }
    this.changed();
  }

  write(file, thumbnails) {
    const mark = crypto.randomUUID();
    for (const [copy, pictures] of [[true, thumbnails], [true, []], [false, []]]) {  // there may be room for less
      try {
        if (copy) localStorage.setItem(this.own, JSON.stringify({mark, at: Date.now(), file}));
        else localStorage.removeItem(this.own);
        localStorage.setItem(this.key, JSON.stringify({mark, file, thumbnails: pictures}));
        this.mark = mark;
        setTimeout(() => this.settle(), SETTLED_MS);
        return;
      } catch (error) {
        if (!copy) throw error;
      }
    }
  }

  settle() {
    if (JSON.parse(localStorage.getItem(this.key))?.mark === this.mark) localStorage.removeItem(this.own);
    else this.replaced();
  }
}
