--- The style and the controls of timeline:html().
local hover = require "tperf.output.hover"
local palette = require "tperf.timeline.picture.palette"
local sheet = require "tperf.output.sheet"

local page = {}

--- Style rules of the charts and of the comparison table.
page.charts = [[
:root { --row: #f0f2f4; --held: #c9d3de; --edge: #41566b; }
@media (prefers-color-scheme: dark) { :root { --row: #20252b; --held: #3a4653; --edge: #9fb2c6; } }
.best th, .best td { font-weight: 600; }
.controls { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; margin: 1rem 0 0; color: var(--soft);
  position: sticky; top: 0; background: var(--paper); padding: .4rem 0; z-index: 1; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; margin: .25rem 0 .5rem; color: var(--soft);
  font-size: .85rem; }
.legend svg { vertical-align: -1px; }
.frame { content-visibility: auto; }
.chart { display: block; width: 100%; touch-action: pan-y; cursor: grab; user-select: none; outline-offset: -2px; }
.chart.drag { cursor: grabbing; }
.chart text { font-size: 12px; fill: var(--ink); pointer-events: none; } .chart text.soft { fill: var(--soft); }
.chart text.small { font-size: 10px; } .chart .mid { text-anchor: middle; } .chart .right { text-anchor: end; }
.chart .row { fill: var(--row); } .chart .grid { stroke: var(--line); }
.chart .p { stroke: var(--paper); stroke-width: .6; } .chart .held { fill: var(--held); stroke: var(--edge); }
.chart .same { stroke: #d4145a; stroke-width: 2; } .chart .here { stroke: #d4145a; stroke-width: 3.5; }
#status { position: absolute; left: -9999px; }
@media print { .controls { display: none; } }
]] .. palette.css()

--- Style rules of a whole page.
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

return page
