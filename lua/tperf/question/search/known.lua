--- Shapes of searches that were laid out before. Questions that differ in what machines cost and in software alone have
--- the same ones: neither decides what there is to try, nor what can fit.
local core = require "tperf.core"

local encode = core.codec.encode

local known = {}

local MOST_OPS <const> = 16384 -- of a model; each takes three quarters of a KiB

-- Model -> { ops, lists = text -> { shapes = userdata, count, refused, objects } }. objects keeps those alive whose
-- addresses are in the text. The shapes of a model go with it.
local of_models = setmetatable({}, { __mode = "k" })

-- What each question adds to what may be tried, and to what may fit.
local function asked(p)
  local list = {}
  for i, question in ipairs(p.questions) do
    list[i] = { question.gpus, question.global_batch, question.system.accelerator.hbm.capacity }
  end
  return list
end

--- What decides the shapes of a search as text, and the objects in it; nil where blocks or strategies of a script's own
--- do, which may do as they like.
---@param p table  as problem.of makes it
---@param o table  options of the walk
---@return string? key, table? objects
function known.key(p, o)
  if p.model.architecture then return nil end
  local objects, names = { p.pipelines }, {}
  for i, s in ipairs(p.strategies) do
    if not s.built_in then return nil end
    objects[2 * i], objects[2 * i + 1] = s, p.layouts[i]
  end
  for i, object in ipairs(objects) do names[i] = ("%p"):format(object) end
  local everything = o.keep == "all" or o.infeasible or not o.prune or false
  return table.concat(names, " ") .. encode { asked(p), p.rules, p.training, p.variants, p.zero, p.fixed, p.pps,
    o.fast or {}, everything }, objects
end

--- The shapes of a search: { shapes, count, refused }; nil where they are not known.
function known.get(model, key)
  local of_model = of_models[model]
  return key and of_model and of_model.lists[key]
end

--- Keeps the shapes of a search, all of them.
---@param list table[]      as core.search walks them
---@param shapes userdata   the same
---@param refused string[]  why sizes were not admitted
---@param from integer      the first of these that is of this search
function known.keep(model, key, objects, list, shapes, refused, from)
  local sum = 0
  for _, shape in ipairs(list) do sum = sum + #shape.workload end
  if sum > MOST_OPS then return end
  local of_model = of_models[model]
  if not of_model or of_model.ops + sum > MOST_OPS then of_model = { ops = 0, lists = {} } end
  of_model.lists[key] = {
    shapes = shapes, count = #list, refused = table.move(refused, from, #refused, 1, {}), objects = objects,
  }
  of_model.ops = of_model.ops + sum
  of_models[model] = of_model
end

return known
