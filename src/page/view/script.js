// Script: an editor with the shipped scripts, run as `tperf run` does, in its sandbox.
"use strict";

const script = {
  name: "script", title: "Script", heading: "A script in its sandbox",
  fields: () => [
    { name: "script", label: "Script", kind: "select", options: Object.keys(engine.files() || {})
      .filter(name => name.startsWith("scripts/")).map(name => name.slice(8)), usual: "best_configuration.lua" },
    { name: "arguments", label: "Arguments", kind: "text", placeholder: "none",
      hint: "--help tells what a script takes" },
  ],
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
    const { area, result, go, stop } = this, name = this.form.texts["script.lua"] === undefined
      ? this.form.values().script : "script.lua";
    const printed = make("pre", { tabindex: "0", role: "region", "aria-label": "what the script prints" });
    const words = (this.form.values().arguments || "").split(/\s+/).filter(word => word !== "");
    result.replaceChildren(make("h2", {}, "Printed"), printed);
    stop.disabled = false;
    go.textContent = "Run again";
    const texts = { [name]: area.value };
    const job = this.job = engine.run(["run", "--out", "out", name, ...words], texts,
      (kind, text) => printed.append(kind === "err" ? make("span", { class: "err" }, text) : text));
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

  // An SVG inline, with the page's colours and tooltips; as an image if it has its own styles, which would leak into
  // the page.
  picture(bytes, name) {
    const text = new TextDecoder().decode(bytes);
    if (/<style|\sstyle\s*=/.test(text))
      return make("img", { alt: name, src: "data:image/svg+xml," + encodeURIComponent(text) });
    const svg = new DOMParser().parseFromString(text, "image/svg+xml");
    for (const e of svg.querySelectorAll("script, foreignObject")) e.remove();
    return document.importNode(svg.documentElement, true);
  },

  // Shows pictures, and offers the other files for download.
  written(result, files) {
    const links = make("ul");
    for (const name of Object.keys(files).sort()) {
      if (name === "manifest.json" || name === "stdout.txt") continue;
      const type = name.endsWith(".svg") ? "image/svg+xml" : name.endsWith(".html") ? "text/html" : "text/plain";
      if (name.endsWith(".svg")) {
        result.append(make("figure", {}, make("figcaption", {}, name), this.picture(files[name], name)));
      }
      links.append(make("li", {}, make("a", { download: name.replaceAll("/", "-"),
        href: URL.createObjectURL(new Blob([files[name]], { type })) }, name), ` ${files[name].length} bytes`));
    }
    if (links.children.length) result.append(make("h2", {}, "Written"), links);
  },
};
