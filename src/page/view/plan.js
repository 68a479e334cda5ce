// Plan: how to train a model on a cluster.
"use strict";

const modelField = lists => ({
  name: "model", label: "Model", kind: "select", options: lists.models, usual: "llama-3.1-70b",
  file: { name: "config.json", as: "the pasted config.json", label: "or paste a Hugging Face config.json" },
});
const systemField = lists => ({
  name: "system", label: "System", kind: "select", options: lists.systems, usual: "h100-sxm",
  file: { name: "system.yaml", as: "the edited system", label: "or edit its numbers",
    prefill: name => engine.files()[`systems/${name}.yaml`] || "" },
});
const softwareField = lists => ({
  name: "software", label: "Software", kind: "select", options: [["", "as tperf assumes"], "none", ...lists.software],
  hint: "the training stack that runs it; none: the formulas alone",
});

const plan = {
  name: "plan", title: "Plan", heading: "How to train a model on a cluster",
  fields: lists => [
    modelField(lists), systemField(lists),
    { name: "gpus", label: "GPUs", kind: "text", mode: "numeric", usual: "1024" },
    { name: "batch", label: "Global batch", kind: "text", mode: "numeric", usual: "1024", hint: "sequences of a step" },
    { name: "tokens", label: "Tokens of the whole run", kind: "text", usual: "2e12", hint: "2e12 is two trillion" },
    { name: "gpu-hour", label: "Dollars a GPU-hour", kind: "text", placeholder: "the system's" },
    { name: "seq", label: "Sequence length", kind: "text", mode: "numeric", placeholder: "the model's" },
    { name: "precision", label: "Precision", kind: "select", hint: "of the layers' products",
      options: [["", "bf16"], "fp16", "fp8-delayed", "fp8-current", "fp8-block", "mxfp8", "nvfp4", "fp8-tensorwise",
        "fp8-rowwise"] },
    softwareField(lists),
    { name: "weights", label: "Weights kept in", kind: "select", options: [["", "bf16"], "fp32", "fp16"], more: true },
    { name: "gradients", label: "Gradients", kind: "select", more: true,
      options: [["", "as the rules say"], "fp32", "bf16", "fp16"] },
    { name: "optimizer", label: "Optimizer", kind: "select", more: true,
      options: [["", "adam"], "adam_8bit", "adafactor", "lion", "muon", "sgd"] },
    { name: "attention", label: "Attention", kind: "select", options: [["", "flash"], "unfused", "recompute"],
      more: true },
    { name: "recompute", label: "Recomputation", kind: "text", placeholder: "none,full", more: true },
    { name: "recompute-modules", label: "Recomputed modules", kind: "text", placeholder: "core_attn", more: true,
      hint: "of selective recomputation: core_attn,layernorm,mlp …" },
    { name: "peft", label: "Adapters", kind: "select", options: [["", "none: all is trained"], "lora", "qlora"],
      more: true },
    { name: "lora-rank", label: "Rank of adapters", kind: "text", mode: "numeric", placeholder: "32", more: true },
    { name: "offload-optimizer", label: "Optimizer in the host's memory", kind: "text", placeholder: "0",
      hint: "a part, 0 to 1", more: true },
    { name: "zero", label: "ZeRO stage", kind: "text", placeholder: "1", more: true },
    { name: "strategy", label: "Strategy", kind: "select", options: [["", "tensor"], ...lists.strategies, "all"],
      more: true },
    { name: "schedule", label: "Pipeline schedule", kind: "text", placeholder: "1f1b,interleaved_1f1b", more: true },
    { name: "tp", label: "Tensor parallelism", kind: "text", placeholder: "any", more: true,
      hint: "8 or 2,4 or 1..16" },
    { name: "pp", label: "Pipeline stages", kind: "text", placeholder: "any", more: true },
    { name: "ep", label: "Expert parallelism", kind: "text", placeholder: "any", more: true },
    { name: "micro-batch", label: "Micro-batch", kind: "text", placeholder: "any", more: true },
    { name: "reserve", label: "Memory to keep free", kind: "text", placeholder: "0", hint: "a part, such as 0.1",
      more: true },
    { name: "rules", label: "Rules", kind: "select", options: [["", "default"], ...lists.rules.slice(1)], more: true },
  ],

  async show(ask, out, width) {
    const answer = await ask({ ask: "plan" });
    if (!answer) return;
    const detail = make("div", { class: "detail", "aria-live": "off" });
    const counted = `${answer.candidates.toLocaleString("en")} candidates, ${answer.feasible.toLocaleString("en")} fit`;
    out.replaceChildren(
      ...(answer.facts ? [makeFacts(answer.facts)] : []),
      make("p", { class: "counted" }, counted),
      ...(answer.reason ? [make("p", { class: "reason" }, sentence(answer.reason))] : []),
      ...(answer.warnings.length ? [make("p", { class: "note" }, answer.warnings.join("; "))] : []),
    );
    if (answer.table.rows.length > 0) {
      const label = answer.feasible > 0 ? "The best configurations" : "What comes closest to fitting";
      out.append(makeTable(answer.table, { label, sort: true, chosen: 0,
        choose: row => {
          engine.clear();
          this.detail(ask, detail, width, row);
        } }));
    }
    out.append(make("p", { class: "actions" }, copyButton("copy as command", answer.command),
      copyButton("copy as Lua script", answer.script)), detail);
    announce(counted);
    if (answer.table.rows.length > 0) await this.detail(ask, detail, width, 0);
  },

  // One configuration: memory, time, timeline, recipe, each shown once it arrives.
  async detail(ask, into, width, row) {
    const mine = this.detailed = {};
    const d = await ask({ ask: "detail", row: row + 1, width: halfOf(width) });
    if (!d || this.detailed !== mine) return;
    const fits = d.used <= 1, chart = make("section"), recipe = make("section");
    into.replaceChildren(
      make("h2", {}, `Configuration ${row + 1}: ${d.name}`),
      make("p", { class: "note" }, `In a fast domain: ${d.placement}.`),
      ...(d.interval ? [make("p", {}, d.interval)] : []),
      make("div", { class: "halves" },
        make("section", {}, make("h3", {}, "Memory of the fullest GPU"),
          make("p", { class: fits ? null : "reason" },
            make("meter", { value: String(Math.min(d.used, 1)), max: "1", high: "0.95", "aria-label": "memory used" }),
            ` ${d.total} of ${d.capacity}`),
          ...(d.reason ? [make("p", { class: "reason" }, sentence(d.reason))] : []),
          partsTable(d.memory, "Memory by part"), figure(d.chart)),
        make("section", {}, make("h3", {}, "Time of an iteration"), partsTable(d.time, "Time by part"),
          figure(d.times))),
      chart, recipe);
    this.recipe(ask, recipe, row, d.stacks);
    await this.timeline(ask, chart, row, () => this.detailed === mine, false);
  },

  // all: draws it even if that takes a moment.
  async timeline(ask, into, row, wanted, all) {
    const t = await ask({ ask: "timeline", row: row + 1, all });
    if (!t || !wanted()) return;
    const heading = make("h3", {}, "Timeline of the pipeline");
    if (!t.html) {
      const draw = make("button", { type: "button", onclick: () => this.timeline(ask, into, row, wanted, true) },
        "draw it");
      return into.replaceChildren(heading, make("p", { class: "note" }, sentence(t.reason)),
        ...(t.waits ? [make("p", { class: "actions" }, draw)] : []));
    }
    const charts = timelines(t.html);
    into.replaceChildren(heading, charts);
    showTimelines(charts);
  },

  recipe(ask, into, row, stacks) {
    const text = make("div"), select = make("select", { id: "plan-stack", onchange: () => show() },
      ...stacks.map(name => make("option", { value: name }, name)));
    const show = async () => {
      const r = await ask({ ask: "launch", row: row + 1, stack: select.value });
      if (!r) return;
      if (r.text === undefined) text.replaceChildren(make("p", { class: "note" }, sentence(r.reason)));
      else text.replaceChildren(codeBlock(r.text, "launch recipe"), copyButton("copy recipe", r.text));
    };
    if (stacks.includes("megatron")) select.value = "megatron";
    into.replaceChildren(make("h3", {}, "Launch recipe"),
      make("p", {}, make("label", { for: "plan-stack" }, "for "), select), text);
    show();
  },
};

// The width of one of `.halves` within a width.
const halfOf = width => Math.floor(width >= 870 ? Math.min((width - 32) / 2, 760) : width);

// A message as a sentence; names of files and options keep their case.
const sentence = text => (/^[a-z]+[ ,]/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text)
  + (/[.!?]$/.test(text) ? "" : ".");
