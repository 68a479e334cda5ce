// Serve: requests through an engine.
"use strict";

const RATES = ["0.5", "1", "2", "3", "4", "6", "8", "10", "12", "16", "20", "24", "32", "40", "50", "64", "80", "100",
  "150", "200"];

const serve = {
  name: "serve", title: "Serve", heading: "Requests through a serving engine",
  fields: lists => [
    { ...modelField(lists), usual: "llama-3.1-8b" }, systemField(lists),
    { name: "rate", label: "Load:", kind: "range", options: RATES.map(r => [r, r + " requests/s"]), usual: "10" },
    { name: "prompt", label: "Tokens of a prompt", kind: "text", usual: "100..2000",
      hint: "512, 100..2000, mean=500 or mean=500,cv=1" },
    { name: "output", label: "Tokens of an answer", kind: "text", usual: "mean=200" },
    { name: "software", label: "Engine", kind: "select", options: [["", "vLLM, the newest"], ...lists.engines] },
    { name: "replicas", label: "Fleet: engines behind a router", kind: "text", mode: "numeric", placeholder: "1" },
    { name: "context", label: "Context of a user", kind: "text", mode: "numeric", usual: "4096",
      hint: "tokens: how many users have room at once" },
    { name: "tp", label: "Tensor parallelism", kind: "text", mode: "numeric", placeholder: "1" },
    { name: "latency", label: "Curve of", kind: "select", usual: "ttft",
      options: [["ttft", "time to the first token"], ["tpot", "time per token"], ["e2e", "time of a request"]] },
    { name: "count", label: "Requests", kind: "text", mode: "numeric", usual: "400" },
    { name: "router", label: "Router", kind: "select", options: [["", "round_robin"], "least_loaded", "prefix"],
      more: true },
    { name: "slo", label: "Limits", kind: "text", placeholder: "ttft=500ms,tpot=30ms", more: true },
    { name: "weight-dtype", label: "Weights stored as", kind: "select", options: [["", "bf16"], "fp8"], more: true },
    { name: "kv-dtype", label: "Cache stored as", kind: "select", options: [["", "bf16"], "fp8"], more: true },
    { name: "max-num-seqs", label: "max_num_seqs", kind: "text", mode: "numeric", placeholder: "1024", more: true },
    { name: "max-num-batched-tokens", label: "max_num_batched_tokens", kind: "text", mode: "numeric",
      placeholder: "8192", more: true },
    { name: "seed", label: "Seed", kind: "text", mode: "numeric", more: true },
  ],

  async show(ask, out, width) {
    const { latency, context } = ask.values, own = { latency: undefined, context: undefined };
    const r = await ask({ ask: "serve", context }, own);
    if (!r) return;
    const curve = make("div");
    out.replaceChildren(
      makeFacts(r.facts),
      ...(r.saturated ? [make("p", { class: "reason" }, `Saturated: more requests come than the ${
        r.served.toPrecision(4)} a second that are served; waits grow as long as the load lasts.`)] : []),
      ...r.warnings.map((text) => make("p", { class: "reason" }, text)),
      make("div", { class: "side" },
        make("section", {}, makeTable(r.latencies, { label: "Latencies" })),
        make("section", {}, makeTable(r.details, { label: "Throughput and the engine" }))),
      curve,
      make("p", { class: "actions" }, copyButton("copy as command", r.command),
        copyButton("copy as Lua script", r.script)));
    announce("served");
    const c = await ask({ ask: "load", latency, width: Math.min(width, 1000) }, own);
    if (c && c.chart) curve.replaceChildren(figure(c.chart));
  },
};
