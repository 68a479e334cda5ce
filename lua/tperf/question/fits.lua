--- Which models a machine can train, fine-tune or serve, and with which longest sequences: for somebody who has a GPU
-- and no model yet.
local catalogue = require "tperf.base.catalogue"
local infer = require "tperf.question.infer"
local model = require "tperf.describe.model"
local refusal = require "tperf.base.refusal"
local search_inference = require "tperf.question.search.inference"
local system = require "tperf.describe.system"
local train = require "tperf.question.train"
local visible_memory = require "tperf.describe.machine.visible_memory"

local fits = {}

--- Ways to use a model, in the order of the table. peft, weights: arguments of tperf.train and tperf.infer. least: the
--- fewest bytes that a parameter takes.
fits.ways = {
  { name = "full", title = "full", least = 4 },
  { name = "lora", title = "LoRA", least = 2, peft = { kind = "lora", rank = 16, targets = "all-linear" } },
  { name = "qlora", title = "QLoRA", least = 0.5, peft = { kind = "qlora", rank = 16, targets = "all-linear" } },
  { name = "serve16", title = "16-bit", least = 2, weights = "bf16" },
  { name = "serve8", title = "8-bit", least = 1, weights = "int8" },
  { name = "serve4", title = "4-bit", least = 0.5, weights = "int4" },
}

local SHORTEST <const>, LONGEST <const> = 2048, 131072

-- Whether training fits, and how surely: replicas shard everything (ZeRO 3) and recompute activations. nil: refused.
local function trained(asked, way, seq)
  local c = refusal.attempt(train.run, { model = asked.model, system = asked.system, seq = seq,
    global_batch = asked.gpus, dp = asked.gpus, zero = asked.gpus > 1 and 3 or nil, recompute = "full",
    peft = way.peft })
  return c and c.feasible, c and c.fit
end

-- Whether one request with its whole context fits, however the GPUs share the model. nil: refused.
local function served(asked, way, seq)
  local question = { model = asked.model, system = asked.system, prompt = seq - 2, generate = 2, batch = 1,
    weight_dtype = way.weights }
  local r
  if asked.gpus == 1 then
    r = refusal.attempt(infer.run, question)
    return r and r.feasible ~= false, "fits"
  end
  question.gpus, question.top = asked.gpus, 1
  r = refusal.attempt(search_inference.run, question)
  return r and r[1] ~= nil, "fits"
end

-- The longest sequence that fits, or the shortest if it may; false if it does not, nil if the question is refused; and
-- whether all of the memory's interval fits.
local function longest(asked, way, most)
  local best, sure
  local seq = asked.seq or math.min(SHORTEST, most)
  repeat
    local right, fit = (way.weights and served or trained)(asked, way, seq)
    if best == nil then best = right ~= nil and (right or fit == "may not fit") and seq or right end
    if not right then break end
    best, sure, seq = seq, fit == "fits", seq * 2
  until asked.seq or seq > most
  return best, sure
end

local function row_of(name, asked, capacity)
  local m = model(name)
  local p = m:parameters()
  local row = { model = m.name, parameters = p.total, active = p.active }
  asked.model = m
  local most = math.min(m.context or m.seq, LONGEST)
  for _, way in ipairs(fits.ways) do
    local seq, sure = false, false
    if p.total * way.least <= capacity * asked.gpus then seq, sure = longest(asked, way, most) end
    row[way.name], row.some = seq, row.some or seq
    if seq and not sure then
      row.doubtful = row.doubtful or {}
      row.doubtful[way.name] = true
    end
  end
  return row
end

--- For each model, the longest sequences with which it can be trained and served.
---@param given table  system; gpus: of them (1); models: names (all that are known); seq: ask for this length alone
---@return table[] rows  { model, parameters, active, full, lora, qlora, serve16, serve8, serve4: the longest of
---  sequences of 2,048 tokens and their doubles, up to the model's context, false if none fits, nil if the model is not
---  used so; doubtful: ways of which a part of the memory's interval exceeds the GPU's }, the smallest model first; of
---  all models, those with any
function fits.run(given)
  local machine = system(given.system)
  local capacity, rows = visible_memory(machine), {}
  for _, name in ipairs(given.models or catalogue.list "models") do
    local row = row_of(name, { system = machine, gpus = given.gpus or 1, seq = given.seq }, capacity)
    if row.some or given.models then rows[#rows + 1] = row end
    row.some = nil
  end
  table.sort(rows, function(a, b)
    if a.parameters ~= b.parameters then return a.parameters < b.parameters end
    return a.model < b.model
  end)
  return rows
end

return fits
