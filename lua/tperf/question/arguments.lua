--- The arguments of questions about training, one row each. What checks them, the commands' options, their help, the
-- reference, the JSON Schema, and what a configuration carries from a search to tperf.train come from these rows.
--   name     of the argument
--   check    checks one value and supplies its default
--   group    heading under which the commands' help lists it
--   doc      what it means, in a few words that the help has room for; more: sentences for the reference
--   many     tperf.search takes a list and tries each of its values. default: of tperf.train; usual, tried: what
--            tperf.train and a search take for it if it is not given, in words
--   open     a search leaves it open, though a launch file says what the stack does now
--   described  the part that it belongs to writes into a configuration what became of it
--   option   where the command's option differs from what follows from name and check (tperf.cli.ask.arguments)
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local graphs = require "tperf.describe.arch.graphs"
local has = require "tperf.base.lists".has
local offload = require "tperf.describe.arch.offload"
local overlap = require "tperf.describe.overlap"
local pipeline_layout = require "tperf.describe.pipeline_layout"
local placement = require "tperf.question.placement"
local precision = require "tperf.describe.precision"
local recompute = require "tperf.describe.arch.recompute"
local training = require "tperf.describe.optimizers"
local tuning = require "tperf.describe.tuning"
local workload = require "tperf.describe.workload"

local arguments = {}

local size = check.integer { min = 1, max = 1 << 31 }
local optional_size = check.integer { min = 1, max = 1 << 31, optional = true }
local any, optional = check.any(), check.any { optional = true }

local PROBLEM <const> = {
  { name = "model", group = "model and machine", check = any, doc = "a name, a file or a table", option = false },
  { name = "system", group = "model and machine", check = any, doc = "the system (`tperf list systems`, or a file)",
    more = "A name, a file or a table; tperf.search takes a list of them, too.",
    option = { short = "s", value = "NAME", from = "systems files" } },
  { name = "global_batch", group = "model and machine", check = size, doc = "global batch, in sequences",
    option = { long = "batch", short = "b" } },
  { name = "seq", group = "model and machine", check = optional_size, doc = "sequence length (default: the model's)" },
  { name = "rules", group = "model and machine", check = optional, doc = "modelling rules (`tperf list rules`)",
    more = "\"default\", \"subramanian2024\" or a table, see tperf.rules.",
    option = { value = "NAME", from = "rules" } },
  { name = "software", group = "model and machine", check = optional,
    doc = "training stack (default: by the layout; none: no stack)",
    more = "A profile's name, a file or a table, see tperf.software. By default the commonest stack that does what "
      .. "the arguments say, with `typical` numbers: on TPUs MaxText; one part per layer: with adapters in 16 bits "
      .. "transformers-4, with an optimizer on the host deepspeed-2026, under ZeRO 3 fsdp2-2026; ZeRO 1 and 2 over "
      .. "some replicas: internevo-0.5; else megatron-core-2026; eager kernels: typical. \"none\" is the default of "
      .. "rules without `typical_software`.", option = { value = "NAME", from = "software none" } },
}

local LAYOUT <const> = {
  { name = "strategy", group = "layout", many = true, open = true, check = optional,
    doc = "how a layer is split (`tperf list strategies`; default tensor)",
    more = "By default the first strategy that has the axes given. tperf.search takes \"all\", too, and ranks them "
      .. "together.", option = { value = "NAME", from = "strategies" } },
  { name = "gpus", group = "layout", many = true, check = optional_size, doc = "GPUs",
    more = "Of tperf.train, dp and gpus follow from each other.", option = { short = "g" } },
}

