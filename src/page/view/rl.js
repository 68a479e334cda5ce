// Reinforcement learning: the time of a step.
"use strict";

const rl = {
  name: "rl", title: "RL", heading: "A step of reinforcement learning",
  fields: lists => [
    { ...modelField(lists), usual: "qwen2.5-7b" }, systemField(lists),
    { name: "gpus", label: "GPUs", kind: "text", mode: "numeric", usual: "8" },
    { name: "prompts", label: "Prompts of a step", kind: "text", mode: "numeric", usual: "64" },
    { name: "samples", label: "Responses to each prompt", kind: "text", mode: "numeric", usual: "8" },
    { name: "prompt", label: "Tokens of a prompt", kind: "text", mode: "numeric", usual: "256" },
    { name: "response", label: "Tokens of a response", kind: "text", usual: "mean=1000,max=4096",
      hint: "mean=1000,max=4096, or one length" },
    { name: "train-tp", label: "Training: tensor parallelism", kind: "text", mode: "numeric", usual: "2" },
    { name: "train-pp", label: "Training: pipeline stages", kind: "text", mode: "numeric", placeholder: "1" },
    { name: "rollout-tp", label: "Rollout: tensor parallelism", kind: "text", mode: "numeric", usual: "2" },
    { name: "train-gpus", label: "GPUs of training alone", kind: "text", mode: "numeric", placeholder: "all share",
      hint: "the others generate meanwhile", more: true },
    { name: "staleness", label: "Staleness", kind: "text", mode: "numeric", placeholder: "0",
      hint: "updates between generating and training", more: true },
  ],

  async show(ask, out) {
    const a = await ask({ ask: "rl" });
    if (!a) return;
    out.replaceChildren(makeFacts(a.facts), ...a.warnings.map(text => make("p", { class: "note" }, sentence(text))),
      make("div", { class: "side" },
        make("section", {}, make("h2", {}, "Where the time goes"), makeTable(a.phases, { label: "Phases of a step" })),
        make("section", {}, make("h2", {}, "Memory of a GPU"), makeTable(a.memory, { label: "Memory by phase" }))),
      make("p", { class: "actions" }, copyButton("copy as command", a.command),
        copyButton("copy as Lua script", a.script)));
    announce("a step of reinforcement learning");
  },
};
