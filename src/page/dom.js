// Small helpers: elements, sortable tables, copy buttons, charts with tooltips.
"use strict";

// make("p", { class: "x", onclick: f }, "text", element …)
function make(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const key in attributes) {
    const value = attributes[key];
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (value === true) e.setAttribute(key, "");
    else if (value !== false && value !== undefined && value !== null) e.setAttribute(key, value);
  }
  e.append(...children.filter(child => child !== null && child !== undefined));
  return e;
}

const announce = text => { document.getElementById("said").textContent = text; };

// Shows what a heading means: while the pointer is over it, while it has the focus, and after a tap.
function explain(heading, named, text) {
  const tip = document.getElementById("title-tip");
  const show = event => {
    const box = heading.getBoundingClientRect();
    placeTip(tip, text, event.clientX || box.left, event.clientY || box.top);
  };
  const hide = () => { tip.hidden = true; };
  named.setAttribute("aria-description", text);
  heading.classList.add("explained");
  for (const event of ["pointerenter", "click", "focusin"]) heading.addEventListener(event, show);
  for (const event of ["pointerleave", "focusout"]) heading.addEventListener(event, hide);
}

// A table { columns, rows } from lua/tperf/page/grid.lua. options: label; sort: headings sort; chosen and
// choose(index): rows are selectable.
function makeTable(data, options = {}) {
  const head = make("tr"), body = make("tbody");
  const order = data.rows.map((_, index) => index);
  let by = null, up = true;
  if (options.choose) head.append(make("td", {}, make("span", { class: "hidden" }, "choose")));
  const titles = data.columns.map((column, c) => {
    const th = make("th", { scope: "col", class: column.align === "right" ? "n" : null });
    if (!options.sort) th.textContent = column.title;
    else th.append(make("button", { type: "button", class: "sort", onclick: () => sort(c) }, column.title));
    if (column.help) explain(th, th.firstElementChild || th, column.help);
    head.append(th);
    return th;
  });
  function sort(c) {
    up = by === c ? !up : true;
    by = c;
    order.sort((a, b) => {
      const x = data.rows[a].sort[c], y = data.rows[b].sort[c];
      if (x === y) return a - b;
      if (x === null || y === null) return x === null ? 1 : -1;
      const less = typeof x === "number" && typeof y === "number" ? x < y : String(x) < String(y);
      return less === up ? -1 : 1;
    });
    titles.forEach((th, i) => {
      if (i === c) th.setAttribute("aria-sort", up ? "ascending" : "descending");
      else th.removeAttribute("aria-sort");
    });
    fill();
  }
  const group = "row" + makeTable.count++;
  let chosen = options.chosen;
  function row(index) {
    const tr = make("tr", { class: index === chosen ? "chosen" : null });
    if (options.choose) {
      const radio = make("input", { type: "radio", name: group, "aria-label": `configuration ${index + 1}`,
        onchange: () => {
          chosen = index;
          for (const other of body.children) other.classList.toggle("chosen", other === tr);
          options.choose(index);
        } });
      radio.checked = index === chosen;
      tr.append(make("td", {}, radio));
      tr.addEventListener("click", event => { if (event.target !== radio) radio.click(); });
    }
    data.rows[index].cells.forEach((cell, c) =>
      tr.append(make("td", { class: data.columns[c].align === "right" ? "n" : null }, cell)));
    return tr;
  }
  const fill = () => body.replaceChildren(...order.map(row));
  fill();
  const table = make("table", {}, make("caption", { class: options.caption ? null : "hidden" },
    options.caption || options.label), make("thead", {}, head), body);
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": options.label }, table);
}
makeTable.count = 0;

// What people look for first: { what, figure, note } each, as a list of definitions.
const makeFacts = facts => make("dl", { class: "facts" }, ...facts.map(([what, figure, note]) =>
  make("div", {}, make("dt", {}, what), make("dd", {}, make("strong", {}, figure),
    ...(note ? [make("small", {}, note)] : [])))));

// The same with row headings: part, amount, share.
const partsTable = (data, label) => makeTable(data, { label });

function copyButton(label, text) {
  const button = make("button", { type: "button", onclick: async () => {
    const what = typeof text === "function" ? text() : text;
    try {
      await navigator.clipboard.writeText(what);
    } catch { // no permission, or no clipboard in this context
      const area = make("textarea", { class: "hidden" });
      area.value = what;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    button.textContent = "copied";
    announce("copied");
    setTimeout(() => { button.textContent = label; }, 1200);
  } }, label);
  return button;
}

// A figure of an SVG from tperf.plot; its titles become instant tooltips.
function figure(svg) {
  const e = make("figure");
  e.innerHTML = svg;
  return e;
}

// The charts from lua/tperf/timeline/picture/view.lua.
function timelines(html) {
  const root = make("div", { class: "timelines" });
  root.innerHTML = html;
  return root;
}

const codeBlock = (text, label) =>
  make("pre", { tabindex: "0", role: "region", "aria-label": label }, text);

// Debounces f: calls it after ms without a further call.
function later(f, ms) {
  let timer;
  return (...args) => { clearTimeout(timer); timer = setTimeout(() => f(...args), ms); };
}
