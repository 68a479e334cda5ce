-- A search with more to choose from never finds less: each candidate counts for the same whatever else there is.
local cases = require "cases"
local picker = require "picker"
local tperf = require "tperf"

local SEED <const>, CASES <const> = 2601, cases(12, 160)

-- Gpipe as a script would write it, with the backward pass split: no closed form.
tperf.schedule.define("superset_own", { stages_per_device = 1, placement = "block", order = function(s)
  for d = 1, s.devices do
    for m = 1, s.microbatches do s:forward(d, d, m) end
    for m = 1, s.microbatches do s:backward_input(d, d, m) end
    for m = 1, s.microbatches do s:backward_weight(d, d, m) end
  end
end })

local SCHEDULES <const> = { "1f1b", "interleaved_1f1b", "gpipe", "zb1p", "dualpipe_v", "zb_h1", "zb_h2", "zbv",
  "v_half", "v_min", "superset_own" }
local CHOICES <const> = {
  schedule = SCHEDULES, strategy = { "tensor", "context", "summa" }, zero = { 0, 1, 2, 3 },
  recompute = { "none", "selective", "full" }, tp = { 1, 2, 4, 8 }, pp = { 1, 2, 4, 8 }, micro_batch = { 1, 2, 4 },
  sequence_parallel = { true, false }, virtual_stages = { 1, 2, 3, 4 }, dp = { 1, 2, 4, 8 },
  overlap_tp = { "bulk", "none" },
}
local ALWAYS <const> = { schedule = true, strategy = true }

-- A part of a list, at least one item, in its order.
local function part_of(pick, list)
  local some = {}
  for _, item in ipairs(list) do
    if pick { true, false } then some[#some + 1] = item end
  end
  if #some == 0 then some[1] = pick(list) end
  return some
end

local NAMES <const> = {}
for name in pairs(CHOICES) do NAMES[#NAMES + 1] = name end
table.sort(NAMES)

-- Two questions: the second has all choices of the first, and maybe others.
local function questions(pick)
  local gpus = pick { 8, 16 }
  local some, more = {
    model = pick { "llama-3.1-8b", "llama-2-13b", "mixtral-8x7b" }, system = pick { "h100-sxm", "a100-sxm-80gb" },
    gpus = gpus, global_batch = gpus * pick { 1, 2, 4 }, software = pick { "none", "typical" }, top = 3,
    seq = pick { 1024, 4096 },
  }, {}
  for name, value in pairs(some) do more[name] = value end
  for _, name in ipairs(NAMES) do
    if ALWAYS[name] or pick { true, false, false } then
      more[name] = part_of(pick, CHOICES[name])
      some[name] = part_of(pick, more[name])
    end
  end
  return some, more
end

local function show(list)
  local texts = {}
  for i, item in ipairs(list) do texts[i] = tostring(item) end
  return table.concat(texts, ",")
end

local function words(question)
  local list = {}
  for name, value in pairs(question) do
    list[#list + 1] = name .. "=" .. (type(value) == "table" and show(value) or tostring(value))
  end
  table.sort(list)
  return table.concat(list, " ")
end

describe("a search with more to choose from", function()
  it("finds nothing slower", function()
    local pick, compared, simulated = picker(SEED), 0, 0
    while compared < CASES do
      local some, more = questions(pick)
      local ok, one = pcall(tperf.search, some) -- some choices do not go together
      local all_ok, other = pcall(tperf.search, more)
      if ok and all_ok then
        compared, simulated = compared + 1, simulated + (other.simulated and 1 or 0)
        assert.is_true(one.proven ~= false and other.proven ~= false)
        -- A grid of one GPU is the same layout in all strategies: beside `tensor` it is listed once, so that with other
        -- strategies only the best is comparable.
        local ranks = show(some.strategy) == show(more.strategy) and #one or 1
        assert.is_true(#other >= math.min(#one, ranks), words(some) .. "\n" .. words(more))
        for i, c in ipairs { table.unpack(one, 1, ranks) } do
          assert.is_true(other[i].time <= c.time, ("%d: %.6g > %.6g: %s\n%s"):format(i, other[i].time, c.time,
            words(some), words(more)))
        end
      end
    end
    assert.is_true(simulated > CASES / 4)
  end)

  -- A SUMMA grid of one GPU is what `tensor` does with tp = 1, which tp = 4 or 8 does not allow.
  it("leaves no layout to a strategy that may not have it", function()
    local function best(strategy)
      return tperf.search { model = "llama-3.1-8b", system = "a100-sxm-80gb", gpus = 16, global_batch = 16, seq = 4096,
        software = "none", schedule = "interleaved_1f1b", virtual_stages = 2, tp = { 4, 8 }, sequence_parallel = true,
        strategy = strategy, top = 1 }[1]
    end
    local alone = best { "context", "summa" }
    assert.same({ 1, 1 }, { alone.tp1, alone.tp2 })
    assert.equal(alone.time, best({ "tensor", "context", "summa" }).time)
  end)

  it("has the best of a shorter list first in a longer one", function()
    local pick, compared = picker(SEED + 1), 0
    while compared < CASES // 4 do
      local _, question = questions(pick)
      local ok, short = pcall(tperf.search, question)
      if ok then
        question.top, compared = 8, compared + 1
        local long = tperf.search(question)
        for i, c in ipairs(short) do
          assert.equal(c.time, long[i].time)
          assert.equal(c.memory.total, long[i].memory.total)
        end
      end
    end
  end)
end)
