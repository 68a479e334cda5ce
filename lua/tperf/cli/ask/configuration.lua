--- The options of a question and the columns of a configuration, shared by `search` and `train`.
local axes = require "tperf.describe.strategy.axes"
local catalogue = require "tperf.base.catalogue"
local format = require "tperf.output.format"
local from = require "tperf.cli.ask.from"
local graphs = require "tperf.describe.arch.graphs"
local offload = require "tperf.describe.arch.offload"
local options = require "tperf.input.options"
local precision = require "tperf.describe.precision"
local recomputation = require "tperf.describe.arch.recompute"
local software = catalogue.shared((require "tperf.describe.software"))
local system = catalogue.shared((require "tperf.describe.system"), true)
local tuning = require "tperf.cli.ask.tuning"
local unfit = require "tperf.describe.unfit"

local configuration = {}

local question = {
  { long = "system", short = "s", value = "NAME", from = "systems files",
    help = "the system (`tperf list systems`, or a file)" },
  { long = "batch", short = "b", value = "N", kind = "integer", help = "global batch, in sequences" },
  { long = "seq", value = "N", kind = "integer", help = "sequence length (default: the model's)" },
  { long = "rules", value = "NAME", from = "rules", help = "modelling rules (`tperf list rules`)" },
  { long = "software", value = "NAME", from = "software none",
    help = "training stack (`tperf list software`; default typical; none: no stack)" },
  { long = "attention", value = "NAME", from = { "flash", "unfused", "recompute", "summa" },
    help = "flash (default), unfused, recompute or summa" },
  { long = "precision", value = "NAME", from = precision.names,
    help = "of matrix products: bf16 (default), fp8-block, mxfp8" },
  { long = "optimizer", value = "NAME", from = { "adam", "adam_8bit", "adafactor", "lion", "muon", "sgd" },
    help = "adam (default), adam_8bit, adafactor, lion, muon or sgd" },
  { long = "weights", value = "TYPE", help = "dtype of the weights (default bf16)" },
  { long = "gradients", value = "TYPE", from = { "fp32", "bf16", "fp16" },
    help = "fp32, bf16 or fp16 (default: set by the rules)" },
  { long = "master", value = "TYPE", from = { "fp32", "bf16", "none" },
    help = "the optimizer's copy of the weights: fp32, bf16 or none" },
  { long = "moments", value = "TYPE", help = "dtype of the optimizer's moments" },
  { long = "recompute-modules", value = "LIST", kind = "list", from = recomputation.modules,
    help = "of selective recomputation: core_attn, mlp, moe, moe_act, layernorm ..." },
  { long = "recompute-method", value = "NAME", from = recomputation.methods,
    help = "of full recomputation: uniform (all layers, default), block or every" },
  { long = "recompute-num-layers", value = "N", kind = "integer",
    help = "layers recomputed as one (uniform), of each chunk (block), apart (every)" },
  { long = "recompute-layers", value = "K", kind = "integer", help = "layers recomputed as one (default 1)" },
  { long = "overlap-moe-a2a", help = "hide expert all-to-alls behind another micro-batch's pass" },
  { long = "delay-wgrad", help = "delay experts' weight gradients to hide more" },
  { long = "overlap-shared-experts", help = "run shared experts beside their own expert all-to-alls" },
  { long = "cuda-graphs", value = "LIST", kind = "list", from = graphs.modules,
    help = "launched as graphs: attn, mlp, mamba, moe_router, layer ..." },
  { long = "overlap-grad-reduce", value = "Y/N", from = { "yes", "no" },
    help = "overlap gradient reduction with backward (default: as the software)" },
  { long = "overlap-param-gather", value = "Y/N", from = { "yes", "no" },
    help = "overlap weight gathering with forward (likewise)" },
  { long = "overlap-p2p", value = "Y/N", from = { "yes", "no" },
    help = "send between interleaved stages while GPUs compute (likewise)" },
  { long = "overlap-gather-with-step", help = "overlap the first gather with the optimizer step" },
  { long = "bucket", value = "N", kind = "number", help = "parameters gathered or reduced together" },
  { long = "offload-layers", value = "N", kind = "integer",
    help = "layers per chunk whose activations are offloaded to the host" },
  { long = "offload-modules", value = "LIST", kind = "list", from = offload.modules,
    help = "modules whose inputs are offloaded: core_attn, moe_act ..." },
  { long = "offload-optimizer", value = "PART", kind = "number",
    help = "fraction of the optimizer states kept and updated by the host" },
  { long = "no-compile", help = "PyTorch's eager kernels: no compiler fuses norms, rotations and gates" },
  { long = "no-reshard", help = "ZeRO 3 keeps gathered weights until the backward pass" },
  { long = "reserve", value = "PART", kind = "number", help = "fraction of the memory to keep free, such as 0.1" },
  { long = "pipeline-layout", value = "LAYOUT",
    help = "layers per stage: Megatron's layout string, or 7,8,8,7" },
  { long = "first-stage-layers", value = "N", kind = "integer", min = 0, help = "layers of the first device" },
  { long = "last-stage-layers", value = "N", kind = "integer", min = 0, help = "layers of the last device" },
  { long = "account-for-embedding", help = "count the embedding as a layer when placing layers" },
  { long = "account-for-loss", help = "count the head as a layer, likewise" },
  { long = "fast", value = "tp=8,dp=2", kind = "pairs", help = "GPUs of each axis in one fast domain" },
  { long = "placement", value = "NAME", from = { "stack", "best" },
    help = "stack: in its order of ranks (default); best: the fastest" },
  { long = "rank-order", value = "ORDER",
    help = "neighbours first: tp-cp-ep-dp-pp (default: the software's)" },
}

