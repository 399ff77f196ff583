// Pictures from a camera, from files and from folders, cut square and brought to the size that the chip takes.

import {LinkError} from "./link.mjs";

export const MOST_FILES = 200;
const MOST_BYTES = 30 << 20, CAMERA_PIXELS = 480;

// RGB bytes, row by row, of the square in the middle of something that a canvas can draw.
export function cut(source, width, height, size) {
  const canvas = new OffscreenCanvas(size, size), pen = canvas.getContext("2d", {willReadFrequently: true});
  const side = Math.min(width, height);
  pen.imageSmoothingQuality = "high";
  pen.drawImage(source, (width - side) / 2, (height - side) / 2, side, side, 0, 0, size, size);
  const {data} = pen.getImageData(0, 0, size, size), image = new Uint8Array(3 * size * size);
  for (let n = 0; n < size * size; n++) image.set(data.subarray(4 * n, 4 * n + 3), 3 * n);
  return image;
}

// Show RGB bytes on a canvas, pixel by pixel.
export function paint(canvas, image, size) {
  canvas.width = canvas.height = size;
  const data = new ImageData(size, size);
  for (let n = 0; n < size * size; n++) data.data.set([image[3 * n], image[3 * n + 1], image[3 * n + 2], 255], 4 * n);
  canvas.getContext("2d").putImageData(data, 0, 0);
}

// {image, url} of a Blob; LinkError where it is no picture.  name: as the message calls it.
export async function decode(blob, name, size) {
  if (blob.size > MOST_BYTES) throw new LinkError(`${name} has ${Math.round(blob.size / 2 ** 20)} MB, expected a picture of at most 30.`);
  let bitmap;
  try {
    bitmap = await createImageBitmap(blob);
  } catch {
    throw new LinkError(`${name} is no picture that this browser can read; use PNG or JPEG.`);
  }
  try {
    return cut(bitmap, bitmap.width, bitmap.height, size);
  } finally {
    bitmap.close();
  }
}

// RGB bytes of a data URL, without asking any network for it.
export function decodeUrl(url, size) {
  const [head, text] = url.split(","), bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return decode(new Blob([bytes], {type: head.slice(5).split(";")[0]}), "the example", size);
}

// Files of a drop, those in folders too, at most one more than MOST_FILES.
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean), files = [];
  if (!entries.length) return [...transfer.files].slice(0, MOST_FILES + 1);
  const walk = async (entry) => {
    if (files.length > MOST_FILES) return;
    if (entry.isFile) {
      files.push(await new Promise((done, failed) => entry.file(done, failed)));
    } else {
      const reader = entry.createReader();
      for (;;) {
        const some = await new Promise((done, failed) => reader.readEntries(done, failed));
        if (!some.length || files.length > MOST_FILES) break;
        for (const one of some) await walk(one);
      }
    }
  };
  for (const entry of entries) await walk(entry);
  return files;
}

// {images, message}: pictures of files, and a sentence where some were left out.
export async function decodeAll(files, size) {
  const images = [], bad = [];
  for (const file of files.slice(0, MOST_FILES)) {
    try {
      images.push(await decode(file, file.name, size));
    } catch (error) {
      bad.push(error.message);
    }
  }
  const parts = [];
  if (bad.length === 1) parts.push(bad[0]);
  if (bad.length > 1) parts.push(`${bad.length} of the files are no pictures that this browser can read; use PNG or JPEG.`);
  if (files.length > MOST_FILES) parts.push(`Only the first ${MOST_FILES} files were taken; drop the others afterwards.`);
  return {images, message: parts.join(" ")};
}

// A camera, behind a video element.
export class Camera {
  constructor(video) { this.video = video; }

  get on() { return Boolean(this.stream); }

  async start() {
    if (!navigator.mediaDevices?.getUserMedia) {
      throw new LinkError("This browser gives no camera to this page; open the file in Chromium, or drop pictures here instead.");
    }
    try {
      this.stream = await navigator.mediaDevices.getUserMedia(
        {video: {width: {ideal: CAMERA_PIXELS}, height: {ideal: CAMERA_PIXELS}, facingMode: "environment"}});
    } catch (error) {
      if (error.name === "NotAllowedError") {
        throw new LinkError("The camera was refused; allow it beside the page's address, or drop pictures here instead.");
      }
      if (error.name === "NotReadableError") {
        throw new LinkError("Another program has the camera; close that one, or drop pictures here instead.");
      }
      throw new LinkError("No camera was found; plug one in, or drop pictures here instead.");
    }
    this.video.srcObject = this.stream;
    await this.video.play();
  }

  stop() {
    this.stream?.getTracks().forEach((track) => track.stop());
    this.stream = this.video.srcObject = null;
  }

  // RGB bytes of what it sees now, or null before the first picture.
  now(size) {
    const {videoWidth: width, videoHeight: height} = this.video;
    return width && height ? cut(this.video, width, height, size) : null;
  }
}
