--- tperf.import.launch: reads a launch file of a real stack into tperf's terms. docs/recipes.md.
local check = require "tperf.base.check"
local roots = require "tperf.base.roots"
local launch_arguments = require "tperf.import.launch.arguments"
local checkpoints = require "tperf.import.launch.arguments.checkpoints"
local commands = require "tperf.import.launch.commands"
local files = require "tperf.import.launch.files"
local harness = require "tperf.import.launch.harness"
local launcher = require "tperf.import.launch.launcher"
local shell = require "tperf.import.launch.shell"
local manifest = require "tperf.import.launch.shell.manifest"
local reading = require "tperf.import.launch.reading"
local tables = require "tperf.import.launch.tables"
local trees = require "tperf.import.launch.trees"

local launch = {}

local schema = {
  files = check.list(check.any(), { min = 1, max = 64 }),
  stack = check.string { optional = true }, version = check.string { optional = true },
  options = check.string { optional = true }, given = check.any { optional = true },
  gpus = check.integer { min = 1, optional = true },
}

-- Splits `given` into a script's variables, as strings, and the rest (gpus, command, function …).
local function split_given(given)
  local variables = {}
  for _, name in ipairs(check.names(given)) do
    local value = given[name]
    if type(name) ~= "string" or type(value) == "table" or type(value) == "function" then
      check.fail("tperf.import.launch: 'given' has names and values, got %s = %s", check.show(name), check.show(value))
    end
    if math.type(value) == "float" and value % 1 == 0 then value = math.tointeger(value) end
    variables[name] = tostring(value)
  end
  return variables
end

-- Names that `given` may have besides a script's variables.
local KNOWN <const> = { gpus = true, command = true, ["function"] = true, vocab = true, seq = true, micro_batch = true,
  global_batch = true, model = true, acceptance = true, drafts = true, variant = true, strategy = true,
  hardware = true }

