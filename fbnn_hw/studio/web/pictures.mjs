// Pictures from a camera, from files and from folders, cut square and brought to the size that the chip takes.

import {examined} from "./kinds.mjs";
import {LinkError} from "./link.mjs";
import {scaled} from "./scale.mjs";

export const MOST_FILES = 200;
const MOST_BYTES = 30 << 20, CAMERA_PIXELS = 480, STRIP_PIXELS = 1 << 22;
const MOST_PIXELS = 1 << 25;  // MAX_PIXELS of fbnn_hw/data/images.py, which scales a larger JPEG while it decodes
const AS_STORED = {colorSpaceConversion: "none", premultiplyAlpha: "none", imageOrientation: "from-image"};

// RGB bytes, row by row, of the square in the middle of something that a canvas can draw.
function cut(source, width, height, size) {
  const most = Math.max(1, Math.min(height, Math.floor(STRIP_PIXELS / width))), canvas = new OffscreenCanvas(width, most);
  const pen = canvas.getContext("2d", {willReadFrequently: true, alpha: false});
  pen.imageSmoothingEnabled = false;
  return scaled(width, height, size, most, (top, rows) => {
    pen.fillRect(0, 0, width, rows);  // what is clear lies over black
    pen.drawImage(source, 0, top, width, rows, 0, 0, width, rows);
    return pen.getImageData(0, 0, width, rows).data;
  });
}

// Show RGB bytes on a canvas, pixel by pixel.
export function paint(canvas, image, size) {
  canvas.width = canvas.height = size;
  const data = new ImageData(size, size);
  for (let n = 0; n < size * size; n++) data.data.set([image[3 * n], image[3 * n + 1], image[3 * n + 2], 255], 4 * n);
  canvas.getContext("2d").putImageData(data, 0, 0);
}

