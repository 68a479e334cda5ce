// Schedules: pipeline schedules side by side, with custom times.
"use strict";

const PASSES = [["f", "Time of a forward"], ["b", "of a backward"], ["d", "of its input half"],
  ["w", "of its weight half"], ["o", "of a pair that overlaps"]];

const schedules = {
  name: "schedules", title: "Schedules", heading: "Pipeline schedules side by side",
  fields: lists => [
    { name: "names", label: "Schedules", kind: "checks", options: lists.schedules, usual: "1f1b,interleaved_1f1b,zbv" },
    { name: "devices", label: "Devices", kind: "text", mode: "numeric", usual: "4" },
    { name: "microbatches", label: "Micro-batches", kind: "text", mode: "numeric", usual: "8" },
    { name: "per", label: "Times are of", kind: "select", usual: "",
      options: [["", "each device"], ["stage", "each stage"]],
      hint: "stages of a device share its time; of each stage also 0.8:1.2:1:1" },
    ...PASSES.map(([key, label], i) => ({ name: key, label, kind: "text", placeholder: ["1", "2", "half of it",
      "half of it", "the sum"][i] })),
    { name: "p2p", label: "of a message to the next stage", kind: "text", placeholder: "0" },
    { name: "stages", label: "Stages", kind: "text", mode: "numeric", placeholder: "as the schedule has", more: true },
    { name: "group-size", label: "Micro-batches of a group", kind: "text", mode: "numeric", more: true,
      hint: "of schedules that interleave" },
    { name: "memory-limit", label: "Memory limit", kind: "text", placeholder: "none", more: true,
      hint: "in micro-batches of a device's activations" },
    { name: "rules", label: "Rules", kind: "select", options: [["", "default"], "pp-visualization", "zero-bubble"],
      more: true },
  ],

  async show(ask, out) {
    const v = ask.values, times = PASSES.map(([key]) => key).filter(key => v[key]).map(key => `${key}=${v[key]}`);
    const asked = { per: undefined, [v.per === "stage" ? "times-per-stage" : "times"]: times.join(",") || undefined };
    for (const [key] of PASSES) asked[key] = undefined;
    const answer = await ask({ ask: "schedules" }, asked);
    if (!answer) return;
    const charts = timelines(answer.html);
    out.replaceChildren(...answer.refused.map(text => make("p", { class: "note" }, sentence(text))),
      charts, make("p", { class: "actions" }, copyButton("copy as command", answer.command)));
    showTimelines(charts);
    announce(`${answer.count} schedules drawn`);
  },
};
