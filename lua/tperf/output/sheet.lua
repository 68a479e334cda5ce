--- The style sheet that every page shares: reports, schedules, and tperf in a browser. Each adds its own rules.
local sheet = {}

--- The colours of a page in the dark; pictures that are drawn for it have them, too.
sheet.dark = { paper = "#14171b", ink = "#e6e9ec", soft = "#9aa4ae", line = "#353b42", band = "#1c2026" }

local function variables(colors)
  local list = {}
  for _, name in ipairs { "paper", "ink", "soft", "line", "band" } do
    list[#list + 1] = ("--%s: %s;"):format(name, colors[name])
  end
  return table.concat(list, " ")
end

sheet.base = [[
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --soft: #59636e; --line: #d9dee3; --band: #f5f7f9; }
@media (prefers-color-scheme: dark) {
  :root { ]] .. variables(sheet.dark) .. [[ }
}
@media print { :root { color-scheme: light; --paper: #fff; --ink: #000; --soft: #444; --line: #bbb; --band: #fff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding: 0 0 .25rem; }
th, td { padding: .3rem .8rem; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--soft); font-weight: 600; vertical-align: bottom; }
tbody th { font-weight: 400; }
.n { text-align: right; }
.scroll { overflow-x: auto; }
button { font: inherit; min-width: 2.2rem; padding: .15rem .6rem; border: 1px solid var(--line); border-radius: 4px;
  background: var(--band); color: var(--ink); cursor: pointer; }
]]

--- The figures of tperf.plot. They mark their parts with classes: on paper they keep its light, in the dark they change
--- with the page.
sheet.figures = [[
figure { margin: 1.75rem 0; break-inside: avoid; }
figcaption { color: var(--soft); font-size: .9rem; margin: 0 0 .5rem; }
figure svg { display: block; max-width: 100%; height: auto; margin-left: -12px; }
.tp-paper { fill: var(--paper); } .tp-ink { fill: var(--ink); } .tp-soft { fill: var(--soft); }
.tp-axis { stroke: var(--soft); } .tp-grid { stroke: var(--line); } .tp-gap { stroke: var(--paper); }
.tp-line { stroke: var(--ink); }
]]

return sheet
