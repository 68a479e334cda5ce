--- Compare: systems side by side; training by number of GPUs, serving by Pareto fronts.
local ask = require "tperf.cli.ask.arguments"
local check = require "tperf.base.check"
local command = require "tperf.page.command"
local configuration = require "tperf.cli.ask.configuration"
local grid = require "tperf.page.grid"
local options = require "tperf.input.options"
local served = require "tperf.question.serving_arguments"
local serving_axes = require "tperf.cli.ask.serving_axes"

local compare = {}

local OWN <const> = { systems = true, show = true, domain = true, hbm = true }
local MOST_SYSTEMS <const>, MOST_COUNTS <const> = 8, 12

local SEARCH <const> = { "gpus", "ttft", "tpot" } -- options of a search alone

-- The quantities that a line can show; log: on a logarithmic axis, as values span orders of magnitude.
local SHOWS <const> = {
  ["tokens/s/GPU"] = { y = { key = "tokens_per_second_per_gpu", title = "tokens/s per GPU" } },
  ["tokens/s"] = { y = { key = "tokens_per_second", title = "tokens/s" }, log = 10 },
  time = { y = { key = "time", title = "time of an iteration", unit = "s" }, log = 10 },
  mfu = { y = { key = "mfu", title = "MFU", unit = "%" } },
}

-- The systems to compare: their names, the systems themselves, and the changes made to them.
local function machines(given)
  local names, systems, changes = {}, {}, {}
  for name in (given.systems or ""):gmatch "[^,]+" do names[#names + 1] = name end
  if #names == 0 then error("choose at least one system", 0) end
  if #names > MOST_SYSTEMS then error(("at most %d systems can be compared at a time"):format(MOST_SYSTEMS), 0) end
  local domain, hbm = tonumber(given.domain), tonumber(given.hbm)
  if domain then changes.network = { fast = { domain = math.tointeger(domain) } } end
  for i, name in ipairs(names) do
    local s = require "tperf".system(name)
    if hbm and hbm ~= 1 then changes.accelerator = { hbm = { capacity = s.accelerator.hbm.capacity * hbm } } end
    systems[i] = next(changes) and s:with(changes) or s
  end
  return names, systems, domain, hbm
end

local function script_of(names, asked, domain, hbm, call)
  local changes = {}
  if domain then changes[#changes + 1] = ("network = { fast = { domain = %d } }"):format(domain) end
  if hbm and hbm ~= 1 then
    changes[#changes + 1] = ("accelerator = { hbm = { capacity = s.accelerator.hbm.capacity * %g } }"):format(hbm)
  end
  local with = changes[1] and (":with { %s }"):format(table.concat(changes, ", ")) or ""
  return ([[
local tperf = require "tperf"

for _, name in ipairs %s do
  local s = tperf.system(name)
  local question = %s
  question.system = s%s
%s
end
]]):format(command.lua(names), command.lua(asked, "  "), with, call)
end

-- Parses a list of GPU counts, short enough to answer quickly.
local function check_counts(gpus)
  if type(gpus) == "table" and #gpus > MOST_COUNTS then
    check.fail("--gpus: at most %d numbers can be compared at a time, got %d", MOST_COUNTS, #gpus)
  end
end

--- Training by number of GPUs: { chart (SVG), table, missing (why a system has no row), script }. values: options of
--- `tperf search`, except that `systems`, "a,b", replaces the system; show: the quantity; domain: GPUs per fast
--- domain; hbm: factor on the memory.
function compare.compare(question)
  local given, tperf = question.values, require "tperf"
  local names, systems, domain, hbm = machines(given)
  local values, arguments = command.values("search", given, OWN)
  values.system = "any"
  local asked = command.need(configuration.question(values, arguments, { "gpus", "batch" }, true))
  check_counts(asked.gpus)
  asked.software, asked.top, asked.system = values.software or asked.software, 1, nil
  asked.gpus = type(asked.gpus) == "table" and asked.gpus or { asked.gpus }
  local script = script_of(names, asked, domain, hbm, [[
  for _, found in ipairs(tperf.search(question)) do
    local c = found[1]
    print(name, found.gpus, c and tperf.units.format(c.time, "s") or found.reason)
  end]])
  local show = SHOWS[given.show or "tokens/s/GPU"] or check.fail("show: %s is not known", check.show(given.show))
  local rows, missing = {}, {}
  for i, system in ipairs(systems) do
    asked.system = system
    for _, found in ipairs(command.call("search", tperf.search, asked)) do
      rows[#rows + 1] = found[1]
      if found[1] then
        found[1].machine = names[i]
      else
        missing[#missing + 1] = ("%s, %d GPUs: %s"):format(names[i], found.gpus, found.reason)
      end
    end
  end
  local columns = { { key = "machine", title = "system" }, { key = "gpus", title = "GPUs" } }
  table.move(configuration.columns, 1, #configuration.columns, #columns + 1, columns)
  return {
    table = grid(rows, columns), script = script, missing = missing,
    chart = rows[1] and tperf.plot.lines({
      rows = rows, series = "machine", x = { key = "gpus", title = "GPUs" }, y = show.y, logx = 2,
      logy = show.log, title = tostring(tperf.model(asked.model)) .. ": the best of every size",
      width = question.width,
    }):svg() or nil,
  }
end

--- Serving: each system's Pareto front of tokens/s per GPU against tokens/s per user. values: options of
--- `tperf infer -g`, except that `systems` replaces the system; domain and hbm as in compare.compare.
function compare.front(question)
  local given, tperf = question.values, require "tperf"
  local names, systems, domain, hbm = machines(given)
  local values, arguments = command.values("infer", given, OWN)
  local asked = command.need(ask.asked(served.rows "infer", values))
  asked.model, asked.top = arguments[1] or error("MODEL is missing", 0), 1
  for _, name in ipairs(SEARCH) do asked[name] = values[name] end
  local script = script_of(names, asked, domain, hbm, [[
  for _, point in ipairs(tperf.search_inference(question).pareto or {}) do
    print(name, 1 / point.tpot, point.tokens_per_second_per_gpu)
  end]])
  local rows, missing = {}, {}
  for i, system in ipairs(systems) do
    asked.system = system
    local found = command.call("infer", tperf.search_inference, asked)
    if found.reason then missing[#missing + 1] = ("%s: %s"):format(names[i], found.reason) end
    for _, point in ipairs(found.pareto or {}) do
      point.machine, point.speed = names[i], 1 / point.tpot
      rows[#rows + 1] = point
    end
  end
  return {
    script = script, missing = missing,
    table = grid(rows, options.join({ { key = "machine", title = "system" },
      { key = "strategy", usual = "tensor" } }, serving_axes.columns(), {
      { key = "pp", usual = 1 }, { key = "dp" }, { key = "batch" }, { key = "ttft", unit = "s" },
      { key = "tpot", unit = "s" }, { key = "speed", title = "tokens/s per user" },
      { key = "tokens_per_second_per_gpu", title = "tokens/s per GPU" },
      { key = "memory.total", title = "memory", unit = "bytes" },
    })),
    chart = rows[1] and tperf.plot.lines({
      rows = rows, series = "machine", logx = 10, logy = 10, x = { key = "speed", title = "tokens/s per user" },
      y = { key = "tokens_per_second_per_gpu", title = "tokens/s per GPU" }, width = question.width,
      title = ("Serving %s on %d GPUs"):format(tostring(tperf.model(asked.model)), asked.gpus),
    }):svg() or nil,
  }
end

return compare
