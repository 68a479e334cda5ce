// The engine as the page and the package start it. tperfEngine is Emscripten's function (build/page/tperf.js).
"use strict";
const TPERF_DATA = "/share/tperf/"; // where the engine looks for its data, in its own file system

// made: { module: a compiled WebAssembly.Module, files: texts by path }. put: { stdout, stderr }, functions of a byte.
async function tperfStart(made, put) {
  const engine = await tperfEngine({
    ...put,
    noInitialRun: true,
    stdin: () => null,
    instantiateWasm: (imports, done) => {
      WebAssembly.instantiate(made.module, imports).then(done);
      return {};
    },
    quit: (status, thrown) => { throw thrown; },
  });
  for (const name in made.files) {
    engine.FS.mkdirTree((TPERF_DATA + name).replace(/\/[^/]*$/, ""));
    engine.FS.writeFile(TPERF_DATA + name, made.files[name]);
  }
  return engine;
}

// The answer to a question, both as text; null: there is no memory for it.
function tperfLine(engine, call, question) {
  const at = engine.ccall(call, "number", ["string"], [question]);
  const line = at ? engine.UTF8ToString(at) : null;
  engine._free(at);
  return line;
}
