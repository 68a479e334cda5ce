// The worker: tperf itself. Messages in:
//   { start: { engine, files } }   base64 of gzip, or { module, files } from an earlier worker; replies "ready"
//   { id, question, texts }        a question for lua/tperf/page/, and the files it names; replies { id, answer }
//   { id, unpack }                 packed texts of a link, by name; replies { id, answer }, see unpack.js
//   { id, run, texts }             a command line for the program's main; replies { id, out | err } as it prints, then
//                                  { id, status, files } with the files it wrote
"use strict";
const HOME = "/home/tperf";
let engine, made;

// The loop is for older browsers: Uint8Array.from would call a function for each of two million bytes.
function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}
const inflated = base64 =>
  new Response(new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip")));

// Where a text of the page lies. Its name must not lead out of there, to the data that tperf ships.
function place(name) {
  if (!/^\w[\w.-]*$/.test(name)) throw new Error(`a file cannot be called ${JSON.stringify(name)}`);
  return HOME + "/" + name;
}

// Splits bytes into lines of text, for output that is not a terminal's.
function lines(say) {
  const decoder = new TextDecoder();
  let bytes = [];
  const flush = () => {
    if (bytes.length) say(decoder.decode(new Uint8Array(bytes)));
    bytes = [];
  };
  const put = byte => { bytes.push(byte); if (byte === 10 && bytes.length > 4000) flush(); };
  return { put, flush };
}

async function start(given) {
  made = given.module ? given : {
    module: await inflated(given.engine).arrayBuffer().then(bytes => WebAssembly.compile(bytes)),
    files: await inflated(given.files).json(),
  };
  const out = lines(text => console.log(text)), err = lines(text => console.warn(text));
  engine = await tperfStart(made, {
    stdout: byte => (engine && engine.out || out).put(byte),
    stderr: byte => (engine && engine.err || err).put(byte),
  });
  engine.FS.mkdirTree(HOME);
  engine.FS.chdir(HOME);
  postMessage({ ready: true, module: made.module, files: made.files });
}

function ask(id, question, texts) {
  for (const name in texts) engine.FS.writeFile(place(name), texts[name]);
  const line = tperfLine(engine, "tperf_page_ask", JSON.stringify(question));
  postMessage({ id, answer: line === null ? { error: "not enough memory" } : JSON.parse(line) });
}

// All files below a folder, as { name: bytes }.
function written(folder, prefix = "", into = {}) {
  for (const name of engine.FS.readdir(folder)) {
    if (name.startsWith(".")) continue;
    const path = folder + "/" + name;
    if (engine.FS.isDir(engine.FS.stat(path).mode)) written(path, prefix + name + "/", into);
    else into[prefix + name] = engine.FS.readFile(path);
  }
  return into;
}

function run(id, command, texts) {
  const { FS } = engine;
  for (const name in texts) FS.writeFile(place(name), texts[name]);
  engine.out = lines(text => postMessage({ id, out: text }));
  engine.err = lines(text => postMessage({ id, err: text }));
  if (command[0] !== "run") FS.mkdirTree(HOME + "/out"); // scripts make theirs
  let status = 0;
  try {
    status = engine.callMain(command);
  } catch (thrown) {
    if (thrown.name !== "ExitStatus") throw thrown;
    status = thrown.status;
  }
  engine.out.flush();
  engine.err.flush();
  postMessage({ id, status: status || 0, files: FS.analyzePath(HOME + "/out").exists ? written(HOME + "/out") : {} });
}

onmessage = async ({ data }) => {
  try {
    if (data.start) await start(data.start);
    else if (data.unpack) postMessage({ id: data.id, answer: await unpack(data.unpack) });
    else if (data.question) ask(data.id, data.question, data.texts);
    else run(data.id, data.run, data.texts);
  } catch (problem) {
    postMessage({ id: data.id, broken: String(problem && problem.stack || problem) });
  }
};
