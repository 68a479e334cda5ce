// The state of the page is in its address: #plan?model=llama-3.1-70b&gpus=1024. Fields are named as the command's
// options; what a field has by default is left out. Texts that were pasted travel as `file.NAME`, deflated.
"use strict";

const encode = async text => {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
};
const decode = async code => {
  const bytes = Uint8Array.from(atob(code.replaceAll("-", "+").replaceAll("_", "/")), c => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
};

// { view, values, texts, damaged } of an address's fragment; damaged: the name of a text that could not be read.
async function readState(hash) {
  const [view, query] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const values = {}, texts = {};
  let damaged = null;
  for (const [name, value] of new URLSearchParams(query || "")) {
    if (!name.startsWith("file.")) values[name] = value;
    else {
      try {
        texts[name.slice(5)] = await decode(value);
      } catch {
        damaged = name.slice(5);
      }
    }
  }
  return { view, values, texts, damaged };
}

async function writeState(view, values, texts) {
  const query = new URLSearchParams();
  for (const name in values) query.set(name, values[name]);
  for (const name in texts) query.set("file." + name, await encode(texts[name]));
  const text = query.toString().replaceAll("%2F", "/").replaceAll("%2C", ",").replaceAll("%3A", ":");
  return "#" + view + (text ? "?" + text : "");
}