local PIPELINE <const> = {
  { name = "pp", group = "pipeline", many = true, check = size, default = 1, doc = "pipeline parallelism: stages" },
  { name = "dp", group = "layout", many = true, check = optional_size, doc = "data parallelism" },
  { name = "micro_batch", group = "layout", many = true, open = true, check = size, default = 1,
    doc = "sequences per micro-batch", option = { short = "m", column = "mbs" } },
  { name = "panels", group = "layout", many = true, check = optional_size, doc = "panels of a SUMMA multiplication",
    more = "By default the fastest number." },
  { name = "schedule", group = "pipeline", many = true, open = true, check = check.string(), default = "1f1b",
    tried = "1f1b,interleaved_1f1b; or any", doc = "pipeline schedules",
    more = "\"any\" is each that has a closed form; a schedule without one, such as a custom schedule, is ranked by "
      .. "simulation.", option = { from = "schedules" } },
  { name = "virtual_stages", group = "pipeline", many = true, open = true,
    check = check.integer { min = 1, max = 64, optional = true }, tried = "2,3,4,6,8",
    doc = "chunks of layers per device, if interleaved",
    more = "A search tries those that deal the layers out evenly.", option = { column = "vpp" } },
  { name = "zero", group = "layout", many = true, open = true, check = check.integer { min = 0, max = 3 }, default = 1,
    tried = "1", doc = "ZeRO stage, 0 to 3" },
  { name = "sequence_parallel", group = "layout", many = true, open = true, check = check.boolean(), default = true,
    tried = "yes", doc = "yes or no" },
}

-- The fields of `fast` are the strategy's axes.
local PLACED <const> = {
  { name = "fast", group = "placement", check = optional, doc = "GPUs of each axis in one fast domain",
    more = "{ tp =, dp =, pp = }, in place of the order of ranks; axes that are left open are placed as is fastest.",
    option = { value = "tp=8,dp=2", kind = "pairs" } },
}

local NUMERICS <const> = {
  { name = "attention", group = "numerics", check = workload.attention_checker,
    doc = "flash (default), unfused, recompute or summa" },
  { name = "precision", group = "numerics", check = precision.checker,
    doc = "of matrix products: bf16 (default), fp8-block, mxfp8 ...",
    more = "A recipe's name or a table (docs/model.md, section 1.10).",
    option = { value = "NAME", from = precision.names } },
}

local EXPERTS <const> = {
  { name = "routing", group = "numerics",
    check = check.choice { { "balanced", "pretraining", "mock", "finetuning" }, optional = true },
    doc = "load of experts: balanced, pretraining, mock or finetuning",
    usual = "pretraining; finetuning with adapters or preferences; balanced without software", tried = "pretraining",
    more = "balanced: as benchmarks force it. pretraining: on text. mock: on random tokens. finetuning: on data of one "
      .. "kind, without a loss that balances it; docs/model.md, section 2.3, says how unequal each is." },
  { name = "imbalance", group = "numerics", check = check.number { min = 1, max = 1e6, optional = true },
    doc = "rows of the busiest GPU's experts over the mean (as routing)", option = { value = "X" } },
}

