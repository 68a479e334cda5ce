// Part of the worker: the texts in a link, which may be anybody's.
"use strict";

const MOST_TEXT = 4 << 20; // bytes of a link's text: a few of them deflate to gigabytes

// What a packed text inflates to; null: more than MOST_TEXT.
async function inflate(code) {
  const bytes = Uint8Array.from(atob(code.replaceAll("-", "+").replaceAll("_", "/")), c => c.charCodeAt(0));
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const decoder = new TextDecoder();
  let text = "", size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.length;
    if (size > MOST_TEXT) {
      await reader.cancel();
      return null;
    }
    text += decoder.decode(value, { stream: true });
  }
}

// { texts, problems }: the texts by name, and a sentence for each that cannot be read.
async function unpack(codes) {
  const texts = {}, problems = [];
  for (const name in codes) {
    try {
      const text = await inflate(codes[name]);
      if (text === null) problems.push(`The link's copy of ${name} inflates to more than ${MOST_TEXT >> 20} MiB.`);
      else texts[name] = text;
    } catch {
      problems.push(`The link's copy of ${name} cannot be read: it is damaged.`);
    }
  }
  return { texts, problems };
}
