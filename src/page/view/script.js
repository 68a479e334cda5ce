// Script: an editor with the shipped scripts, run as `tperf run` does, in its sandbox; or, of a script that returns a
// model, a command that asks about it.
"use strict";

const MOST_PRINTED = 1 << 20; // characters: a page with more does not respond

const script = {
  name: "script", title: "Script", heading: "A script in its sandbox",
  fields: lists => [
    { name: "script", label: "Script", kind: "select", options: Object.keys(engine.files() || {})
      .filter(name => name.startsWith("scripts/")).map(name => name.slice(8)), usual: "best_configuration.lua" },
    { name: "command", label: "Command", kind: "select",
      options: [["", "run"], ...lists.commands.map(name => [name, `${name} the model that it returns`])] },
    { name: "arguments", label: "Arguments", kind: "text", placeholder: "none",
      hint: "--help tells what a script or a command takes; -s h100-sxm -g 64 -b 512" },
  ],
  file: "script.lua",
  manual: true, // runs only on request

  open(form, out, changed) {
    const select = form.element.querySelector("select"), name = () => select.value;
    const area = make("textarea", { id: "script-text", class: "editor", rows: "24", spellcheck: "false",
      autocapitalize: "off", wrap: "off", "aria-describedby": "script-keys" });
    const load = () => { area.value = form.texts["script.lua"] ?? engine.files()["scripts/" + name()] ?? ""; };
    area.addEventListener("input", () => {
      if (area.value === engine.files()["scripts/" + name()]) delete form.texts["script.lua"];
      else form.texts["script.lua"] = area.value;
      changed();
    });
    area.addEventListener("keydown", event => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.run(); }
    });
    select.addEventListener("change", () => { delete form.texts["script.lua"]; load(); });
    load();
    const result = make("div");
    const go = make("button", { type: "button", class: "main", onclick: () => this.run() }, "Run");
    const stop = make("button", { type: "button", disabled: true, onclick: () => this.job && this.job.stop() }, "Stop");
    out.replaceChildren(
      make("label", { for: "script-text" }, "Text"), area,
      make("p", { class: "actions" }, go, stop, copyButton("copy", () => area.value),
        make("small", { id: "script-keys" }, "Ctrl + Enter runs it; Tab leaves the text")),
      result);
    this.form = form;
    Object.assign(this, { area, result, go, stop });
  },

  async run() {
    if (this.job) this.job.stop();
    const { area, result, go, stop } = this, { script: chosen, command } = this.form.values();
    const name = this.form.texts["script.lua"] === undefined && engine.files()["scripts/" + chosen] !== undefined
      ? chosen : "script.lua";
    const printed = make("pre", { tabindex: "0", role: "region", "aria-label": "what the script prints" });
    const words = (this.form.values().arguments || "").split(/\s+/).filter(word => word !== "");
    result.replaceChildren(make("h2", {}, "Printed"), printed);
    stop.disabled = false;
    go.textContent = "Run again";
    const texts = { [name]: area.value };
    let room = MOST_PRINTED;
    const line = command ? [command, name, ...words] : ["run", "--out", "out", name, ...words];
    const job = this.job = engine.run(line, texts, (kind, text) => {
      if (room <= 0) return;
      room -= text.length;
      printed.append(kind === "err" ? make("span", { class: "err" }, text) : text);
      if (room > 0) return;
      printed.append(make("span", { class: "err" }, `more than ${MOST_PRINTED >> 20} MiB were printed\n`));
      job.stop();
    });
    try {
      const { status, files } = await job.done;
      if (this.job !== job) return;
      if (status === null) printed.append(make("span", { class: "err" }, "stopped\n"));
      else if (printed.textContent === "") printed.append("(nothing)\n");
      this.written(result, files);
      announce(status === 0 ? "the script is done" : "the script failed");
    } catch (problem) {
      printed.append(make("span", { class: "err" }, String(problem.message)));
    }
    this.job = null;
    stop.disabled = true;
  },

  // A picture as an image, in which nothing runs, loads or leads elsewhere: a script may be anybody's.
  picture: (bytes, name) => make("img", { alt: name,
    src: "data:image/svg+xml," + encodeURIComponent(new TextDecoder().decode(bytes)) }),

  // Shows pictures, and offers the other files for download.
  written(result, files) {
    const links = make("ul");
    for (const name of Object.keys(files).sort()) {
      if (name === "manifest.json" || name === "stdout.txt") continue;
      if (name.endsWith(".svg")) {
        result.append(make("figure", {}, make("figcaption", {}, name), this.picture(files[name], name)));
      }
      const href = URL.createObjectURL(new Blob([files[name]], { type: "application/octet-stream" })); // never opened
      links.append(make("li", {}, make("a", { download: name.replaceAll("/", "-"), href }, name),
        ` ${files[name].length} bytes`));
    }
    if (links.children.length) result.append(make("h2", {}, "Written"), links);
  },
};
