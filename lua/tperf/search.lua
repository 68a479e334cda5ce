--- tperf.search: all ways to train a model on a machine, best first.
local core = require "tperf.core".search
local check = require "tperf.check"
local configuration = require "tperf.configuration"
local layer = require "tperf.layer"
local layout = require "tperf.layout"
local model = require "tperf.model"
local rules = require "tperf.rules"
local space = require "tperf.space"
local strategy = require "tperf.strategy"
local system = require "tperf.system"

local SHAPES_AT_ONCE = 512 -- laid out before the core walks them

local size = { min = 1, max = 1 << 31 }
local function one_or_list(checker) return check.one_of(checker, check.list(checker, { min = 1 })) end
local function optional(checker)
  return function(value, path)
    if value == nil then return nil end
    return checker(value, path)
  end
end
local sizes = optional(one_or_list(check.integer(size)))

local fixed_fields = { "micro_batch", "panels", "pp", "dp" }

local function schema_of(strategies)
  local schema = {
    model = check.any(), system = check.any(),
    gpus = one_or_list(check.integer(size)), global_batch = check.integer(size),
    strategy = check.any { optional = true }, attention = layout.attention_checker,
    top = check.integer { min = 1, max = 1 << 20, default = 10 },
    keep = check.choice { { "all", "best" }, default = "best" },
    prune = check.boolean { default = true }, infeasible = check.boolean { default = false },
    seq = check.integer { min = 1, max = 1 << 31, optional = true },
    threads = check.integer { min = 1, max = 1024, optional = true },
    rules = check.any { optional = true }, where = check.func { optional = true },
    progress = check.func { optional = true },
  }
  for _, name in ipairs(fixed_fields) do schema[name] = sizes end
  local fast = { dp = check.integer { min = 1, optional = true }, pp = check.integer { min = 1, optional = true } }
  for _, s in ipairs(strategies) do
    local axes, placed = layer.axis_fields(s, sizes)
    for name, checker in pairs(axes) do schema[name], fast[name] = checker, placed[name] end
  end
  schema.fast = check.record_of(fast, { optional = true })
  return schema
end

local function as_list(value)
  if value == nil or type(value) == "table" then return value end
  return { value }
end

-- A list of systems: names, or tables without the fields of a system.
local function systems_of(value)
  if type(value) ~= "table" or value.network or value.accelerator then return { system(value) }, false end
  local list = {}
  for i, item in ipairs(value) do list[i] = system(item) end
  if #list == 0 then check.fail("tperf.search: 'system' is an empty list") end
  return list, true
end

local function questions_of(o, network, set)
  local systems, many_systems = systems_of(o.system)
  local questions = {}
  for _, machine in ipairs(systems) do
    for _, gpus in ipairs(as_list(o.gpus)) do
      questions[#questions + 1] = {
        model = network, system = machine, gpus = gpus, global_batch = o.global_batch, rules = set,
      }
    end
  end
  return questions, many_systems or type(o.gpus) == "table"
end

local function fixed_of(o, strategies)
  local fixed = {}
  for _, name in ipairs(fixed_fields) do fixed[name] = as_list(o[name]) end
  for _, s in ipairs(strategies) do
    for _, name in ipairs(s.axis_names) do fixed[name] = as_list(o[name]) end
  end
  return fixed
end

-- The record that `where` sees for something the core found.
local function describe(search, question, found)
  local s = search.strategies[found.strategy]
  return configuration.of(question, s, search.layers[found.strategy](found.sizes, found.micro_batch), found)
end

local function new_core_search(search, o)
  local fast = o.fast or {}
  local accept = o.where and function(question, found)
    return o.where(describe(search, search.questions[question], found)) and true or false
  end
  return core.new({
    layers = search.model.layers, top = o.top, threads = o.threads or core.threads(),
    keep_all = o.keep == "all", no_pruning = not o.prune, infeasible_too = o.infeasible,
    dp_fast = fast.dp, pp_fast = fast.pp,
  }, search.rules, search.questions, search.fixed.pp, search.fixed.dp, accept)
end

