--- `--from FILE`: a launch file as the arguments of train, memory, search and infer, and a note on what was read.
local ask = require "tperf.cli.ask.arguments"
local check = require "tperf.base.check"
local serving = require "tperf.base.lazy".module "tperf.question.serving_arguments"
local settings = require "tperf.cli.ask.settings"
local training = require "tperf.question.arguments"
local say = require "tperf.output.terminal".say

local from = {}

--- The options of every command that reads launch files.
from.options = {
  { long = "from", value = "FILE,...", kind = "list", help = "read it from a launch file (docs/recipes.md)" },
  { long = "stack", value = "NAME",
    help = "whose file it is (default: recognised); without one, whose profile" },
  { long = "set", value = "PATH=VALUE,...", kind = "list",
    help = "change model.FIELD, system.FIELD ...; or fill a gap in the file" },
  { long = "ignore", value = "NAME,...", kind = "list",
    help = "go on without these options of it, or fields of config.json" },
}

local function shown(value)
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  for i, one in ipairs(value) do parts[i] = tostring(one) end
  return table.concat(parts, " ")
end

local FIELDS <const> = { "gpus", "tp", "pp", "vp", "cp", "ep", "etp", "dp", "attention_tp", "attention_dp",
  "micro_batch",
  "microbatches", "global_batch", "seq", "zero", "reshard_after_forward",
  "sequence_parallel", "max_batch", "max_tokens", "chunk", "seq_max",
  "kv_dtype" }