local function append(list, rows) return table.move(rows, 1, #rows, #list + 1, list) end

local before, after = append(append({}, PROBLEM), LAYOUT), append(append(append({}, PIPELINE), PLACED), NUMERICS)
append(after, EXPERTS)
for _, part in ipairs { training, recompute, offload, overlap, graphs, pipeline_layout, tuning, placement } do
  append(after, part.arguments)
end

-- The row of an axis or option of strategies (axes.every).
local function row_of_strategy(entry)
  local axis, option = entry.axis, entry.option
  local row = { name = entry.name, group = "layout", many = true, open = true, strategies = entry.strategies }
  if option then
    row.check = check.choice { option.choices, optional = true }
    local choices = option.choices
    local words = table.concat(choices, ", ", 1, #choices - 1) .. " or " .. choices[#choices]
    row.doc, row.option = option.meaning or words, { help = words }
    row.tried, row.usual = choices[1], choices[1]
  else
    local said = axis.said or {}
    row.check, row.doc, row.tried, row.usual = optional_size, axis.meaning or "", said.search, said.train
  end
  return row
end

local listed = {} -- the rows of all strategies, as long as there are no others

--- All rows, in the order of the commands' help; do not change them. The same table until a strategy is defined.
---@return table[]
function arguments.rows()
  local every = axes.every()
  if listed.of ~= every then
    local list = append({}, before)
    for _, entry in ipairs(every) do list[#list + 1] = row_of_strategy(entry) end
    listed = { of = every, rows = append(list, after) }
  end
  return listed.rows
end

-- Adds the checkers of rows to a schema; many: those that a search tries take lists, and none has a default.
local function add(schema, rows, many)
  for _, row in ipairs(rows) do
    local one = row.check
    if row.many and many then
      one = check.describe(one).kind == "any" and check.any { optional = true, many = true } or check.one_or_list(one)
    elseif row.default ~= nil then
      one = check.with_default(one, row.default)
    end
    schema[row.name] = one
  end
end

--- The schema of questions about these strategies.
---@param strategies table[]
---@param many boolean  true: as tperf.search takes them; false: as tperf.train does
---@return table<string, function>
function arguments.schema(strategies, many)
  local schema, placed = {}, { dp = optional_size, pp = optional_size }
  add(schema, before, many)
  add(schema, after, many)
  for _, s in ipairs(strategies) do
    local rows = {}
    for i, axis in ipairs(s.axes) do
      rows[i], placed[axis.name] = row_of_strategy { name = axis.name, axis = axis }, optional_size
    end
    for name, option in pairs(s.options) do rows[#rows + 1] = row_of_strategy { name = name, option = option } end
    add(schema, rows, many)
  end
  schema.fast = check.record_of(placed, { optional = true })
  return schema
end

-- Of these a configuration has the name at most.
local OBJECTS <const> = { "model", "system", "rules", "software", "precision" }

-- The arguments that a configuration repeats as they were given: no candidate chooses them, no part describes them.
local repeated = {}
for _, rows in ipairs { before, after } do
  for _, row in ipairs(rows) do
    local own = not (row.many or row.described or row.group == "placement" or row.name == "global_batch")
    repeated[row.name] = own and not has(OBJECTS, row.name)
  end
end

-- Configuration -> the model, system … of its question. They are the script's own tables, which no file keeps.
local objects_of = setmetatable({}, { __mode = "k" })

local function objects_in(given, system)
  local objects = {}
  for _, name in ipairs(OBJECTS) do objects[name] = given[name] end
  objects.system = system
  return objects
end

--- Writes into a configuration what it repeats of its question.
---@param c table         changed in place
---@param o table         checked arguments; o.given: as the caller gave them
---@param question table  `named`: the system of those given that it is on
function arguments.repeat_in(c, o, question)
  local given = o.given or {}
  for name in next, given do
    if repeated[name] and c[name] == nil then c[name] = o[name] end
  end
  question.objects = question.objects or objects_in(given, question.named)
  objects_of[c] = question.objects
end

local PLACED_BY <const> = { "fast", "placement", "rank_order" }

-- Sets how a configuration is placed, unless the caller says so.
local function add_placement(merged, c, given)
  for _, name in ipairs(PLACED_BY) do
    if given[name] ~= nil then return end
  end
  if c.rank_order then merged.rank_order = c.rank_order else merged.fast = c.fast end
end

local FOLLOWS <const> = { gpus = true, model = true, system = true } -- gpus from dp; objects are no fields
for _, name in ipairs(PLACED_BY) do FOLLOWS[name] = true end

--- The arguments of tperf.train that a configuration is the answer to, with those that the caller gives in their place.
---@param c table      a configuration, perhaps from a file
---@param given table  the caller's
---@param s table      the strategy
---@return table
function arguments.of_configuration(c, given, s)
  local merged = {}
  for _, rows in ipairs { before, after } do
    for _, row in ipairs(rows) do
      if not FOLLOWS[row.name] then merged[row.name] = c[row.name] end
    end
  end
  for _, name in ipairs(s.axis_names) do merged[name] = c[name] end
  for name in pairs(s.options) do merged[name] = c[name] end
  for name, value in pairs(objects_of[c] or {}) do merged[name] = value end
  add_placement(merged, c, given)
  if given.recompute ~= nil then -- these belong to the granularity
    merged.recompute_modules, merged.recompute_keep = nil, nil
    merged.recompute_method, merged.recompute_num_layers = nil, nil
  end
  for name, value in pairs(given) do merged[name] = value end
  merged.configuration = nil
  return merged
end

return arguments
