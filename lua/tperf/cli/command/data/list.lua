local check = require "tperf.base.check"
local options = require "tperf.input.options"

local LONGEST <const> = 40 -- characters of a name with its summary beside it

local function named(names)
  local rows = {}
  for i, name in ipairs(names) do rows[i] = { name = name } end
  return rows
end

-- The names of a kind, with summaries of the objects returned by get.
local function summarised(names, get)
  local rows = named(names)
  for _, row in ipairs(rows) do row.summary = get(row.name).summary end
  return rows
end

local function count_of(n) return (n >= 1e12 and "%.3gT" or "%.3gB"):format(n / (n >= 1e12 and 1e12 or 1e9)) end

-- "61 layers of 7168, 671B, 37.5B active"; "32 layers of 4096, 8.03B parameters"
local function model_summary(name)
  local model = require "tperf.describe.model"(name)
  local p = model:parameters()
  local active = p.active_experts and p.active < p.total and (", %s active"):format(count_of(p.active))
  return ("%d layers of %d, %s%s"):format(model.layers, model.hidden, count_of(p.total), active or " parameters")
end

-- The files of a kind with their summaries. An invalid file shows its error in its own row.
local function described(kind, summary)
  local rows = named(require "tperf.base.catalogue".list(kind))
  for _, row in ipairs(rows) do
    local ok, text = check.attempt(summary, row.name)
    row.summary = ok and text or "cannot be used: `tperf show " .. row.name .. " --json` says why"
  end
  return rows
end

local function span_of(span) return span and (span[1] == span[2] and span[1] or span[1] .. "-" .. span[2]) or nil end

local FIRST <const> = { typical = 1, tuned = 2 } -- for stacks without a profile of their own

-- Profiles, with the runs behind them and the median error on held-out runs.
local function profiles()
  local software, rows = require "tperf.describe.software", named(require "tperf.base.catalogue".list "software")
  table.sort(rows, function(a, b)
    local x, y = FIRST[a.name] or math.huge, FIRST[b.name] or math.huge
    if x ~= y then return x < y end
    return a.name < b.name
  end)
  for _, row in ipairs(rows) do
    local p = software(row.name)
    row.runs, row.error, row.gpus = p.runs, p.error, span_of(p.gpus)
    row.spread = p.spread and ("%.2f-%.2f"):format(table.unpack(p.spread)) or nil
    row.systems = table.concat(p.systems, " ")
  end
  return rows, {
    { key = "name" }, { key = "runs" }, { key = "gpus", title = "GPUs" }, { key = "error", unit = "%", digits = 3 },
    { key = "spread", title = "nine in ten" }, { key = "systems", wide = 1 },
  }
end

-- The rows of a vendor, in any case of letters; fails with those that there are.
local function of_vendor(rows, vendor)
  local found, known = {}, {}
  for _, row in ipairs(rows) do
    if row.vendor and row.vendor:lower() == vendor:lower() then found[#found + 1] = row end
    if row.vendor and not known[row.vendor] then known[row.vendor], known[#known + 1] = true, row.vendor end
  end
  if not found[1] then
    check.fail("--vendor: no system of %s; there are %s", check.show(vendor), table.concat(known, ", "))
  end
  return found
end

-- The systems of a vendor, or all, with the basis of their efficiencies. An invalid file shows its error in its row.
local function systems(vendor)
  local system, rows = require "tperf.describe.system", named(require "tperf.base.catalogue".list "systems")
  for _, row in ipairs(rows) do
    local right, s = check.attempt(system, row.name)
    if right then
      local rests_on, base = s:calibration()
      row.vendor = s.vendor
      row.gpu, row.memory, row.peak = s.accelerator.name, s.accelerator.hbm.capacity, s.accelerator.tensor.bf16
      row.visible, row.power = s.accelerator.hbm.visible, s.accelerator.power
      row.gpu_hour = s.price and s.price.gpu_hour
      row.domain, row.curves = s.network.fast.domain, base and "of " .. base or rests_on
    else
      row.curves = "cannot be read"
    end
  end
  if vendor then rows = of_vendor(rows, vendor) end
  return rows, {
    { key = "name" }, { key = "vendor", wide = 1 }, { key = "gpu", title = "GPU", wide = 1 },
    { key = "memory", unit = "bytes" },
    { key = "peak", title = "16-bit peak", unit = "FLOP/s" }, { key = "domain", title = "domain" },
    { key = "visible", unit = "bytes", wide = 2 }, { key = "power", unit = "W", wide = 2 },
    { key = "gpu_hour", title = "$/GPU-hour", wide = 2 }, { key = "curves", title = "calibration" },
  }
end

local SUBJECTS = {
  models = function() return described("models", model_summary) end,
  software = profiles,
  systems = systems,
  strategies = function()
    local strategy = require "tperf.describe.strategy"
    return summarised(strategy.names(), strategy.of)
  end,
  schedules = function()
    local schedule = require "tperf.describe.schedule"
    return summarised(schedule.names(), schedule.get)
  end,
  recipes = function() -- tables of the options in launch files
    local rows = {}
    for i, t in ipairs(require "tperf.import.launch.tables".all()) do
      rows[i] = { name = t.name, stack = t.stack, version = t.version, kind = t.kind, options = #t.options }
    end
    return rows, {
      { key = "name" }, { key = "stack" }, { key = "version", wide = 1 }, { key = "kind" }, { key = "options" },
    }
  end,
  rules = function() -- the assumptions of each set
    local rules = require "tperf.describe.rules"
    local columns = { { key = "name" } }
    for i, name in ipairs(rules.names()) do columns[i + 1] = { key = name } end
    columns[#columns + 1] = { key = "meaning", wrap = true }
    return rules.describe(), columns
  end,
}
local NAMES = { "models", "systems", "software", "strategies", "schedules", "rules", "recipes" }

return {
  summary = "list models, systems, software, schedules and more",
  arguments = table.concat(NAMES, "|"),
  from = { NAMES },
  options = options.join({ { long = "vendor", value = "NAME", help = "systems: only those of this vendor" } },
    options.formats),
  run = function(values, arguments)
    local name = arguments[1]
    if not name then return false, "say what to list: " .. table.concat(NAMES, ", ") end
    if arguments[2] then return false, "list takes one subject" end
    if not SUBJECTS[name] then return false, ("unknown subject '%s'%s"):format(name, check.suggest(name, NAMES)) end
    if values.vendor and name ~= "systems" then return false, "--vendor goes with systems" end
    local rows, columns = require "tperf.base.roots".browse(function() return SUBJECTS[name](values.vendor) end)
    if columns or values.json or values.csv then
      require "tperf.cli.answer.table"(values, rows, columns or { { key = "name" }, { key = "summary" } })
      return
    end
    for _, row in ipairs(rows) do row[1], row[2] = row.name, row.summary or "" end
    print(table.concat(require "tperf.input.help".definitions(rows, "", LONGEST), "\n"))
  end,
}
