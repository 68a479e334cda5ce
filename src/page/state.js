// The page's state is its address: #plan?model=llama-3.1-70b&gpus=1024. Fields are named like the command's options;
// defaults are omitted. Pasted texts are in `file.NAME`, deflated.
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

// Parses an address's fragment: { view, values, texts, damaged }; damaged: the name of an unreadable text.
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
