// What the first bytes of a picture say: whether a browser decodes it to the bytes that fbnn_hw/data/images.py reads.

const UPRIGHT = 1, ORIENTATION = 0x112, SHORT = 3, PNG_RGB = 2;
const letters = (data, at, count) => String.fromCharCode(...data.subarray(at, at + count));
const viewOf = (data) => new DataView(data.buffer, data.byteOffset, data.byteLength);

// {data, trouble}: the bytes to decode, and what a message says of the picture where it is refused, or null.
export function examined(data) {
  let trouble = null;
  try {
    if (letters(data, 0, 8) === "\x89PNG\r\n\x1a\n") return examinedPng(data);
    if (letters(data, 0, 3) === "\xff\xd8\xff") trouble = troubleOfJpeg(data);
    else if (letters(data, 0, 4) === "RIFF" && letters(data, 8, 4) === "WEBP") trouble = troubleOfWebp(data);
    else if (letters(data, 0, 2) === "BM") trouble = troubleOfBmp(data);
    else trouble = "is no picture that this browser can read; use PNG or JPEG.";
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;  // it ends too early, which the decoder says
  }
  return {data, trouble};
}

// An animation becomes its first picture, which browsers leave out where it is no part of it.
function examinedPng(data) {
  const view = viewOf(data), deep = view.getUint8(24) === 16 && view.getUint8(25) === PNG_RGB;
  let trouble = null;
  for (let at = 8; at + 8 <= data.length;) {
    const kind = letters(data, at + 4, 4), end = at + 12 + view.getUint32(at);
    if (kind === "IDAT") break;
    if (kind === "tRNS" && deep) trouble = "has a transparent colour of 16 bits; save it with 8 bits a colour.";
    if (kind === "acTL") {
      const still = new Uint8Array(data.length - (end - at));
      still.set(data.subarray(0, at));
      still.set(data.subarray(end), at);
      return examinedPng(still);
    }
    at = end;
  }
  return {data, trouble};
}

function troubleOfJpeg(data) {
  const view = viewOf(data);
  for (let at = 2; ;) {
    const kind = view.getUint8(at + 1);
    if (kind === 0xff) at++;  // a byte that fills
    else if (kind >= 0xc0 && kind <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(kind)) {
      return view.getUint8(at + 9) === 4 ? "has CMYK colours, which browsers round in their own way; save it as RGB." : null;
    } else at += 2 + view.getUint16(at + 2);
  }
}

function troubleOfWebp(data) {
  const view = viewOf(data);
  for (let at = 12; at + 8 <= data.length;) {
    const length = view.getUint32(at + 4, true);
    if (letters(data, at, 4) === "EXIF" && orientation(data.subarray(at + 8, at + 8 + length)) !== UPRIGHT) {
      return "is turned by its EXIF data, which browsers overlook in WebP; save it as JPEG or PNG.";
    }
    at += 8 + length + length % 2;
  }
  return null;
}

const troubleOfBmp = (data) => viewOf(data).getUint16(28, true) === 16 ? "has 16 bits a pixel; save it as PNG." : null;

// The orientation that EXIF data gives, 2 to 8 where the picture is to be turned.
function orientation(exif) {
  if (letters(exif, 0, 6) === "Exif\0\0") exif = exif.subarray(6);
  const view = viewOf(exif), little = letters(exif, 0, 4) === "II*\0", first = view.getUint32(4, little);
  if (!little && letters(exif, 0, 4) !== "MM\0*") return UPRIGHT;
  for (let n = 0; n < view.getUint16(first, little); n++) {
    const at = first + 2 + 12 * n;
    const entry = [view.getUint16(at, little), view.getUint16(at + 2, little), view.getUint32(at + 4, little)];
    const value = view.getUint16(at + 8, little);
    if (String(entry) === String([ORIENTATION, SHORT, 1]) && value >= 1 && value <= 8) return value;
  }
  return UPRIGHT;
}
