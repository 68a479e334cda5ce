// How Node finds the module and the data: beside this file.
async function tperfLoad() {
  const { readFileSync } = require("node:fs"), { gunzipSync } = require("node:zlib");
  const read = name => readFileSync(require("node:path").join(__dirname, name));
  return { module: await WebAssembly.compile(read("tperf.wasm")), files: JSON.parse(gunzipSync(read("data.json.gz"))) };
}

module.exports = { ask, askText, TperfError };
