// The gates in a worker of their own, so that the page never waits for them.  In: {id, start | exchange | watch}; out: {id, ...}.

import {Gates} from "./gates.mjs";

let gates = null;

self.onmessage = async ({data}) => {
  const {id} = data;
  try {
    if (data.start) {
      gates = await Gates.start(data.start.module, data.start.files);
      self.postMessage({id, ready: true});
    } else {
      const begun = performance.now(), answer = data.watch ? gates.watch(data.watch) : gates.exchange(data.exchange);
      self.postMessage({id, ...answer, ms: performance.now() - begun});
    }
  } catch (error) {
    self.postMessage({id, error: String(error?.message ?? error)});
  }
};
