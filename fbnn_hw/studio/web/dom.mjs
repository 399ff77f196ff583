// Elements made of text, never of markup, so that a name of a class can hold anything.

export const by = (id) => document.getElementById(id);

// An element.  attributes: texts, true, or functions for events ("onclick").  children: elements and texts.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Other children of an element.  What had the focus in it, by its data-key, has it afterwards, or its card where it cannot.
export function renew(element, ...children) {
  const key = element.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  element.replaceChildren(...children);
  if (key === undefined) return;
  const again = [...element.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key);
  (again?.disabled ? again.closest("[tabindex]") : again)?.focus({preventScroll: true});
}

export const count = (number, noun, plural = `${noun}s`) => `${number.toLocaleString("en")} ${number === 1 ? noun : plural}`;

// Offer bytes as a file to keep.
export function download(bytes, name) {
  const link = make("a", {href: URL.createObjectURL(new Blob([bytes])), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