-- The names in `given` that stand in none of the texts.
local function without_use(given, texts)
  local list = {}
  for _, name in ipairs(check.names(given)) do
    local found, word = KNOWN[name] or false, "%f[%w_]" .. name:gsub("%W", "%%%0") .. "%f[^%w_]"
    for _, text in ipairs(texts) do found = found or text:find(word) ~= nil end
    if not found then list[#list + 1] = name end
  end
  return list
end

-- Runs a shell script; returns its commands, its variables and the files that it wrote. Adds those that it reads to
-- texts.
local function run_script(script, all, variables, texts)
  local slurm = launcher.directives(script.text)
  local environment = launcher.environment(slurm)
  local usual, name = harness.environment(script.text)
  for key, value in pairs(usual) do environment[key] = environment[key] or value end
  local function find(wanted)
    local base = roots.last(wanted)
    for _, one in ipairs(all) do
      if one ~= script and one.name == base then return one.text end
    end
    local text = files.beside(script.folder, wanted)
    texts[#texts + 1] = text
    return text
  end
  local sh = shell.new(variables, environment, find)
  local ok, problem = pcall(sh.run, sh, script.text, script.path)
  if not ok then check.fail("%s", type(problem) == "table" and problem.shell or tostring(problem)) end
  return sh, sh.submitted or slurm, name and { name = name, variables = usual }
end

local function first_of(all, kind)
  for _, one in ipairs(all) do
    if one.kind == kind and not (kind == "shell" and one.name:find "%.conf$") then return one end
  end
end

-- The table of the stack asked for, or the user's file, or the table that fits best. Sets o.also to another stack whose
-- table fits as well.
local function table_for(o, fits)
  if o.options then return tables.load(o.options) end
  if o.stack then
    local list = tables.of(o.stack, o.version)
    local best, most = list[1], -1
    for _, t in ipairs(list) do
      local fit = fits(t)
      if fit > most then best, most = t, fit end
    end
    return best
  end
  local best, most = nil, 0
  for _, t in ipairs(tables.all()) do
    local fit = fits(t)
    if fit > most then
      best, most, o.also = t, fit, nil
    elseif best and fit == most and t.stack ~= best.stack then
      o.also = o.also or t.stack
    end
  end
  return best
end

-- The GPUs by the variables that torchrun's callers read (ms-swift).
local function processes_of(environment, variables)
  local function number(name) return math.tointeger(tonumber(environment[name] or variables[name])) end
  local each = number "NPROC_PER_NODE"
  return each and each * (number "NNODES" or 1)
end

-- The devices that a process sees, by CUDA_VISIBLE_DEVICES.
local function devices_of(environment, variables)
  local list = environment.CUDA_VISIBLE_DEVICES or variables.CUDA_VISIBLE_DEVICES
  return type(list) == "string" and list:find "^[%d,]+$" and select(2, list:gsub("%d+", "")) or nil
end

local function from_shell(o, all, script, variables, texts, notes)
  local sh, slurm, usual = run_script(script, all, variables, texts)
  local function fits(t)
    if t.form == "env" then
      local count = 0
      for _, row in ipairs(t.options) do count = count + (sh.vars[row.option] ~= nil and 1 or 0) end
      return count
    end
    return commands.fit(sh.commands, t)
  end
  local t = table_for(o, fits)
  if t and t.form == "env" then return reading.environment(o, t, sh, script) end
  local picked = t and commands.pick(sh.commands, t, o.given.command, script.path,
    script.servers and t.kind == "serving" and function(text) notes[#notes + 1] = text end or nil)
  if picked and t.defers and commands.program(picked.command.words,
    tables.load(t.defers)) then t = tables.load(t.defers) end
  if not picked then
    check.fail("%s: no command that starts %s; 'stack' names another (known: megatron, torchtitan, vllm …)",
      script.path, t and t.stack or "a stack that is known")
  end
  local at = commands.program(picked.command.words, t) or picked.at
  local before = table.move(picked.command.words, 1, math.max(at - 1, 0), 1, {})
  local argv, gpus, missing = harness.zoo(picked.command, at, all, variables)
  if not argv then
    gpus, missing = launcher.gpus(picked.command.words, at > 0 and at - 1 or #picked.command.words, slurm)
    if not gpus and t.stack == "DeepSpeed" then gpus = launcher.gpus(picked.command.words, #picked.command.words,
      slurm) end
    gpus = gpus or processes_of(picked.command.environment, sh.vars)
    argv = table.move(picked.command.words, at + 1, #picked.command.words, 1, {})
  end
  return reading.command(o, t, { argv = argv, gpus = gpus, missing = missing, sh = sh, script = script, all = all,
    usual = usual, line = picked.command.line, path = picked.command.where, before = before,
    program = at > 0 and roots.last(picked.command.words[at]) or nil,
    devices = devices_of(picked.command.environment, sh.vars) })
end

--- Reads a launch file and the files beside it that it needs. docs/recipes.md.
---@param arguments table
---  files     the paths, a script first; or { name = "run.sh", text = "…" }
---  stack     the stack's name, such as "megatron"; by default the one that fits best
---  version   the version of the stack's table; by default the newest
---  options   a custom table of options: a YAML like recipes/*.yaml, or a CSV
---  given     what the files do not say: gpus, command (which one of a script), function (of a Python recipe), and a
---            script's variables by name
---  gpus      the GPUs of a launch whose files do not say them; given.gpus are its GPUs whatever they say
---@return table launch  for training gpus, tp, pp, vp (chunks per device), cp, ep, etp, dp, micro_batch,
---  microbatches, global_batch, seq, zero, sequence_parallel, recompute, precision, overlap, model or model_name; for
---  serving gpus, tp, pp, dp, attention_tp, attention_dp, ep, etp, max_batch, max_tokens or chunk, seq_max, kv_dtype …,
---  or a table for each role. Also stack, version, kind, and what became of the options: understood = { read, assumed,
---  ignored } (lists of { option, value, why, place }), refused (likewise; near: the option that one may mean), which
---  tperf.import.arguments raises unless told to ignore them; assumed (texts), without_use (names in `given` that stand
---  in no file)
function launch.read(arguments)
  local o = check.record("tperf.import.launch", arguments, schema)
  o.given = o.given or {}
  if type(o.given) ~= "table" then check.fail "tperf.import.launch: 'given' must be a table" end
  local variables, all, notes = split_given(o.given), {}, {}
  for i, path in ipairs(o.files) do
    if type(path) ~= "string" and type(path) ~= "table" then
      check.fail("tperf.import.launch: files[%d] must be a path, got %s", i, check.show(path))
    end
    all[i] = files.open(path)
    if manifest.recognise(all[i]) then
      local gpus = math.tointeger(tonumber(variables.gpus)) or o.gpus
      all[i], notes = manifest.script(all[i], variables, gpus)
    end
  end
  local script, texts = first_of(all, "shell"), {}
  for i, one in ipairs(all) do texts[i] = one.text end
  local r = script and from_shell(o, all, script, variables, texts, notes) or trees.read(o, all, table_for)
  if r.refused and not (r.prefill or r.decode) then
    local lacking = launch_arguments.lacking(r, all[1].path)
    table.move(lacking, 1, #lacking, #r.refused + 1, r.refused)
  end
  r.without_use = without_use(variables, texts)
  table.move(notes, 1, #notes, #r.assumed + 1, r.assumed)
  if o.also then
    local words = "the file is %s's; its options fit %s as well: --stack says which"
    r.assumed[#r.assumed + 1] = words:format(r.stack, o.also)
  end
  local stored = r.kind == "serving" and not r.quantization and checkpoints.quantization(r.model_name)
  if stored and stored ~= "unknown" then
    r.assumed[#r.assumed + 1] = ("quantization %s, as the name %s says"):format(stored, r.model_name)
  end
  return r
end

return setmetatable(launch, { __call = function(_, arguments) return launch.read(arguments) end })
