// What the first bytes of a picture say: whether a browser decodes it to the bytes that fbnn_hw/data/images.py reads.

import {crc32} from "./state.mjs";

const UPRIGHT = 1, ORIENTATION = 0x112, SHORT = 3, PNG_RGB = 2, PNG_PALETTE = 3;
const WEBP_ALPHA = 0x10, BMP_CORE = 12, BMP_V4 = 108;
const BMP_HEADERS = [BMP_CORE, 40, 52, 56, BMP_V4, 124], BMP_BITS = [1, 4, 8, 24, 32], BMP_PACKED = [BMP_BITS, [8], [4], [32]];
const BMP_MASKS = [[0xff0000, 0xff00, 0xff, 0], [0xff0000, 0xff00, 0xff, 0xff000000], [0xff, 0xff00, 0xff0000, 0xff000000],
                   [0xff000000, 0xff0000, 0xff00, 0], [0xff000000, 0xff0000, 0xff00, 0xff]].map(String);
const DAMAGED = "is no picture that this browser can read; use PNG or JPEG.";
const CLEAR_BYTES = {0: 2, [PNG_RGB]: 6};  // of the transparent colour of PNGs that have one
const letters = (data, at, count) => String.fromCharCode(...data.subarray(at, at + count));
const viewOf = (data) => new DataView(data.buffer, data.byteOffset, data.byteLength);

// {parts, trouble}: the bytes to decode, in a row, and what a message says of the picture where it is refused, or null.
export function examined(data) {
  let trouble = null;
  try {
    if (letters(data, 0, 8) === "\x89PNG\r\n\x1a\n") return examinedPng(data);
    if (letters(data, 0, 3) === "\xff\xd8\xff") trouble = troubleOfJpeg(data);
    else if (letters(data, 0, 4) === "RIFF" && letters(data, 8, 4) === "WEBP") trouble = troubleOfWebp(data = data.slice());
    else if (letters(data, 0, 2) === "BM") return examinedBmp(data);
    else trouble = DAMAGED;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;  // it ends too early, which the decoder says
  }
  return {parts: [data], trouble};
}

// Those chunks alone that make a picture, as _png of fbnn_hw/data/kinds.py has them, since browsers differ in others.
function examinedPng(data) {
  const view = viewOf(data), depth = Math.min(view.getUint8(24), 16), colour = view.getUint8(25), found = {}, pixels = [];
  for (let at = 8, end, kind; (kind = letters(data, at + 4, 4)) === "IDAT" || !pixels.length; at = end) {
    end = at + 12 + view.getUint32(at);
    const check = view.getUint32(end - 4), sound = kind === "IDAT" || check === crc32(data.subarray(at + 4, end - 4));
    if (kind === "IDAT") pixels.push(data.subarray(at, end));
    else if (sound && (kind !== "tRNS" || found.PLTE || colour !== PNG_PALETTE)) found[kind] ??= data.subarray(at + 8, end - 4);
    const known = sound && ["IHDR", "PLTE", "IDAT"].includes(kind) && found.IHDR?.length === 13;
    if (kind < "a" && !known) return {parts: [data], trouble: null};  // damaged, which the decoder says
  }
  let {PLTE: colours, tRNS: clear, eXIf: exif} = found;
  if (colour === PNG_PALETTE) {
    const last = Math.floor(colours.length / 3) - 1, which = Array.from({length: 1 << Math.min(depth, 8)}, (_, n) => Math.min(n, last));
    clear = clear?.length ? which.map((n) => clear[n] ?? 255) : null;
    colours = which.flatMap((n) => Array.from(colours.subarray(3 * n, 3 * n + 3)));
  } else {
    clear = clear && clear.length === CLEAR_BYTES[colour] ? clear.map((byte, n) => byte & (1 << depth) - 1 >> (n % 2 ? 0 : 8)) : null;
    colours = null;
  }
  const deep = clear && depth === 16 && colour === PNG_RGB;
  return {parts: [data.subarray(0, 8), chunk("IHDR", found.IHDR), colours && chunk("PLTE", colours), clear && chunk("tRNS", clear),
                  exif && chunk("eXIf", exif), ...pixels, chunk("IEND", [])].filter(Boolean),
          trouble: deep ? "has a transparent colour of 16 bits; save it with 8 bits a colour." : null};
}

