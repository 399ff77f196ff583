// Holds fbnn_hw/studio/web/scale.mjs to pictures on standard input whose scaled bytes Python knows.  node check_scale.mjs < scale_vectors.json
import assert from "node:assert/strict";
import fs from "node:fs";
import {scaled} from "../../fbnn_hw/studio/web/scale.mjs";

const vectors = JSON.parse(fs.readFileSync(0));
for (const {width, height, size, rows, pixels, image} of vectors) {
  const rgb = Buffer.from(pixels, "base64"), rgba = new Uint8Array(4 * width * height).fill(255);
  for (let n = 0; n < width * height; n++) rgba.set(rgb.subarray(3 * n, 3 * n + 3), 4 * n);
  const found = scaled(width, height, size, rows, (top, count) => {
    assert(count <= rows && top + count <= height);
    return rgba.subarray(4 * width * top, 4 * width * (top + count));
  });
  assert(Buffer.from(found).equals(Buffer.from(image, "base64")), `${width}x${height} to ${size}`);
}
console.log(vectors.length);
