// The page's state is its address: #plan?model=llama-3.1-70b&gpus=1024. Fields are named like the command's options;
// defaults are omitted. Pasted texts are in `file.NAME`, deflated; a view takes those that its form has fields for.
"use strict";

// Of a link: browsers take addresses of 2 MB, and a form has some fifty fields.
const LINK = { characters: 2 << 20, options: 100, value: 10000 };

const encode = async text => {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
};

// Why a link's option or text is left out, as a sentence; null: it is taken.
function wrong(name, value, files) {
  const shown = `“${name.slice(0, 40)}”`;
  if (name.startsWith("file."))
    return files.includes(name.slice(5)) ? null : `The link has ${shown}, a text that no field takes.`;
  if (!/^[a-z][a-z0-9-]{0,49}$/.test(name)) return `The link has ${shown}, which cannot be an option.`;
  return value.length > LINK.value ? `The link's value of ${name} is too long.` : null;
}

// Sorts what an address's fragment has: { view, values, codes: packed texts by name, problems: sentences about what is
// left out }. filesOf(view): the names of the texts that this view takes.
function parseState(hash, filesOf) {
  const long = hash.length > LINK.characters;
  const [view, query] = long ? [""] : hash.replace(/^#/, "").split(/\?(.*)/s);
  const values = {}, codes = {}, problems = long ? ["The link is too long: none of it was read."] : [];
  const entries = [...new URLSearchParams(query || "")], files = filesOf(view);
  if (entries.length > LINK.options)
    problems.push(`The link has more than ${LINK.options} options: the rest is left out.`);
  for (const [name, value] of entries.slice(0, LINK.options)) {
    const problem = wrong(name, value, files);
    if (problem) problems.push(problem);
    else if (name.startsWith("file.")) codes[name.slice(5)] = value;
    else values[name] = value;
  }
  return { view, values, codes, problems };
}

// Reads an address: { view, values, texts, problems }. unpack(codes): a promise of { texts, problems }.
async function readState(hash, filesOf, unpack) {
  const { view, values, codes, problems } = parseState(hash, filesOf);
  const unpacked = Object.keys(codes).length > 0 ? await unpack(codes) : { texts: {}, problems: [] };
  return unpacked && { view, values, texts: unpacked.texts, problems: [...problems, ...unpacked.problems] };
}

async function writeState(view, values, texts) {
  const query = new URLSearchParams();
  for (const name in values) query.set(name, values[name]);
  for (const name in texts) query.set("file." + name, await encode(texts[name]));
  const text = query.toString().replaceAll("%2F", "/").replaceAll("%2C", ",").replaceAll("%3A", ":");
  return "#" + view + (text ? "?" + text : "");
}