function chunk(kind, body) {
  const whole = new Uint8Array(12 + body.length), view = viewOf(whole);
  view.setUint32(0, body.length);
  whole.set(Array.from(kind, (letter) => letter.charCodeAt(0)), 4);
  whole.set(body, 8);
  view.setUint32(8 + body.length, crc32(whole.subarray(4, 8 + body.length)));
  return whole;
}

function troubleOfJpeg(data) {
  const view = viewOf(data);
  for (let at = 2; ;) {
    const first = view.getUint8(at), kind = view.getUint8(at + 1);
    if (first !== 0xff || kind === 0xff) at++;  // bytes that fill
    else if (kind > 0 && kind < 0xc0) return DAMAGED;
    else if (kind === 0xda) return null;
    else if (kind >= 0xc0 && kind <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(kind) && view.getUint8(at + 9) === 4) {
      return "has CMYK colours, which browsers round in their own way; save it as RGB.";
    } else at += 2 + (kind ? view.getUint16(at + 2) : 0);
  }
}

// The alpha channel that a WebP has and denies, it has from here on.
function troubleOfWebp(data) {
  const view = viewOf(data);
  for (let at = 12; at + 8 <= data.length;) {
    const length = view.getUint32(at + 4, true), kind = letters(data, at, 4);
    if (kind === "VP8X") data[at + 8] |= WEBP_ALPHA;
    if (kind === "VP8L" && at + 12 < data.length) data[at + 12] |= WEBP_ALPHA;
    if (kind === "EXIF" && orientation(data.subarray(at + 8, at + 8 + length)) !== UPRIGHT) {
      return "is turned by its EXIF data, which browsers overlook in WebP; save it as JPEG or PNG.";
    }
    at += 8 + length + length % 2;
  }
  return null;
}

// As _check_bmp of fbnn_hw/data/kinds.py has it: browsers also take others.
function examinedBmp(data) {
  const view = viewOf(data), header = view.getUint32(14, true), core = header === BMP_CORE, bits = view.getUint16(core ? 24 : 28, true);
  const packed = core ? 0 : view.getUint32(30, true), width = core ? view.getUint16(18, true) : view.getInt32(18, true);
  const height = core ? view.getUint16(20, true) : view.getInt32(22, true), colours = core ? 0 : view.getUint32(46, true);
  const most = bits > 8 ? 0 : 2 ** bits, table = (most && colours || most) * (core ? 3 : 4);
  const least = 14 + header + (packed === 3 && header === 40 ? 12 : 0) + table, start = view.getUint32(10, true);
  const rows = packed === 1 || packed === 2 ? 0 : Math.floor((width * bits + 31) / 32) * 4 * Math.abs(height);
  const masks = () => String([54, 58, 62, 66].map((at) => header > 52 || at < 66 ? view.getUint32(at, true) : 0));
  if (packed > 3 || packed === 3 && (bits !== 32 || !BMP_MASKS.includes(masks()))) {
    return {parts: [data], trouble: "is a BMP packed in a rare way; save it as PNG."};
  }
  if (!BMP_BITS.includes(bits)) return {parts: [data], trouble: `has ${bits} bits a pixel; save it as PNG.`};
  const fits = BMP_HEADERS.includes(header) && BMP_PACKED[packed].includes(bits) && (!most || colours <= most);
  if (header >= BMP_V4 && !packed) (data = data.slice()).fill(0, 66, 70);  // the mask of an alpha channel, of which it has none
  return {parts: [data], trouble: fits && start >= least && start + rows <= data.length ? null : DAMAGED};
}

// The orientation that EXIF data gives, 2 to 8 where the picture is to be turned.
function orientation(exif) {
  if (letters(exif, 0, 6) === "Exif\0\0") exif = exif.subarray(6);
  const view = viewOf(exif), little = letters(exif, 0, 4) === "II*\0", first = view.getUint32(4, little);
  if (!little && letters(exif, 0, 4) !== "MM\0*") return UPRIGHT;
  for (let n = 0; n < view.getUint16(first, little); n++) {
    const at = first + 2 + 12 * n;
    const entry = [view.getUint16(at, little), view.getUint16(at + 2, little), view.getUint32(at + 4, little)];
    const value = view.getUint16(at + 8, little), whole = view.getUint16(at + 10, little) >= 0;
    if (whole && String(entry) === String([ORIENTATION, SHORT, 1]) && value >= 1 && value <= 8) return value;
  }
  return UPRIGHT;
}
