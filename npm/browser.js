// How a browser finds the module and the data: beside this file.
async function tperfLoad() {
  const fetched = name => fetch(new URL(name, import.meta.url));
  const data = (await fetched("data.json.gz")).body.pipeThrough(new DecompressionStream("gzip"));
  const bytes = await (await fetched("tperf.wasm")).arrayBuffer();
  return { module: await WebAssembly.compile(bytes), files: await new Response(data).json() };
}

export { ask, askText, TperfError };