local USUAL <const> = "tensor" -- the strategy that need not be named

-- Knobs for the axes and options of all strategies.
local function axis_knobs()
  local list = {}
  for i, entry in ipairs(axes.every()) do
    local long, option, said = entry.name:gsub("_", "-"), entry.option, entry.axis and entry.axis.said or {}
    if option then
      local choices = option.choices
      list[i] = { long = long, kind = "string", from = choices, left_open = choices[1], default = choices[1],
        help = table.concat(choices, ", ", 1, #choices - 1) .. " or " .. choices[#choices] }
    else
      local of = entry.strategies[1] == USUAL and "" or (" (%s)"):format(table.concat(entry.strategies, ", "))
      list[i] = { long = long, kind = "integer", help = entry.axis.meaning .. of, left_open = said.search,
        default = said.train }
    end
  end
  return list
end

-- Options with one value in `train` (or the default), and a list in `search` (which tries left_open if not given).
local knobs = options.join({ { long = "gpus", short = "g", kind = "integer", help = "GPUs" } }, axis_knobs(), {
  { long = "pp", kind = "integer", help = "pipeline parallelism: stages" },
  { long = "dp", kind = "integer", help = "data parallelism" },
  { long = "micro-batch", short = "m", column = "mbs", kind = "integer", help = "sequences per micro-batch" },
  { long = "panels", kind = "integer", help = "panels of a SUMMA multiplication" },
  { long = "schedule", kind = "string", from = "schedules", help = "pipeline schedules",
    left_open = "1f1b,interleaved_1f1b; or any", default = "1f1b" },
  { long = "virtual-stages", column = "vpp", kind = "integer", help = "chunks of layers per device, if interleaved",
    left_open = "2,3,4,6,8" },
  { long = "zero", kind = "integer", min = 0, help = "ZeRO stage, 0 to 3", left_open = "1", default = "1" },
  { long = "recompute", kind = "string", from = { "none", "selective", "full" }, help = "none, selective or full",
    left_open = "none,full", default = "none" },
  { long = "sequence-parallel", kind = "string", from = { "yes", "no" }, help = "yes or no",
    left_open = "yes", default = "yes" },
})

-- Options whose names are shorter than their fields'.
local FIELDS <const> = { overlap_gather_with_step = "overlap_param_gather_with_optimizer_step", bucket = "bucket_size" }

local TRUTH = { yes = true, no = false }

-- The knobs as options, with lists of values or single ones. tperf.search checks the numbers.
local function knob_options(many)
  local list = {}
  for i, knob in ipairs(knobs) do
    local number, usual = knob.kind == "integer", knob.default
    if many then usual = knob.left_open end
    list[i] = {
      long = knob.long, short = knob.short, column = knob.column, min = knob.min or 1, from = knob.from,
      help = knob.help .. (usual and (" (default %s)"):format(usual) or ""),
      value = (number and "N" or "NAME") .. (many and ",..." or ""),
      kind = many and (number and "integers" or "list") or knob.kind,
    }
  end
  return list
end

--- All options of a command: the question's, the knobs, its own, and the formats.
---@param many boolean  true: knobs take lists
function configuration.options(many, own)
  return options.join(question, knob_options(many), tuning.options, own, from.options, options.formats)
end

-- Converts "yes", or a list of such, to booleans.
local function as_booleans(option, value)
  if type(value) ~= "table" then
    if TRUTH[value] == nil then return nil, ("--%s: yes or no is needed, got '%s'"):format(option, value) end
    return TRUTH[value]
  end
  local list = {}
  for i, item in ipairs(value) do
    local truth, message = as_booleans(option, item)
    if message then return nil, message end
    list[i] = truth
  end
  return list
end

-- Converts "7,8,8,7" to a list; other texts stay as they are.
local function as_layout(text)
  if not text:find "^[%d,%s]+$" then return text end
  local list = {}
  for number in text:gmatch "%d+" do list[#list + 1] = math.tointeger(tonumber(number)) end
  return list
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
  local asked = { model = arguments[1], global_batch = values.batch, strategy = values.strategy }
  for _, option in ipairs(options.join(question, knobs)) do
    local name = option.long:gsub("-", "_")
    if name ~= "batch" then asked[FIELDS[name] or name] = values[name] end
  end
  if values.no_reshard then asked.reshard_after_forward = false end
  if values.no_compile then asked.compile = false end
  asked.no_reshard, asked.no_compile = nil, nil
  for _, option in ipairs { "sequence-parallel", "overlap-grad-reduce", "overlap-param-gather", "overlap-p2p" } do
    local name, message = option:gsub("-", "_"), nil
    if values[name] then asked[name], message = as_booleans(option, values[name]) end
    if message then return nil, message end
  end
  if asked.pipeline_layout then asked.pipeline_layout = as_layout(asked.pipeline_layout) end
  for name, value in pairs(asked) do
    if type(value) == "table" and #value == 1 then asked[name] = value[1] end
  end
  local wrong_tuning = tuning.fill(values, asked)
  if wrong_tuning then return nil, wrong_tuning end
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
  { key = "schedule", usual = "1f1b", wide = 2 }, { key = "dp" }, { key = "zero", usual = 1, wide = 1 },
  { key = "micro_batch", title = "mbs" }, { key = "microbatches", title = "m-batches", wide = 5 },
  { key = "panels", usual = 1 }, { key = "precision", usual = "bf16" },
  { key = recomputation.words, title = "recompute", usual = "none" }, { key = offload.words, title = "offload" },
  { key = "overlap_moe_a2a", title = "a2a overlap" }, { key = "delay_wgrad", title = "delayed wgrad", wide = 1 },
  { key = "overlap_shared_experts", title = "shared overlap", wide = 1 },
  { key = "sequence_parallel", title = "seq. parallel", usual = true, wide = 3 },
  { key = placement, title = "placement", wide = 4 }, { key = "time", unit = "s" },
  { key = "interval.low", title = "from", unit = "s", digits = 2 },
  { key = "interval.high", title = "to", unit = "s", digits = 2 },
  { key = "time_without_waste", unit = "s", csv = true }, { key = "mfu", unit = "%", digits = 3 },
  { key = function(c) return c.tokens_per_second / c.gpus end, title = "tokens/s/GPU", wide = 6 },
  { key = "memory.total", title = "memory", unit = "bytes" },
  { key = "host_memory", title = "host memory", unit = "bytes" }, { key = "feasible", title = "fits", usual = true },
  { key = "idle", title = "idle GPUs", usual = 0 }, { key = "software", csv = true },
})

-- A note on the software profile, and how accurate its times are.
local function told_of(c, profile, timed)
  if not timed then return "software " .. c.software end
  if c.software == "none" then return "software none: the formulas alone, without the waste of any stack" end
  if not (profile.spread and profile.error) then return "software " .. c.software end
  local told = ("software %s: half of the runs that its fit did not see came within %s, nine tenths took %.2g to %.2g "
    .. "times as long as predicted"):format(c.software, format.number(profile.error, "%", 2),
    table.unpack(profile.spread))
  if not c.warnings[1] then return told end
  return ("%s; this one is unlike them, so the table allows for %.2g to %.2g times"):format(told,
    c.interval.low / c.time, c.interval.high / c.time)
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
  local profile = c.software ~= "none" and software(values.software or c.software)
  if not values.json and not values.csv then
    print("\n" .. told_of(c, profile, timed))
    if c.gpus > system(machine).network.fast.domain then print(placed_of(c)) end
    if c.trained_parameters then print(("trains %d parameters"):format(c.trained_parameters)) end
    if timed and c.software ~= "none" and c.time_without_waste < c.time then
      print(("without waste (--software none) %s %s"):format(rows[2] and "the first takes" or "it takes",
        format.number(c.time_without_waste, "s")))
    end
  end
  io.stdout:flush()
  for _, warning in ipairs(c.warnings or {}) do io.stderr:write("tperf: ", warning, "\n") end
  local advice = profile and c.warnings[1] and unfit.advice(profile, system(machine), c.gpus)
  if advice then io.stderr:write("tperf: ", advice, "\n") end
end

return configuration