-- Lays out the shapes of all strategies and walks them, some hundred at a time. false when interrupted.
local function walk(search, o)
  local shapes, complete, done = {}, true, 0
  local function flush()
    if #shapes > 0 and complete then
      complete = search.core:walk(shapes)
      done = done + #shapes
      if o.progress then o.progress(done) end
    end
    shapes = {}
  end
  for number, s in ipairs(search.strategies) do
    local fast = {}
    for i, name in ipairs(s.axis_names) do fast[i] = o.fast and o.fast[name] or 0 end
    space.each_shape(s, search.model, search.rules, search.questions, search.fixed, search.refused,
      function(axis_sizes, micro_batch, panels)
        if not complete then return end
        shapes[#shapes + 1] = {
          strategy = number, layer = search.layers[number](axis_sizes, micro_batch), micro_batch = micro_batch,
          panels = panels, fast = fast,
        }
        if #shapes == SHAPES_AT_ONCE then flush() end
      end)
  end
  flush()
  return complete
end

-- Why a question has no candidate, in words.
local function why_none(search, question)
  local domain = question.system.network.fast.domain
  if not search.rules.placements_may_underfill and question.gpus > domain and question.gpus % domain ~= 0 then
    return ("%d GPUs do not fill fast domains of %d exactly, as the rules '%s' demand"):format(question.gpus, domain,
      search.rules.name)
  end
  local text = ("no split of %d GPUs into %s, pp and dp has pp dividing %d layers, dp x micro-batch dividing the "
    .. "global batch of %d and the sequence of %d cut evenly"):format(question.gpus,
    table.concat(search.strategies[1].axis_names, ", "), search.model.layers, question.global_batch, search.model.seq)
  local refused = table.concat(search.refused, "; ", 1, math.min(3, #search.refused))
  return refused == "" and text or text .. "; " .. refused
end

local function answer(search, index, complete)
  local question = search.questions[index]
  local found = search.core:answer(index)
  local result = {
    candidates = found.candidates, feasible = found.feasible, complete = complete,
    evaluated = not search.prune and found.evaluated or nil, -- with pruning it depends on the threads' luck
    model = question.model, system = question.system, gpus = question.gpus, global_batch = question.global_batch,
  }
  for i, item in ipairs(found) do result[i] = describe(search, question, item) end
  if found.candidates == 0 then
    result.reason = why_none(search, question)
  elseif found.feasible == 0 then
    result.reason = ("none of %d candidates fits in %s of memory"):format(found.candidates,
      require "tperf.units".format(question.system.accelerator.hbm.capacity, "bytes"))
  end
  return result
end

--- Searches all ways to run a model on a machine.
---@param given table
---  model, system    a name, a file or a table; system may be a list
---  gpus             a number or a list
---  global_batch     samples per iteration
---  strategy         a name ("tensor"), a list of names, or "all"; the best across them
---  attention        "flash" (default), "unfused", "recompute", "summa"
---  top              how many configurations to return (10)
---  keep             "all": every candidate, feasible or not
---  micro_batch, panels, pp, dp, tp …   a number or a list: only these
---  fast             { tp =, dp = … }: only these placements
---  where            function(configuration) -> boolean: which may be returned. Called only for those good enough to
---                   be; `candidates` and `feasible` count before it
---  infeasible       true: let configurations that do not fit compete
---  prune            false: evaluate what bounds rule out as well; the answer is the same
---  seq              tokens, in place of the model's
---  rules            "default", "subramanian2024" or a table, see tperf.rules
---  threads          as many as there are processors
---  progress         function(shapes done)
---@return table result  { [1 … top] = configuration, candidates, feasible, evaluated, complete, seconds, reason }, best
---  first; complete is false when Ctrl-C ended the search, reason says why nothing was found, and evaluated counts the
---  candidates that were timed when prune is false. A list of such results, systems outermost, when gpus or system is a
---  list.
local function run(given)
  local start = core.clock()
  local strategies = strategy.list(type(given) == "table" and given.strategy or "tensor")
  local o = check.record("tperf.search", given, schema_of(strategies))
  local network, set = model(o.model), rules(o.rules)
  if o.seq then network = network:with { seq = o.seq } end
  local questions, many = questions_of(o, network, set)
  local search = {
    model = network, rules = set, strategies = strategies, questions = questions, layers = {}, refused = {},
    fixed = fixed_of(o, strategies), prune = o.prune,
  }
  for i, s in ipairs(strategies) do search.layers[i] = layout.layers(network, s, o.attention, set) end
  search.core = new_core_search(search, o)
  local complete = walk(search, o)
  local results = {}
  for i in ipairs(questions) do results[i] = answer(search, i, complete) end
  local seconds = core.clock() - start
  for _, result in ipairs(results) do result.seconds = seconds end
  return many and results or results[1]
end

return { run = run }