local function summary(launch)
  local parts = {}
  for _, name in ipairs(FIELDS) do
    if launch[name] ~= nil then parts[#parts + 1] = ("%s %s"):format((name:gsub("_", " ")), shown(launch[name])) end
  end
  if launch.recompute then parts[#parts + 1] = "recompute " .. launch.recompute.granularity end
  return table.concat(parts, ", ")
end

-- Options of a list by the reason that it gives, in the order in which reasons first appear.
local function by_reason(list)
  local reasons, groups = {}, {}
  for _, one in ipairs(list) do
    if not groups[one.why] then
      groups[one.why] = {}
      reasons[#reasons + 1] = one.why
    end
    table.insert(groups[one.why], one.option)
  end
  return reasons, groups
end

-- Prints on standard error what was read from the file, what was assumed, and what was left out.
local function tell(launch, left_out)
  local function line(title, text)
    if text ~= "" then io.stderr:write(title, ": ", text, "\n") end
  end
  line(launch.stack, summary(launch))
  for _, text in ipairs(launch.assumed) do line("assumed", text) end
  local reasons, groups = by_reason(launch.understood.assumed)
  for _, why in ipairs(reasons) do line("assumed", ("%s (%s)"):format(why, table.concat(groups[why], " "))) end
  reasons, groups = by_reason(launch.understood.ignored)
  for _, why in ipairs(reasons) do
    line("changes neither time nor memory", ("%s (%s)"):format(table.concat(groups[why], " "), why))
  end
  for _, text in ipairs(left_out) do line("not in the prediction", text) end
  line("set, but in none of the files, and so without effect", table.concat(launch.without_use, " "))
end

-- What became of the file's options, for answers in JSON: { read, assumed, ignored }, with what --ignore leaves out.
local function record_of(launch, left_out)
  local record = { read = {}, assumed = {}, ignored = {} }
  for i, one in ipairs(launch.understood.read) do record.read[i] = one.option end
  for _, text in ipairs(launch.assumed) do table.insert(record.assumed, { why = text }) end
  for _, name in ipairs { "assumed", "ignored" } do
    for _, one in ipairs(launch.understood[name]) do
      table.insert(record[name], { name = one.option, value = one.value, why = one.why })
    end
  end
  for _, text in ipairs(left_out) do table.insert(record.ignored, { name = text, why = "not in the prediction" }) end
  return record
end

-- The arguments that a search leaves open, as it does without a file.
local function left_open()
  local open = {}
  for _, row in ipairs(training.rows()) do open[row.name] = row.open end
  open.pp, open.dp = true, true
  return open
end

-- What `tperf train` asks beside the question of a search.
local DETAILS <const> = { dp = true, fast = true, simulate = true, explain = true, straggling = true }

-- Stacks that shard the weights with the optimizer's state (PyTorch's FSDP), or nothing.
local FSDP <const> = { torchtitan = true, Accelerate = true }

-- The ZeRO stages for a search to try where the launch shards more than the optimizer's state; nil: the default.
local function stages_of(launch)
  if (launch.zero or 0) < 2 then return nil end
  return FSDP[launch.stack] and { 3 } or { 1, launch.zero }
end

-- Adds a server launch's dtypes and, for `tperf serve`, its engine and the engine's settings to the arguments.
local function add_engine(asked, launch, left_out, serve, software, acceptance)
  local into = require "tperf.import.launch.arguments"
  for name, value in pairs(into.dtypes(launch)) do asked[name] = value end
  if not serve then return end
  local engine, left = into.engine(launch, software)
  for name, value in pairs(engine) do asked[name] = value end
  asked.replicas, asked.dp, asked.batch = asked.dp, nil, nil
  local drafts = acceptance and launch.speculative -- a launch says how many are drafted, but not how many accepted
  local n = drafts and (drafts.draft_tokens or drafts.steps)
  if n then asked.speculation = ("%s:%d"):format(tostring(drafts.method or "draft_model"):lower(), n) end
  table.move(left, 1, #left, #left_out + 1, left_out)
end

-- The launch of --from with the values of --set; nil and a message. Cached by values.
local read = setmetatable({}, { __mode = "k" })
local function launch_of(values)
  if read[values] then return table.unpack(read[values]) end
  local changes, given = settings.read(values.set)
  if not changes then return nil, given end
  local gpus = type(values.gpus) == "table" and values.gpus[1] or values.gpus -- a search has several
  local launch = require "tperf".import.launch { files = values.from, stack = values.stack, given = given, gpus = gpus }
  read[values] = { launch, given }
  return launch, given
end

--- Whether the file of --from launches servers.
function from.serves(values)
  local launch = values.from and launch_of(values)
  return launch and launch.kind == "serving" or false
end

-- The names of --ignore that are options of the launch file: others are fields of the model's, model.FIELD.
local function ignored_options(names)
  local own = {}
  for _, name in ipairs(names or {}) do
    if not name:find "^model%." then own[#own + 1] = name end
  end
  return own[1] and own or nil
end

local OTHERS <const> = { train = "serve", search = "serve", serve = "train", infer = "train" }

-- Takes the software profile of --stack without a file, and says which it is.
local function choose_stack(values, serves)
  local t = require "tperf.import.launch.tables".of(values.stack)[1]
  if (t.kind == "serving") ~= serves then
    error(("--stack %s: %s %s"):format(values.stack, t.stack, serves and "trains" or "serves"), 0)
  end
  local profile = t.software or serves and require "tperf.import.launch.arguments".profile(t.stack) or nil
  values.software = values.software or profile
  io.stderr:write(("%s: %s\n"):format(t.stack, values.software and "software " .. values.software
    or "the software that the layout implies, for it has no profile of its own"))
end

--- Fills in values and arguments of a command from the file of --from, except those given on the command line, and
--- applies --set.
---@param values table
---@param arguments table   the MODEL first; taken from the file if absent
---@param how string        "train"; "search": leave open what a search decides; "infer"; "serve": with the options
---  of `tperf serve`
---@return string? message  if the options are wrong
function from.fill(values, arguments, how)
  if not values.from then
    if values.stack and how == "infer" then return "--stack goes with --from: `tperf serve` has engines' profiles" end
    if values.stack then choose_stack(values, how == "serve") end
    return settings.apply(values, arguments)
  end
  local launch, given = launch_of(values)
  if not launch then return given end
  local asked, left_out = require "tperf".import.arguments(launch, {
    vocab = given.vocab, micro_batch = given.micro_batch, global_batch = given.global_batch, seq = given.seq,
    model = arguments[1], acceptance = values.acceptance, ignore = ignored_options(values.ignore),
    drafts = how == "serve" and "--acceptance says how many drafts count" or nil,
  })
  local serves = launch.kind == "serving"
  if serves ~= (how == "serve" or how == "infer") then
    error(("%s: this launch of %s %s: tperf %s reads it"):format(values.from[1], launch.stack,
      serves and "serves" or "trains", OTHERS[how]), 0)
  end
  if serves then add_engine(asked, launch, left_out, how == "serve", values.software, values.acceptance) end
  tell(launch, left_out)
  values.understood = record_of(launch, left_out)
  arguments[1] = asked.model
  local changes, open = settings.read(values.set), how == "search" and left_open() or {}
  local known = ask.options(serves and serving.rows(how) or training.rows(), false)
  for _, name in ipairs(check.names(asked)) do
    local option, value = ask.in_values(known, name, asked[name])
    local skipped = name == "model" or open[name]
      or name == "seq" and changes.model and changes.model.seq ~= nil -- the command line overrides the file
    if option and values[option] == nil and not skipped then values[option] = value end
  end
  if how == "search" then values.zero = values.zero or stages_of(launch) end
  return settings.apply(values, arguments, true)
end

--- Prints the best configurations for the same model, batch, numerics and GPUs, beside the launch's own: the first
--- rows of `tperf search --from`.
---@param values table  the command's options
---@param asked table   arguments of tperf.train
---@param c table       its configuration
function from.faster(values, asked, c, columns)
  local question, open = { gpus = c.gpus, top = 3, zero = stages_of((launch_of(values))) }, left_open()
  for name, value in pairs(asked) do
    if not open[name] and not DETAILS[name] then question[name] = value end
  end
  local ok, found = check.attempt(require "tperf".search, question)
  if not ok then
    say("\nNo search for faster ways: " .. tostring(found))
    return
  end
  local rows = {}
  for i, one in ipairs(found) do
    if one.time < c.time * 0.995 or not c.feasible then rows[#rows + 1] = found[i] end
  end
  if not rows[1] then
    print "\nNo way to use these GPUs was found that is faster."
    return
  end
  print(c.feasible and ("\nFaster on the same GPUs, by %.0f %%:"):format(100 * (c.time / rows[1].time - 1))
    or "\nThe launch does not fit; these do:")
  require "tperf.cli.answer.table"({}, rows, columns)
end

return from
