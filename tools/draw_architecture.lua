-- Draws docs/architecture.svg: the path of a question from Lua to C and back. Run by `make docs`.
local canvas = require "tperf.plot.draw.canvas"
local output = require "tperf.output.file"
local svg = require "tperf.plot.draw.svg"

local WIDTH <const>, ROW <const>, GAP <const>, LEFT <const> = 760, 52, 22, 16
local LUA <const>, BORDER <const>, CORE <const> = "#d7e6f5", "#f5e3c8", "#dceedd"

-- A floor: its name, and its boxes with a short description each. Questions go down, answers up.
local FLOORS <const> = {
  { color = LUA, name = "Lua, asks", boxes = { { "cli/", "commands" }, { "page/", "a browser" },
    { "a script", "sandboxed" }, { "report/", "tables, documents" } } },
  { color = LUA, name = "Lua, questions", boxes = { { "search, train", "time, memory" }, { "infer, serve", "latency" },
    { "sweep, cost", "many, or a run" }, { "measured/", "fits, errors" } } },
  { color = LUA, name = "Lua, shows", boxes = { { "plot/", "charts" }, { "timeline/", "schedules" },
    { "import/, export/", "launch files" }, { "output/", "files" } } },
  { color = LUA, name = "Lua, describes", boxes = { { "model, system", "schemas" }, { "arch/", "a model's ops" },
    { "strategy/", "who holds what" }, { "schedule/", "orders of passes" } } },
  { color = BORDER, name = "src/bind", boxes = {
    { "bind_*.c", "copies tables into structs, raises errors at the user's line" } } },
  { color = CORE, name = "C, evaluates", boxes = { { "search", "candidates, bounds" }, { "plan, step", "time, memory" },
    { "schedule, event", "simulations" }, { "serve", "an engine" } } },
  { color = CORE, name = "C, prices", boxes = { { "price", "op x machine x software" }, { "op", "counts" },
    { "machine, grid", "links, placements" }, { "base", "errors, units, threads" } } },
}

local picture = canvas.new(WIDTH, #FLOORS * (ROW + GAP) + 8)
local NAME <const> = 120 -- px for a floor's name
for i, floor in ipairs(FLOORS) do
  local y, count = 8 + (i - 1) * (ROW + GAP), #floor.boxes
  local width = (WIDTH - NAME - 2 * LEFT) / count
  picture:text(LEFT, y + ROW / 2 + 4, floor.name, { bold = true })
  for b, box in ipairs(floor.boxes) do
    local x = LEFT + NAME + (b - 1) * width
    picture:rect(x, y, width - 8, ROW, { color = floor.color })
    picture:text(x + (width - 8) / 2, y + 22, box[1], { anchor = "middle", bold = true, color = "#222222" })
    picture:text(x + (width - 8) / 2, y + 40, box[2], { anchor = "middle", size = 10, color = "#222222" })
  end
  if i < #FLOORS then
    for side, x in ipairs { WIDTH / 2 - 20 + NAME / 2, WIDTH / 2 + 20 + NAME / 2 } do
      local from, to = y + ROW + 3, y + ROW + GAP - 3
      if side == 2 then from, to = to, from end
      local tip = side == 1 and -5 or 5
      picture:line({ x, from, x, to }, { width = 1.5 })
      picture:line({ x - 4, to + tip, x, to, x + 4, to + tip }, { width = 1.5 })
    end
  end
end
output.write("docs/architecture.svg", svg.document(picture, "The floors of tperf",
  "A question goes down from a script or the command line through Lua and the bindings to the C core; its answer "
  .. "goes up."))
