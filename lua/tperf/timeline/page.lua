--- The fixed parts of timeline:html(): style, controls and script.
local hover = require "tperf.report.hover"
local palette = require "tperf.timeline.palette"
local sheet = require "tperf.report.sheet"

local page = {}

--- The rules of the charts and of the table beside them.
page.charts = [[
:root { --row: #f0f2f4; --held: #c9d3de; --edge: #41566b; }
@media (prefers-color-scheme: dark) { :root { --row: #20252b; --held: #3a4653; --edge: #9fb2c6; } }
.best th, .best td { font-weight: 600; }
.controls { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; margin: 1rem 0 0; color: var(--soft);
  position: sticky; top: 0; background: var(--paper); padding: .4rem 0; z-index: 1; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; margin: .25rem 0 .5rem; color: var(--soft);
  font-size: .85rem; }
.legend svg { vertical-align: -1px; }
.chart { display: block; width: 100%; touch-action: pan-y; cursor: grab; user-select: none; outline-offset: 3px; }
.chart.drag { cursor: grabbing; }
.chart text { font-size: 12px; fill: var(--ink); pointer-events: none; } .chart text.soft { fill: var(--soft); }
.chart text.small { font-size: 10px; } .chart .mid { text-anchor: middle; } .chart .right { text-anchor: end; }
.chart .row { fill: var(--row); } .chart .grid { stroke: var(--line); }
.chart .p { stroke: var(--paper); stroke-width: .6; } .chart .held { fill: var(--held); stroke: var(--edge); }
.chart .same { stroke: #d4145a; stroke-width: 2; } .chart .here { stroke: #d4145a; stroke-width: 3.5; }
#status { position: absolute; left: -9999px; }
@media print { .controls { display: none; } }
]] .. palette.css()

--- The rules of a whole page of them.
page.style = sheet.base .. [[
body { font-size: 15px; line-height: 1.5; }
main { max-width: 100rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.5rem; margin: 0 0 1rem; } h2 { font-size: 1.1rem; margin: 1.5rem 0 .25rem; }
]] .. hover.style .. page.charts

page.controls = [[
<p class="controls"><button type="button" id="in" aria-label="zoom in">+</button>
<button type="button" id="out" aria-label="zoom out">−</button>
<button type="button" id="all">show all</button>
<span>drag to move, Ctrl + wheel to zoom; with the keyboard: + − 0, Shift + ← →, arrows go from pass to pass</span></p>
]]

-- All charts share the window [from, to]. A chart is drawn anew whenever it changes; passes outside are left out. Of
-- passes narrower than a pixel those are drawn, a pixel wide, that lie over the edge of one: a fair sample.
-- showTimelines(root) does it for the markup of tperf/timeline/view.lua in a document or in a part of one.
page.script = hover.script .. [==[
const showTimelines = root => {
const part = id => root.querySelector("#" + id);
const NS = "http://www.w3.org/2000/svg", LEFT = 76, GAP = 4, HELD = 26, STEP = 7;
const LETTER = ["F", "B", "D", "W"], NAME = ["forward", "backward", "input backward", "weight backward"];
const data = JSON.parse(part("data").textContent);
const RIGHT = Math.max(...data.map(t => t.right));
const whole = Math.max(...data.map(t => t.makespan));
let from = 0, to = whole, selected = null;
const tip = part("tip"), say = part("status");
const charts = data.map((t, i) =>
  ({ t, svg: part("chart" + (i + 1)), row: t.devices > 16 ? 18 : 30 }));

const make = (parent, name, attributes, text) => {
  const e = document.createElementNS(NS, name);
  for (const key in attributes) e.setAttribute(key, attributes[key]);
  if (text !== undefined) e.textContent = text;
  parent.appendChild(e);
  return e;
};
const show = x => String(Number(x.toPrecision(6)));
const pass = (c, d, i) => {
  const p = c.t.passes[d], k = i * STEP;
  return { d, i, kind: p[k], shade: p[k + 1], stage: p[k + 2], mb: p[k + 3],
    start: p[k + 4], stop: p[k + 5], half: p[k + 6], unit: c.t.unit };
};
const describe = o => `device ${o.d + 1}: ${NAME[o.kind]} of micro-batch ${o.mb}, stage ${o.stage}` +
  `${o.half ? ", overlapped" : ""}\n${show(o.start)} to ${show(o.stop)}, takes ${show(o.stop - o.start)}${o.unit}`;
// The first pass of a device that stops after a time: its list is sorted.
const first = (p, time) => {
  let low = 0, high = p.length / STEP;
  while (low < high) { const m = (low + high) >> 1; if (p[m * STEP + 5] > time) high = m; else low = m + 1; }
  return low;
};
const ticks = count => {
  const raw = (to - from) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find(m => m * power >= raw * 0.999) * power, list = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++) list.push(i * step);
  return list;
};

function drawDevice(c, g, d, x) {
  const y = c.top + d * (c.row + GAP), p = c.t.passes[d], count = p.length / STEP;
  for (let i = first(p, from); i < count && p[i * STEP + 4] < to; i++) {
    const o = pass(c, d, i);
    const left = Math.max(x(o.start), LEFT), right = Math.min(x(o.stop), c.width - RIGHT);
    if (right - left < 1 && Math.floor(right) === Math.floor(left)) continue;
    const h = o.half ? c.row / 2 : c.row, top = o.half === 2 ? y + h : y, name = LETTER[o.kind] + o.shade;
    make(g, "rect", { class: `pass ${right - left > 3 ? "p " : ""}${name}`, "data-d": d, "data-i": i, "data-m": o.mb,
      x: left, y: top, width: Math.max(right - left, 1), height: h });
    const label = String(o.mb), size = h < 20 ? 10 : 12;
    if (right - left >= label.length * size * 0.6 + 3 && h > size)
      make(g, "text", { class: `mid t${name}${size === 10 ? " small" : ""}`, x: (left + right) / 2,
        y: top + h / 2 + size * 0.36 }, label);
  }
}

// Outlines the selected pass, and its micro-batch wherever it goes.
function mark(c) {
  for (const e of c.svg.querySelectorAll(".same")) e.classList.remove("same", "here");
  if (!selected || selected.c !== c) return;
  for (const e of c.svg.querySelectorAll(`[data-m="${selected.mb}"]`)) {
    e.classList.add("same");
    if (Number(e.dataset.d) === selected.d && Number(e.dataset.i) === selected.i) e.classList.add("here");
  }
}

function drawMemory(c, d, x, y, scale) {
  const m = c.t.memory[d], base = y + HELD - GAP, clamp = t => Math.min(Math.max(x(t), LEFT), c.width - RIGHT);
  const points = [[LEFT, base]];
  let level = 0;
  const at = (t, v) => points.push([clamp(t), base - v / scale * (HELD - GAP)]);
  for (let i = 0; i < m.length; i += 2) {
    at(m[i], level);
    level = m[i + 1];
    at(m[i], level);
  }
  at(whole, level);
  points.push([c.width - RIGHT, base]);
  make(c.svg, "polygon", { class: "held", points: points.map(q => q[0].toFixed(2) + "," + q[1].toFixed(2)).join(" ") });
  make(c.svg, "text", { class: "right soft", x: LEFT - 8, y: base - 4 }, "Device " + (d + 1));
  make(c.svg, "text", { class: "soft", x: c.width - RIGHT + 8, y: base - 4 }, c.t.peaks[d]);
}

function draw(c) {
  const n = c.t.devices, svg = c.svg;
  c.width = Math.max(svg.clientWidth || 1000, 320);
  c.top = 4;
  const bottom = c.top + n * (c.row + GAP), held = bottom + 44, height = held + n * HELD + 6;
  const x = t => LEFT + (t - from) / (to - from) * (c.width - LEFT - RIGHT);
  svg.setAttribute("height", height);
  svg.setAttribute("viewBox", `0 0 ${c.width} ${height}`);
  svg.replaceChildren();
  for (let d = 0; d < n; d++) {
    const y = c.top + d * (c.row + GAP);
    make(svg, "path", { class: "row", d: `M${LEFT} ${y}H${c.width - RIGHT}v${c.row}H${LEFT}Z` });
    make(svg, "text", { class: "right", x: LEFT - 8, y: y + c.row / 2 + 4 }, "Device " + (d + 1));
  }
  for (const t of ticks(Math.max((c.width - LEFT - RIGHT) / 90, 1))) {
    make(svg, "line", { class: "grid", x1: x(t), x2: x(t), y1: c.top, y2: bottom });
    make(svg, "text", { class: "mid soft tick", x: x(t), y: bottom + 16 }, show(t));
  }
  const g = make(svg, "g", {});
  for (let d = 0; d < n; d++) drawDevice(c, g, d, x);
  make(svg, "text", { class: "soft", x: LEFT, y: held - 6 }, "activations held, to one scale");
  let scale = 0;
  for (const m of c.t.memory) for (let i = 1; i < m.length; i += 2) scale = Math.max(scale, m[i]);
  for (let d = 0; d < n; d++) drawMemory(c, d, x, held + d * HELD, scale);
  mark(c);
}

let pending = false;
function redraw() {
  if (pending) return;
  pending = true;
  const now = () => { if (pending) { pending = false; charts.forEach(draw); } };
  requestAnimationFrame(now);
  setTimeout(now, 100); // a page that is not shown gets no frames
}
function view(a, b) {
  const span = Math.min(Math.max(b - a, whole * 1e-6), whole);
  from = Math.min(Math.max(a, 0), whole - span);
  to = from + span;
  redraw();
}
const zoom = (factor, centre) => view(centre - (centre - from) * factor, centre + (to - centre) * factor);
const middle = () => (from + to) / 2;

function select(c, d, i, announce) {
  selected = i === undefined ? null : Object.assign(pass(c, d, i), { c });
  if (selected && announce) {
    say.textContent = describe(selected);
    const span = to - from, centre = (selected.start + selected.stop) / 2;
    if (selected.stop > to || selected.start < from) return view(centre - span / 2, centre + span / 2);
  }
  charts.forEach(mark);
}
const showTip = (text, x, y) => placeTip(tip, text, x, y);

// Arrow keys: the pass before or after on the device, or the one at the same time on a neighbouring device.
function step(c, key) {
  if (!selected || selected.c !== c) return select(c, 0, first(c.t.passes[0], from), true);
  const { d, i, start } = selected;
  const sideways = key === "ArrowLeft" ? -1 : key === "ArrowRight" ? 1 : 0;
  if (sideways) {
    const next = i + sideways;
    if (next >= 0 && next < c.t.passes[d].length / STEP) select(c, d, next, true);
    return;
  }
  const other = d + (key === "ArrowUp" ? -1 : 1);
  if (other < 0 || other >= c.t.devices) return;
  const p = c.t.passes[other], found = first(p, start), last = p.length / STEP - 1;
  if (last >= 0) select(c, other, Math.min(found, last), true);
}

for (const c of charts) {
  const time = event => {
    const box = c.svg.getBoundingClientRect();
    return from + (event.clientX - box.left - LEFT) / (c.width - LEFT - RIGHT) * (to - from);
  };
  c.svg.addEventListener("wheel", event => {
    if (event.ctrlKey || event.metaKey) { event.preventDefault(); zoom(Math.exp(event.deltaY * 0.002), time(event)); }
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      const move = event.deltaX / (c.width - LEFT - RIGHT) * (to - from);
      view(from + move, to + move);
    }
  }, { passive: false });
  let grab = null;
  c.svg.addEventListener("pointerdown", event => {
    grab = { x: event.clientX, from, to };
    c.svg.setPointerCapture(event.pointerId);
    c.svg.classList.add("drag");
  });
  const release = () => { grab = null; c.svg.classList.remove("drag"); };
  c.svg.addEventListener("pointerup", release);
  c.svg.addEventListener("pointercancel", release);
  c.svg.addEventListener("pointermove", event => {
    if (grab) {
      const move = (grab.x - event.clientX) / (c.width - LEFT - RIGHT) * (grab.to - grab.from);
      tip.hidden = true;
      return view(grab.from + move, grab.to + move);
    }
    const e = event.target;
    if (!e.dataset || e.dataset.i === undefined) { tip.hidden = true; return; }
    const d = Number(e.dataset.d), i = Number(e.dataset.i);
    showTip(describe(pass(c, d, i)), event.clientX, event.clientY);
    if (!selected || selected.c !== c || selected.d !== d || selected.i !== i) select(c, d, i, false);
  });
  c.svg.addEventListener("pointerleave", () => { tip.hidden = true; if (selected) select(); });
  c.svg.addEventListener("dblclick", () => view(0, whole));
  c.svg.addEventListener("blur", () => { tip.hidden = true; if (selected) select(); });
  c.svg.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const span = to - from, key = event.key;
    if (key === "+" || key === "=") zoom(0.7, middle());
    else if (key === "-") zoom(1 / 0.7, middle());
    else if (key === "0") view(0, whole);
    else if (key === "Home") view(0, span);
    else if (key === "End") view(whole - span, whole);
    else if (event.shiftKey && key === "ArrowLeft") view(from - span * 0.15, to - span * 0.15);
    else if (event.shiftKey && key === "ArrowRight") view(from + span * 0.15, to + span * 0.15);
    else if (key.startsWith("Arrow")) {
      step(c, key);
      if (selected) {
        const box = c.svg.getBoundingClientRect();
        const x = LEFT + (selected.start - from) / (to - from) * (c.width - LEFT - RIGHT);
        const y = c.top + (selected.d + 1) * (c.row + GAP) - 12;
        showTip(describe(selected), box.left + Math.max(x, LEFT), box.top + y);
      }
    } else if (key === "Escape") { tip.hidden = true; select(); }
    else return;
    event.preventDefault();
  });
}
part("in").addEventListener("click", () => zoom(0.7, middle()));
part("out").addEventListener("click", () => zoom(1 / 0.7, middle()));
part("all").addEventListener("click", () => view(0, whole));
const resized = () => root.isConnected ? redraw() : removeEventListener("resize", resized);
addEventListener("resize", resized);
charts.forEach(draw);
};
]==]

return page
