// Forms: fields declared as data; their values are texts under the names of the command's options.
//   { name, label, kind: "select" | "text" | "checks" | "range", options, usual, hint, more, file }
// options: values or [value, label]; usual: the default, which the address omits; more: shown among the further
// options; file: { name, label, prefill(value) }: a text that can replace the choice.
"use strict";

function makeField(view, field, value, texts, changed) {
  const id = `${view}-${field.name}`, hint = field.hint ? make("small", { id: id + "-hint" }, field.hint) : null;
  const described = hint ? id + "-hint" : null;
  const optionsOf = () => field.options.map(o => Array.isArray(o) ? o : [o, o]);
  let control, read, write;
  if (field.kind === "checks") {
    const own = optionsOf(), others = value.split(",").filter(name => name && !own.some(([key]) => key === name));
    const boxes = [...own, ...others.map(name => [name, name])].map(([key, label]) => {
      const box = make("input", { type: "checkbox", value: key, onchange: changed });
      return { box, label: make("label", { class: "check" }, box, label) };
    });
    control = make("fieldset", { id, "aria-describedby": described }, make("legend", {}, field.label),
      make("div", { class: "checks", tabindex: "0", role: "group", "aria-label": field.label },
        ...boxes.map(b => b.label)), hint);
    read = () => boxes.filter(b => b.box.checked).map(b => b.box.value).join(",");
    write = text => { const on = text.split(","); for (const { box } of boxes) box.checked = on.includes(box.value); };
    write(value);
    return { field, element: control, read, write, control };
  }
  if (field.kind === "select") {
    control = make("select", { id, "aria-describedby": described, onchange: changed },
      ...optionsOf().map(([key, label]) => make("option", { value: key }, label)));
    if (field.file) control.append(make("option", { value: field.file.name, hidden: true }, field.file.as));
    read = () => control.value;
    write = text => {
      if (![...control.options].some(o => o.value === text)) control.append(make("option", { value: text }, text));
      control.value = text;
    };
  } else if (field.kind === "range") {
    const list = optionsOf(), shown = make("output", { for: id });
    control = make("input", { type: "range", id, min: "0", max: String(list.length - 1), step: "1",
      "aria-describedby": described, oninput: () => { show(); changed(); } });
    const show = () => {
      const label = list[Number(control.value)][1];
      shown.textContent = label;
      control.setAttribute("aria-valuetext", label);
    };
    read = () => list[Number(control.value)][0];
    write = text => {
      const at = list.findIndex(([key]) => key === text);
      if (at < 0 && text !== "") list.push([text, text]);
      control.max = String(list.length - 1);
      control.value = String(at < 0 ? list.length - 1 : at);
      show();
    };
    write(value);
    const label = make("label", { for: id }, field.label, " ", shown);
    return { field, element: make("div", { class: "field" }, label, control, hint), read, write, control };
  } else {
    control = make("input", { type: "text", id, autocomplete: "off", spellcheck: "false", inputmode: field.mode || null,
      "aria-describedby": described, placeholder: field.placeholder || null, oninput: changed });
    read = () => control.value.trim();
    write = text => { control.value = text; };
  }
  const parts = [make("label", { for: id }, field.label), control, hint];
  if (field.file) parts.push(makeFile(id, field.file, control, texts, changed));
  write(value);
  return { field, element: make("div", { class: "field" }, ...parts), read, write, control };
}

// The text that can replace a choice, below it.
function makeFile(id, file, select, texts, changed) {
  const option = [...select.options].find(o => o.value === file.name);
  let before = select.options[0].value;
  const area = make("textarea", { id: id + "-file", rows: "8", spellcheck: "false", oninput: () => take(area.value) });
  function take(text) {
    option.hidden = text === "";
    if (text !== "") {
      texts[file.name] = text;
      select.value = file.name;
    } else {
      delete texts[file.name];
      if (select.value === file.name) select.value = before;
    }
    changed();
  }
  area.value = texts[file.name] || "";
  option.hidden = area.value === "";
  select.addEventListener("change", () => { if (select.value !== file.name) before = select.value; });
  const details = make("details", { class: "file" }, make("summary", {}, file.label),
    make("label", { for: id + "-file", class: "hidden" }, file.label), area,
    make("button", { type: "button", onclick: () => { area.value = ""; take(""); } }, "clear"));
  details.open = area.value !== "";
  details.addEventListener("toggle", () => {
    if (details.open && area.value === "" && file.prefill) area.value = file.prefill(select.value);
  });
  return details;
}

// { element, values(), texts, show(message) }: a form of fields; changed() is called on every change.
function makeForm(view, fields, values, texts, changed) {
  const known = new Set(fields.map(field => field.name));
  const others = Object.keys(values).filter(name => !known.has(name)); // options from a link that have no field
  fields = [...fields, ...others.map(name => ({ name, label: "--" + name, kind: "text", more: true }))];
  const made = fields.map(field =>
    makeField(view, field, values[field.name] ?? field.usual ?? "", texts, () => changed()));
  const first = made.filter(m => !m.field.more), more = made.filter(m => m.field.more);
  const details = more.length > 0 && make("details", { class: "more" }, make("summary", {}, "More options"),
    make("div", {}, ...more.map(m => m.element)));
  if (details && more.some(m => m.read() !== (m.field.usual ?? ""))) details.open = true;
  const form = make("form", { "aria-label": "the question", onsubmit: event => event.preventDefault() },
    ...first.map(m => m.element), ...(details ? [details] : []));
  return {
    element: form, texts,
    // The values to ask the engine with.
    values() {
      const all = {};
      for (const m of made) if (m.read() !== "") all[m.field.name] = m.read();
      return all;
    },
    // The values for the address: those that differ from the defaults.
    differences() {
      const all = {};
      for (const m of made) {
        const value = m.read();
        if (value !== (m.field.usual ?? "")) all[m.field.name] = value;
      }
      return all;
    },
    // A message with the labels of fields in place of the options that it names.
    worded(message) {
      return message.replace(/--([\w-]+)/g, (option, name) => {
        const field = fields.find(f => f.name === name);
        return field && !field.label.startsWith("--") ? `“${field.label.replace(/:$/, "")}”` : option;
      });
    },
    // Marks the field that a message names, if any.
    mark(message) {
      const named = message && message.match(/--([\w-]+)/);
      for (const m of made) {
        const wrong = Boolean(named) && m.field.name === named[1];
        if (wrong) m.control.setAttribute("aria-invalid", "true");
        else m.control.removeAttribute("aria-invalid");
        if (wrong && m.field.more) details.open = true;
      }
    },
  };
}
