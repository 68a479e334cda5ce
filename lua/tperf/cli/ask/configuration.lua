--- The options of a question and the columns of a configuration, shared by `search` and `train`.
local answers = require "tperf.question.configuration"
local ask = require "tperf.cli.ask.arguments"
local axes = require "tperf.describe.strategy.axes"
local catalogue = require "tperf.base.catalogue"
local format = require "tperf.output.format"
local from = require "tperf.cli.ask.from"
local offload = require "tperf.describe.arch.offload"
local options = require "tperf.input.options"
local registry = require "tperf.question.arguments"
local recomputation = require "tperf.describe.arch.recompute"
local software = catalogue.shared(require "tperf.describe.software")
local system = catalogue.shared(require "tperf.describe.system")
local tuning = require "tperf.cli.ask.tuning"
local unfit = require "tperf.describe.unfit"
local say = require "tperf.output.terminal".say

local configuration = {}

local USUAL <const> = "tensor" -- the strategy that need not be named

--- All options of a command: the question's, its own, those of launch files, and the formats.
---@param many boolean  true: of a search, where options take the values to try
function configuration.options(many, own)
  return options.join(ask.options(registry.rows(), many), options.under("this command", own),
    options.under("launch file", from.options), options.under("output", options.formats))
end

--- The arguments of tperf.search or tperf.train that the options set; nil and a message if one is missing or wrong. A
--- list of one value becomes the value.
---@param needed string[]  required options
---@param open boolean?  with --from: leave open what the command itself decides
function configuration.question(values, arguments, needed, open)
  values.model_file = type(arguments[1]) == "string" and arguments[1] or nil
  local wrong = from.fill(values, arguments, open and "search" or "train")
  if wrong then return nil, wrong end
  if not arguments[1] then return nil, "MODEL is missing" end
  if arguments[2] then return nil, ("one MODEL is needed, got '%s' too"):format(arguments[2]) end
  local missing = options.missing(values, needed)
  if missing then return nil, missing end
  local asked, message = ask.asked(registry.rows(), values)
  message = message or tuning.fill(values, asked)
  if message then return nil, message end
  asked.model = arguments[1]
  return asked
end

--- Notes the assumptions behind an answer that the options do not mention.
function configuration.note(values)
  local path = values.model_file
  local set = values.seq or table.concat(values.set or {}, ","):find("model.seq=", 1, true)
  if path and path:find "%.json$" and not set then
    io.stdout:flush()
    io.stderr:write("tperf: ", path, ": sequences as long as its context; --seq sets training's\n")
  end
end

