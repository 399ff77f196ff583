// The scaler of the program, byte for byte: the centre square of a picture by Lanczos's filter, in integers, as Pillow does it for
// fbnn_hw/data/images.py.  tests/studio/scale_vectors.json holds both to the same answers.

const LOBES = 3, WEIGHT_BITS = 22;

const sinc = (x) => x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI);
const lanczos = (x) => -LOBES <= x && x < LOBES ? sinc(x) * sinc(x / LOBES) : 0;

// For each of `size` pixels: the first of the `length` pixels that it is made of, and the weights of those from there on, whose sum is
// 2 ** WEIGHT_BITS but for rounding.  The `size` pixels cover `side` pixels from `start`; the filter also reads what lies beyond those.
function taps(length, start, side, size) {
  const step = side / size, spread = Math.max(step, 1), reach = LOBES * spread;
  return Array.from({length: size}, (_, n) => {
    const middle = start + (n + 0.5) * step;
    const first = Math.max(0, Math.trunc(middle - reach + 0.5)), end = Math.min(length, Math.trunc(middle + reach + 0.5));
    const parts = Array.from({length: end - first}, (_, k) => lanczos((k + first - middle + 0.5) * (1 / spread)));
    const sum = parts.reduce((before, part) => before + part, 0);
    return {first, end, weights: Int32Array.from(parts, (part) => part / sum * 2 ** WEIGHT_BITS + (part < 0 ? -0.5 : 0.5))};
  });
}

// RGB bytes, row by row, of the square in the middle of a picture, size x size.  strip(top, rows): RGBA bytes of `rows` whole rows, at most
// `most`, from row `top` on.
export function scaled(width, height, size, most, strip) {
  const side = Math.min(width, height);
  const across = taps(width, (width - side) / 2, side, size), down = taps(height, (height - side) / 2, side, size);
  const top = down[0].first, end = down[size - 1].end;
  const narrow = new Uint8ClampedArray(3 * size * (end - top)), image = new Uint8ClampedArray(3 * size * size);
  for (let y = top, to = 0; y < end; y += most) {
    const rows = Math.min(most, end - y), pixels = strip(y, rows);
    for (let row = 0; row < rows; row++) {
      for (const {first, weights} of across) to = weigh(pixels, 4 * (row * width + first), 4, weights, narrow, to);
    }
  }
  for (let n = 0, to = 0; n < size; n++) {
    for (let x = 0; x < size; x++) to = weigh(narrow, 3 * ((down[n].first - top) * size + x), 3 * size, down[n].weights, image, to);
  }
  return new Uint8Array(image.buffer);
}

// Write the weighted sum of pixels, each `stride` bytes behind the one before, rounded and kept within a byte; returns the place behind it.
function weigh(from, at, stride, weights, into, to) {
  let red = 1 << WEIGHT_BITS - 1, green = red, blue = red;
  for (let k = 0; k < weights.length; k++, at += stride) {
    red += from[at] * weights[k];
    green += from[at + 1] * weights[k];
    blue += from[at + 2] * weights[k];
  }
  into[to] = red >> WEIGHT_BITS;
  into[to + 1] = green >> WEIGHT_BITS;
  into[to + 2] = blue >> WEIGHT_BITS;
  return to + 3;
}
