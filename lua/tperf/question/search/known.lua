--- Shapes of searches that were laid out before. Questions that differ in what machines cost and in software alone have
--- the same ones: neither decides what there is to try, nor what can fit.
local core = require "tperf.core"
local memo = require "tperf.describe.layout.memo"
local visible_memory = require "tperf.describe.machine.visible_memory"

local encode = core.codec.encode

local known = {}

local MOST_SHAPES <const> = 4096 -- of a model; each takes three KiB, besides blocks

-- Model -> { count, lists = text -> { batches, refused, objects } }. objects keeps those alive whose
-- addresses are in the text. The shapes of a model go with it, and with what is remembered of blocks.
local of_models

local function forget() of_models = setmetatable({}, { __mode = "k" }) end
forget()
memo.when_forgotten(forget)

-- What each question adds to what may be tried, and to what may fit.
local function asked(p)
  local list = {}
  for i, question in ipairs(p.questions) do
    list[i] = { question.gpus, question.global_batch, visible_memory(question.system) }
  end
  return list
end

-- What a problem adds to that as text, and the objects in it.
local function words_of(p)
  local objects, names = { p.pipelines }, {}
  for i, s in ipairs(p.strategies) do objects[2 * i], objects[2 * i + 1] = s, p.layouts[i] end
  for i, object in ipairs(objects) do names[i] = ("%p"):format(object) end
  for _, s in ipairs(p.placed.orders and p.strategies or {}) do names[#names + 1] = p.placed.orders[s].text end
  return { text = table.concat(names, " ") .. encode { asked(p), p.rules, p.training, p.variants, p.zero, p.fixed,
    p.pps }, objects = objects }
end

local words = setmetatable({}, { __mode = "k" }) -- a problem's list of questions -> its words

--- What decides the shapes of a search as text, and the objects in it; nil where blocks or strategies of a script's own
--- do, which may do as they like.
---@param p table  as problem.of makes it
---@param o table  options of the walk
---@return string? key, table? objects
function known.key(p, o)
  if p.model.architecture then return nil end
  for _, s in ipairs(p.strategies) do
    if not s.built_in then return nil end
  end
  local one = words[p.questions]
  if not one then
    one = words_of(p)
    words[p.questions] = one
  end
  local everything = o.keep == "all" or o.infeasible or not o.prune
  return one.text .. (everything and "all" or "") .. (o.fast and encode(o.fast) or ""), one.objects
end

--- The shapes of a search: { batches, refused }; nil where they are not known.
function known.get(model, key)
  local of_model = of_models[model]
  return key and of_model and of_model.lists[key]
end

--- Adds to the batches of a search's shapes; nil: they are too many to be kept.
---@param batches table?    as known.keep takes them
---@param shapes userdata   of the core
---@param count integer
---@return table? batches
function known.more(batches, shapes, count)
  if not batches or batches.count + count > MOST_SHAPES then return nil end
  batches[#batches + 1], batches.count = { shapes = shapes, count = count }, batches.count + count
  return batches
end

--- Keeps the shapes of a search, all of them.
---@param batches table     list of { shapes, count }, with their whole `count`
---@param refused string[]  why sizes were not admitted
---@param from integer      the first of these that is of this search
function known.keep(model, key, objects, batches, refused, from)
  local of_model = of_models[model]
  if not of_model or of_model.count + batches.count > MOST_SHAPES then of_model = { count = 0, lists = {} } end
  of_model.lists[key] = {
    batches = batches, refused = table.move(refused, from, #refused, 1, {}), objects = objects,
  }
  of_model.count = of_model.count + batches.count
  of_models[model] = of_model
end

return known