-- "tp 4, dp 2": the axes with more than one GPU per fast domain (the GPUs of one NVLink switch).
local function placement(c)
  local parts = {}
  for _, axis in ipairs(axes.names()) do
    if (c.fast[axis] or 1) > 1 then parts[#parts + 1] = axis .. " " .. c.fast[axis] end
  end
  return table.concat(parts, ", ")
end

-- A column per axis. Axes whose size may be left open are shown where not 1, axes that shard state where present.
local function axis_columns()
  local list = {}
  for i, entry in ipairs(axes.every()) do
    local axis, option = entry.axis, entry.option
    local open = axis and axis.tries and axes.shows(axis)
    list[i] = { key = entry.name, usual = option and option.choices[1] or open and 1 or nil,
      wide = axis and axis.default and 2 or nil }
  end
  return list
end

--- The columns of a configuration. `usual`: text leaves out a column in which every row has this value.
configuration.columns = options.join({ { key = "strategy", usual = USUAL } }, axis_columns(), {
  { key = "pp" }, { key = "virtual_stages", title = "vpp", usual = 1 },
  { key = "schedule", usual = "1f1b", wide = 1.5 }, { key = "dp" }, { key = "zero", usual = 1, wide = 1 },
  { key = "micro_batch", title = "mbs", wide = -3 }, { key = "microbatches", title = "m-batches", wide = 5 },
  { key = "panels", usual = 1 }, { key = "precision", usual = "bf16", wide = -4 },
  { key = recomputation.words, title = "recompute", usual = "none" }, { key = offload.words, title = "offload",
    wide = -5 },
  { key = "overlap_moe_a2a", title = "a2a overlap", wide = 0.7 },
  { key = "delay_wgrad", title = "delayed wgrad", wide = 0.9 },
  { key = "overlap_shared_experts", title = "shared overlap", wide = 0.8 },
  { key = "sequence_parallel", title = "seq. parallel", usual = true, wide = 3 },
  { key = placement, title = "placement", wide = 4 }, { key = "time", unit = "s" },
  { key = "interval.low", title = "from", unit = "s", digits = 2, wide = -2 },
  { key = "interval.high", title = "to", unit = "s", digits = 2, wide = -2 },
  { key = "intervals.memory.low", title = "memory from", unit = "bytes", csv = true },
  { key = "intervals.memory.high", title = "memory to", unit = "bytes", csv = true }, { key = "fit", csv = true },
  { key = "time_without_waste", unit = "s", csv = true }, { key = "mfu", unit = "%", digits = 3, wide = -1 },
  { key = "model_flops_rate", csv = true }, { key = "tokens_per_second_per_gpu", title = "tokens/s/GPU", wide = 6 },
  -- Deprecated names of these two, see docs/stability.md.
  { key = function(c) return 1e-12 * c.model_flops_rate end, title = "TFLOP/s/GPU", csv = true },
  { key = function(c) return c.tokens_per_second_per_gpu end, title = "tokens/s/GPU", csv = true },
  { key = "memory.total", title = "memory", unit = "bytes" },
  { key = "host_memory", title = "host memory", unit = "bytes", wide = 0.2 },
  { key = "feasible", title = "fits", usual = true },
  { key = "idle", title = "idle GPUs", usual = 0, wide = 0.1 }, { key = "software", csv = true },
})

-- A note on the software profile, and how accurate its times are.
local function told_of(c, profile, timed)
  if not timed then return "software " .. c.software end
  if c.software == "none" then return "software none: the formulas alone, without the waste of any stack" end
  if not (profile.error and c.interval) then return "software " .. c.software end
  return ("software %s: median error %s on runs that its fit did not see; nine in ten runs like this one, of sources "
    .. "that no fit saw, took %.2g to %.2g times the predicted time%s"):format(c.software,
    format.number(profile.error, "%", 2), c.interval.low / c.time, c.interval.high / c.time,
    answers.is_unlike(c) and "; its fit saw runs unlike them" or "")
end

-- Whether the memory suffices, by its interval.
local function fit_of(c)
  local memory = c.intervals and c.intervals.memory
  if not memory then return nil end
  local fit = c.fit == "may not fit" and not c.feasible and "may fit after all" or c.fit
  return ("%s: 90 %% of such runs hold %s to %s of memory"):format(fit, format.number(memory.low, "bytes", 3),
    format.number(memory.high, "bytes", 3))
end

-- What its MFU counts, and what the log of the stack and PaLM's formula say.
local function utilisation_of(c)
  local counted = c.counted_pairs == "all" and "all pairs of tokens" or "the pairs of tokens that masks leave"
  return ("mfu counts as the stack's log does, %.4g TFLOP/s per GPU: products with weights, and %s; as PaLM counts, "
    .. "with the input table and all pairs, it is %s"):format(1e-12 * c.model_flops_rate, counted,
    format.number(c.mfu_all_pairs, "%", 3))
end

-- How GPUs were placed.
local function placed_of(c)
  if c.placement == "stack" then return "placed in the stack's order of ranks: " .. c.rank_order end
  return c.placement == "best" and "placed as is fastest, whatever the stack's order of ranks" or "placed as asked"
end

--- Prints below a table which software its configurations assume, and the time of the first without waste; prints on
--- standard error if they resemble no run of that software.
---@param values table   the command's options
---@param rows table[]
---@param machine any     the system
---@param timed boolean?  whether the table shows times
function configuration.tell(values, rows, machine, timed)
  local c = rows[1]
  if not c then return end
  local profile = c.software ~= "none" and unfit.judged(software(values.software or c.software))
  if not values.json and not values.csv then
    say("\n" .. told_of(c, profile, timed))
    local fit = fit_of(c)
    if fit then say((rows[2] and "the first " or "") .. fit) end
    if c.gpus > system(machine).network.fast.domain then say(placed_of(c)) end
    if c.trained_parameters then say(("trains %d parameters"):format(c.trained_parameters)) end
    if timed and c.software ~= "none" and c.time_without_waste < c.time then
      say(("without waste (--software none) %s %s"):format(rows[2] and "the first takes" or "it takes",
        format.number(c.time_without_waste, "s")))
    end
    if timed and not rows[2] then say(utilisation_of(c)) end
  end
  io.stdout:flush()
  for _, warning in ipairs(c.warnings or {}) do io.stderr:write("tperf: ", warning, "\n") end
  local advice = profile and answers.is_unlike(c) and unfit.advice(profile, system(machine), c.gpus)
  if advice then io.stderr:write("tperf: ", advice, "\n") end
end

return configuration
