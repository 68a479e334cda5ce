--- Short descriptions of a configuration's layout.
local argument = require "tperf.base.entry.argument"
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local columns = require "tperf.output.columns"
local core = require "tperf.core"
local recomputation = require "tperf.describe.arch.recompute"
local save = require "tperf.output.save"
local strategy = require "tperf.describe.strategy"

local layout = {}

local function axes_of(c)
  local names, folded = {}, {}
  for i, axis in ipairs(c.strategy and strategy.of(c.strategy).axes or {}) do
    names[i], folded[axis.name] = axis.name, axis.folds ~= nil
  end
  names[#names + 1] = "pp"
  names[#names + 1] = "dp"
  return names, folded
end

local function list(c, values)
  local parts = {}
  local names, folded = axes_of(c)
  for _, name in ipairs(names) do
    if values[name] and (values[name] > 1 or not folded[name]) then
      parts[#parts + 1] = ("%s %d"):format(name, values[name])
    end
  end
  return table.concat(parts, ", ")
end

--- The size of each axis, and other settings that differ from the default: "tp 8, pp 16, dp 4, 2 chunks, full
--- recomputation". For a row without a configuration, the reason in a few words.
---@param c table  a configuration, or a row of a sweep
---@return string? text
function layout.sizes(c)
  argument.table("report.layout", "c", c, "a configuration, or a row of a sweep")
  if not c.pp then return c.reason and c.reason:match "^[^:;]*" end
  local text = list(c, c)
  if c.schedule and c.schedule ~= "1f1b" and c.schedule ~= "interleaved_1f1b" then text = text .. ", " .. c.schedule end
  if c.virtual_stages and c.virtual_stages > 1 then text = ("%s, %d chunks"):format(text, c.virtual_stages) end
  if c.recompute and c.recompute ~= "none" then text = ("%s, %s recomputation"):format(text, recomputation.words(c)) end
  return text
end

--- The GPUs of each axis that share a fast domain: "tp 8, pp 1, dp 1".
---@param c table
---@return string? text
function layout.placement(c)
  argument.table("report.placement", "c", c, "a configuration")
  return c.fast and list(c, c.fast) or nil
end

--- The software that configurations were timed with, for titles: "software typical"; "" if they have no times.
---@param rows table[]  configurations, rows of a sweep, or any that have `software`
---@return string text
function layout.software(rows)
  columns.check_rows("report.software", rows)
  local names, seen = {}, {}
  for _, row in ipairs(rows) do
    local name = row.software
    if name ~= nil and type(name) ~= "string" then
      check.fail("report.software: 'software' of a row must be a name, got %s", check.show(name))
    end
    if row.software and not seen[row.software] then
      seen[row.software] = true
      names[#names + 1] = row.software
    end
  end
  return #names > 0 and "software " .. table.concat(names, ", ") or ""
end

-- The fields of configurations that follow the sizes of the axes.
local KNOBS <const> = { "micro_batch", "microbatches", "panels", "schedule", "virtual_stages", "recompute",
  "recompute_method", "recompute_num_layers", "overlap_moe_a2a", "delay_wgrad",
  "overlap_shared_experts", "zero" }
local FIGURES <const> = {
  "time", "interval.low", "interval.high", "time_without_waste", "sequences_per_second",
  "tokens_per_second", "tokens_per_second_per_gpu", "throughput", "mfu",
  "mfu_all_pairs", "model_flops_rate", "flops_per_gpu", "memory.total",
}
for _, part in ipairs(core.memory_parts) do FIGURES[#FIGURES + 1] = "memory." .. part.name end
for _, name in ipairs(core.time_parts) do FIGURES[#FIGURES + 1] = "breakdown." .. name end
table.move({ "reason", "software" }, 1, 2, #FIGURES + 1, FIGURES)
local OF_SOFTWARE <const> = { software = true, time_without_waste = true } -- columns that are empty without software

-- All fields of configurations, of any strategy.
local function fields()
  local all, names = { "strategy" }, axes.names()
  for _, entry in ipairs(axes.every()) do all[#all + 1] = entry.name end
  all[#all + 1], all[#all + 2] = "pp", "dp"
  table.move(KNOBS, 1, #KNOBS, #all + 1, all)
  for _, name in ipairs(names) do all[#all + 1] = "fast." .. name end
  return table.move(FIGURES, 1, #FIGURES, #all + 1, all)
end

--- Columns for rows that contain configurations: those named, then all fields of configurations for which some row
--- has a value.
---@param rows table[]
---@param first (string|tperf.Column)[]
---@return (string|tperf.Column)[]
function layout.columns(rows, first)
  columns.check_rows("report.configurations", rows)
  columns.check_wanted("report.configurations", first)
  local wanted, seen, run = {}, {}, false
  for _, row in ipairs(rows) do run = run or (row.software or "none") ~= "none" end
  for i, column in ipairs(first) do
    wanted[i] = column
    seen[column] = true
  end
  for _, name in ipairs(fields()) do
    if not seen[name] and (run or not OF_SOFTWARE[name]) then wanted[#wanted + 1] = name end
  end
  return save.present(rows, wanted)
end

return layout