// RGB bytes of a Blob, those that the program reads of the same file; LinkError where it is no picture, or where the browser would give
// others.  name: as the message calls it.
export async function decode(blob, name, size) {
  if (blob.size > MOST_BYTES) throw new LinkError(`${name} has ${Math.round(blob.size / 2 ** 20)} MB, expected a picture of at most 30.`);
  let bitmap;
  try {
    const {parts, trouble} = examined(new Uint8Array(await blob.arrayBuffer()));
    if (trouble) throw new LinkError(`${name} ${trouble}`);
    bitmap = await createImageBitmap(new Blob(parts), AS_STORED);
  } catch (error) {
    if (error instanceof LinkError) throw error;
    throw new LinkError(`${name} is no picture that this browser can read; use PNG or JPEG.`);
  }
  try {
    if (bitmap.width * bitmap.height > MOST_PIXELS) {
      throw new LinkError(`${name} has more than ${MOST_PIXELS.toLocaleString("en")} pixels; make it smaller first.`);
    }
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

// Files of a drop, those in folders too, at most one more than MOST_FILES.  Chromium reads the folders of a page that was opened from a
// file by handles alone, other browsers by entries.
export async function dropped(transfer) {
  const items = [...transfer.items].filter(({kind}) => kind === "file"), files = [];
  const known = items.map((item) => ({  // all at once: after the first wait the drop is over
    handle: item.getAsFileSystemHandle?.(), entry: item.webkitGetAsEntry?.(), file: item.getAsFile()}));
  for (const {handle, entry, file} of known) {
    const found = await handle?.catch(() => null);
    if (found?.kind === "directory") await walkHandle(found, files);
    else if (!found && entry?.isDirectory) await walkEntry(entry, files);
    else if (file && files.length <= MOST_FILES) files.push(file);
  }
  return files;
}

async function walkHandle(folder, files) {
  for await (const one of folder.values()) {
    if (files.length > MOST_FILES) return;
    if (one.kind === "directory") await walkHandle(one, files);
    else files.push(await one.getFile());
  }
}

async function walkEntry(folder, files) {
  const reader = folder.createReader(), called = (work) => new Promise(work).catch(() => {
    throw new LinkError(`The folder ${folder.name} cannot be read from here; choose its pictures by the button instead.`);
  });
  while (files.length <= MOST_FILES) {
    const some = await called((done, failed) => reader.readEntries(done, failed));
    if (!some.length) return;
    for (const one of some) {
      if (files.length > MOST_FILES) return;
      if (one.isDirectory) await walkEntry(one, files);
      else files.push(await called((done, failed) => one.file(done, failed)));
    }
  }
}

// {images, sources, message}: at most `most` pictures of files, the files that they are of, and a sentence where some were left out.
export async function decodeAll(files, size, most = MOST_FILES) {
  const images = [], sources = [], bad = [];
  for (const file of files.slice(0, MOST_FILES)) {
    if (images.length === most) break;
    try {
      images.push(await decode(file, file.name, size));
      sources.push(file);
    } catch (error) {
      bad.push(error.message);
    }
  }
  const parts = [];
  if (bad.length) parts.push(bad[0]);
  if (bad.length > 1) parts.push(`${bad.length - 1} more of the files ${bad.length > 2 ? "were" : "was"} refused.`);
  if (images.length + bad.length < Math.min(files.length, MOST_FILES)) {
    parts.push(`Only ${images.length} of the pictures were taken; teach those that are here, then add the others.`);
  } else if (files.length > MOST_FILES) parts.push(`Only the first ${MOST_FILES} files were taken; drop the others afterwards.`);
  return {images, sources, message: parts.join(" ")};
}

// {deviceId, label} of each camera; labels are empty before one was allowed.
export async function cameras() {
  const all = await navigator.mediaDevices?.enumerateDevices?.().catch(() => []) ?? [];
  return all.filter(({kind}) => kind === "videoinput");
}

// A camera, behind a video element.
export class Camera {
  // onended(): the camera went away by itself.
  constructor(video, onended = () => {}) {
    this.video = video;
    this.onended = onended;
  }

  get on() { return Boolean(this.stream); }

  get device() { return this.stream?.getVideoTracks()[0]?.getSettings().deviceId; }

  // device: the id of one of `cameras`, or "" for one that looks away from the person, if there is one.
  async start(device = "") {
    if (!navigator.mediaDevices?.getUserMedia) {
      throw new LinkError("This browser gives no camera to this page; open the file in Chromium, or drop pictures here instead.");
    }
    try {
      this.stream = await navigator.mediaDevices.getUserMedia(
        {video: {width: {ideal: CAMERA_PIXELS}, height: {ideal: CAMERA_PIXELS},
          ...(device ? {deviceId: {exact: device}} : {facingMode: "environment"})}});
    } catch (error) {
      if (error.name === "NotAllowedError") {
        throw new LinkError("The camera was refused; allow it beside the page's address, or drop pictures here instead.");
      }
      if (error.name === "NotReadableError") {
        throw new LinkError("Another program has the camera; close that one, or drop pictures here instead.");
      }
      throw new LinkError("No camera was found; plug one in, or drop pictures here instead.");
    }
    for (const track of this.stream.getTracks()) {
      track.onended = () => {
        this.stop();
        this.onended();
      };
    }
    this.video.srcObject = this.stream;
    await this.video.play().catch((error) => {
      if (this.stream) throw error;  // else a picture was shown meanwhile
    });
  }

  stop() {
    this.stream?.getTracks().forEach((track) => track.stop());
    this.stream = this.video.srcObject = null;
  }

  // A data URL of what it sees now.
  frame() {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [this.video.videoWidth, this.video.videoHeight];
    canvas.getContext("2d").drawImage(this.video, 0, 0);
    return canvas.toDataURL("image/jpeg");
  }

  // RGB bytes of what it sees now, or null before the first picture.
  now(size) {
    const {videoWidth: width, videoHeight: height} = this.video;
    return width && height ? cut(this.video, width, height, size) : null;
  }
}
