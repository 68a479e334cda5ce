--- The fixed parts of timeline:html(): style, controls and script.
local hover = require "tperf.output.hover"
local page = require "tperf.timeline.picture.page_style"

-- All charts share the window [from, to]. A chart is redrawn whenever it changes; passes outside are skipped. Of the
-- passes narrower than a pixel, a fair sample is drawn one pixel wide: those that cross a pixel's edge. The frame of a
-- chart has its size even where the browser skips its thousands of shapes, because they are out of sight.
-- showTimelines(root) fills in the markup of tperf/timeline/picture/view.lua, in a document or a part of one.
page.script = hover.script .. [==[
const showTimelines = root => {
const part = id => root.querySelector("#" + id);
const NS = "http://www.w3.org/2000/svg", LEFT = 76, GAP = 4, HELD = 26, STEP = 7, THIN = 11, OWN = 14;
const LETTER = ["F", "B", "D", "W"], NAME = ["forward", "backward", "input backward", "weight backward"];
const data = JSON.parse(part("data").textContent);
const RIGHT = Math.max(...data.map(t => t.right));
const whole = Math.max(...data.map(t => t.end));
let from = 0, to = whole, selected = null;
const tip = part("tip"), say = part("status");
const charts = data.map((t, i) =>
  ({ t, svg: part("chart" + (i + 1)), row: t.devices > 16 ? 18 : 30 }));
for (const c of charts) {
  c.band = c.row + GAP + (c.t.tasks ? c.t.tasks.rows.length * THIN : 0);
  c.own = c.band - GAP + 1; // where the rows of a schedule's own passes begin
  c.band += Math.max(0, ...c.t.own.map(lanes => lanes.length)) * OWN;
}

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
  const y = c.top + d * c.band, p = c.t.passes[d], count = p.length / STEP;
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

// A thin row for each resource. Of tasks narrower than a pixel those are drawn that lie over the edge of one.
function drawTasks(c, g, d, x) {
  const k = c.t.tasks, placed = k.placed[d], top = c.top + d * c.band + c.row + 1, last = k.rows.map(() => -1);
  k.rows.forEach((name, i) => make(g, "text", { class: "right soft small", x: LEFT - 8, y: top + i * THIN + 9 }, name));
  for (let i = 0; i < placed.length; i += 4) {
    const list = k.lists[placed[i]], start = placed[i + 1], scale = placed[i + 2];
    if (start > to || start + k.lengths[placed[i]] * scale * 2 < from) continue;
    for (let j = 0; j < list.length; j += 6) {
      if (list[j + 2] && !(list[j + 2] & placed[i + 3])) continue;
      const a = start + list[j + 3] * scale, b = start + list[j + 4] * scale;
      if (b <= from || a >= to) continue;
      const left = x(Math.max(a, from)), right = x(Math.min(b, to));
      if (right - left < 1 && Math.floor(right) === Math.floor(left)) continue;
      for (let r = 0; r < last.length; r++) {
        if (!(list[j] >> r & 1) || right <= last[r]) continue;
        last[r] = Math.floor(right);
        make(g, "rect", { class: "task k" + list[j + 1], "data-text": list[j + 5], "data-from": a, "data-to": b,
          x: left, y: top + r * THIN, width: Math.max(right - left, 1), height: THIN - 2 });
      }
    }
  }
}
const describeTask = (c, e) => `${c.t.tasks.texts[e.dataset.text]}\n${show(Number(e.dataset.from))} to ` +
  `${show(Number(e.dataset.to))}${c.t.unit}`;

// A row for each resource that the schedule's own passes run on.
function drawOwn(c, g, d, x) {
  (c.t.own[d] || []).forEach((lane, r) => {
    const y = c.top + d * c.band + c.own + r * OWN, p = lane.passes;
    make(g, "text", { class: "right soft small", x: LEFT - 8, y: y + 10 }, lane.name);
    for (let i = 0; i < p.length; i += 3) {
      if (p[i + 1] < from || p[i] >= to) continue;
      const left = x(Math.max(p[i], from)), right = x(Math.min(p[i + 1], to));
      make(g, "rect", { class: "held own", "data-say": `device ${d + 1}, ${lane.name}: ${p[i + 2]}\n${show(p[i])} to ` +
        `${show(p[i + 1])}, takes ${show(p[i + 1] - p[i])}${c.t.unit}`, x: left, y, width: Math.max(right - left, 1),
        height: OWN - 2 });
      if (right - left >= p[i + 2].length * 6 + 3)
        make(g, "text", { class: "mid small", x: (left + right) / 2, y: y + 10 }, p[i + 2]);
    }
  });
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
  c.width = Math.max(svg.parentNode.clientWidth || 1000, 320);
  c.top = 4;
  const bottom = c.top + n * c.band, held = bottom + 44, height = held + n * HELD + 6;
  const x = t => LEFT + (t - from) / (to - from) * (c.width - LEFT - RIGHT);
  svg.setAttribute("height", height);
  svg.parentNode.style.containIntrinsicHeight = height + "px";
  svg.setAttribute("viewBox", `0 0 ${c.width} ${height}`);
  svg.replaceChildren();
  for (let d = 0; d < n; d++) {
    const y = c.top + d * c.band;
    make(svg, "path", { class: "row", d: `M${LEFT} ${y}H${c.width - RIGHT}v${c.row}H${LEFT}Z` });
    make(svg, "text", { class: "right", x: LEFT - 8, y: y + c.row / 2 + 4 }, "Device " + (d + 1));
  }
  for (const t of ticks(Math.max((c.width - LEFT - RIGHT) / 90, 1))) {
    make(svg, "line", { class: "grid", x1: x(t), x2: x(t), y1: c.top, y2: bottom });
    make(svg, "text", { class: "mid soft tick", x: x(t), y: bottom + 16 }, show(t));
  }
  const g = make(svg, "g", {});
  for (let d = 0; d < n; d++) drawDevice(c, g, d, x);
  for (let d = 0; d < n && c.t.tasks; d++) drawTasks(c, g, d, x);
  for (let d = 0; d < n; d++) drawOwn(c, g, d, x);
  make(svg, "text", { class: "soft", x: LEFT, y: held - 6 }, c.t.held + " held, to one scale");
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
    if (e.dataset && e.dataset.say !== undefined) return showTip(e.dataset.say, event.clientX, event.clientY);
    if (e.dataset && e.dataset.text !== undefined) return showTip(describeTask(c, e), event.clientX, event.clientY);
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
        const y = c.top + selected.d * c.band + c.row - 8;
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
