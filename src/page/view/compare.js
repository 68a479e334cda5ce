// Compare: systems side by side, for training or for serving.
"use strict";

const compare = {
  name: "compare", title: "Compare", heading: "Systems beside each other",
  fields: lists => [
    { name: "for", label: "For", kind: "select", options: [["training", "training"], ["serving", "serving"]],
      usual: "training" },
    modelField(lists),
    { name: "systems", label: "Systems", kind: "checks", options: lists.systems,
      usual: "h100-sxm,b200-sxm,gb200-nvl72" },
    { name: "gpus", label: "GPUs", kind: "text", usual: "64..1024", hint: "64..1024 doubles; for serving one number" },
    { name: "domain", label: "Fast domain:", kind: "range", usual: "", hint: "GPUs behind one switch, such as NVLink's",
      options: [["", "each system's own"], ...["4", "8", "16", "32", "64", "72", "128", "144", "256", "576"]
        .map(n => [n, n + " GPUs"])] },
    { name: "hbm", label: "Memory of a GPU:", kind: "range", usual: "",
      options: [["0.5", "half"], ["0.75", "three quarters"], ["", "each system's own"], ["1.25", "1.25 ×"],
        ["1.5", "1.5 ×"], ["2", "2 ×"], ["3", "3 ×"], ["4", "4 ×"]] },
    { name: "show", label: "Show", kind: "select", usual: "tokens/s/GPU", only: "training",
      options: [["tokens/s/GPU", "tokens/s per GPU"], "tokens/s", ["time", "time of an iteration"], ["mfu", "MFU"]] },
    { name: "batch", label: "Global batch", kind: "text", mode: "numeric", usual: "1024", only: "training" },
    { name: "seq", label: "Sequence length", kind: "text", mode: "numeric", placeholder: "the model's",
      only: "training" },
    { ...softwareField(lists), only: "training" },
    { name: "prompt", label: "Tokens of a prompt", kind: "text", mode: "numeric", usual: "2048", only: "serving" },
    { name: "generate", label: "Tokens of an answer", kind: "text", mode: "numeric", usual: "512", only: "serving" },
    { name: "weight-dtype", label: "Weights stored as", kind: "select", options: [["", "bf16"], "fp8", "int8", "int4"],
      only: "serving" },
    { name: "kv-dtype", label: "Cache stored as", kind: "select", options: [["", "bf16"], "fp8"], only: "serving" },
  ],

  // Fields of the other kind are neither asked nor shown.
  relevant: (field, values) => !field.only || field.only === (values.for || "training"),

  async show(ask, out, width) {
    const serving = (ask.values.for || "training") === "serving";
    const answer = await ask({ ask: serving ? "front" : "compare", width: Math.min(width, 1000) },
      { for: undefined, gpus: serving && /\D/.test(ask.values.gpus) ? "8" : ask.values.gpus });
    if (!answer) return;
    out.replaceChildren(
      ...(answer.chart ? [figure(answer.chart)] : []),
      ...(answer.table.rows.length ? [makeTable(answer.table, { sort: true,
        label: serving ? "The points of the fronts" : "The best of every system and size" })] : []),
      ...(answer.missing.length ? [make("h2", {}, "What is missing"),
        make("ul", {}, ...answer.missing.map(text => make("li", { class: "note" }, text + ".")))] : []),
      make("p", { class: "actions" }, copyButton("copy as Lua script", answer.script)));
    announce(`${answer.table.rows.length} rows`);
  },
};
