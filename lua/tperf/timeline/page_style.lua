--- The style and the controls of timeline:html().
local page = {}

page.style = [[
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --soft: #59636e; --line: #d9dee3; --row: #f0f2f4;
  --held: #c9d3de; --edge: #41566b; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171b; --ink: #e6e9ec; --soft: #9aa4ae; --line: #353b42; --row: #20252b;
    --held: #3a4653; --edge: #9fb2c6; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 100rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.5rem; margin: 0 0 1rem; } h2 { font-size: 1.1rem; margin: 1.5rem 0 .25rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; display: block;
  overflow-x: auto; }
caption { text-align: left; color: var(--soft); padding: 0 0 .25rem; }
th, td { padding: .25rem .8rem; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--soft); } tbody th { font-weight: 400; }
.n { text-align: right; } .best th, .best td { font-weight: 600; }
.controls { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; margin: 1rem 0 0; color: var(--soft);
  position: sticky; top: 0; background: var(--paper); padding: .4rem 0; z-index: 1; }
button { font: inherit; min-width: 2.2rem; padding: .15rem .6rem; border: 1px solid var(--line); border-radius: 4px;
  background: var(--row); color: var(--ink); cursor: pointer; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; margin: .25rem 0 .5rem; color: var(--soft);
  font-size: .85rem; }
.legend svg { vertical-align: -1px; }
.chart { display: block; width: 100%; touch-action: pan-y; cursor: grab; user-select: none; outline-offset: 3px; }
.chart.drag { cursor: grabbing; }
text { font-size: 12px; fill: var(--ink); pointer-events: none; } text.soft { fill: var(--soft); }
.chart text.small { font-size: 10px; } .mid { text-anchor: middle; } .right { text-anchor: end; }
.row { fill: var(--row); } .grid { stroke: var(--line); } .p { stroke: var(--paper); stroke-width: .6; }
.held { fill: var(--held); stroke: var(--edge); }
.same { stroke: #d4145a; stroke-width: 2; } .here { stroke: #d4145a; stroke-width: 3.5; }
#tip { position: fixed; pointer-events: none; background: var(--ink); color: var(--paper); padding: .3rem .55rem;
  border-radius: 4px; font-size: .85rem; white-space: pre; z-index: 2; }
#status { position: absolute; left: -9999px; }
@media print { .controls { display: none; } }
]]

page.controls = [[
<p class="controls"><button type="button" id="in" aria-label="zoom in">+</button>
<button type="button" id="out" aria-label="zoom out">−</button>
<button type="button" id="all">show all</button>
<span>drag to move, Ctrl + wheel to zoom; with the keyboard: + − 0, Shift + ← →, arrows go from pass to pass</span></p>
]]

return page
