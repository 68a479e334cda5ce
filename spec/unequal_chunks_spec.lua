-- Interleaved pipelines whose chunks hold layers of different kinds: against an event simulation of Megatron-LM's
-- order, written here from its description (arXiv 2104.04473, section 2.2), and a search against its own simulations.
local tperf = require "tperf"

local WIDTH <const> = 4096

local function blocks(factor)
  return { tperf.block("mlp", function(_, p)
    return { p:column { name = "up", n_in = WIDTH, n_out = 4 * WIDTH * factor },
      p:row { name = "down", n_in = 4 * WIDTH * factor, n_out = WIDTH } }
  end) }
end

local WIDE, NARROW = blocks(4), blocks(1)

-- 32 layers, the first of which are wide.
local function model(wide)
  return tperf.model { name = "m", layers = 32, hidden = WIDTH, heads = 32, seq = 4096,
    architecture = tperf.architecture { name = "own", first = {}, last = {}, groups = {
      { count = wide, key = "wide", blocks = WIDE }, { count = 32 - wide, key = "narrow", blocks = NARROW } } } }
end

-- The order of a device's passes: { forward?, chunk, micro-batch }.
local function order_of(device, devices, chunks, microbatches)
  local total, forwards, backwards = chunks * microbatches, {}, {}
  for k = 0, total - 1 do
    local group, rest = k // (devices * chunks), k % (devices * chunks)
    local chunk, microbatch = rest // devices, group * devices + rest % devices
    forwards[#forwards + 1] = { true, chunk, microbatch }
    backwards[#backwards + 1] = { false, chunks - 1 - chunk, microbatch }
  end
  local warm = math.min((devices - device - 1) * 2 + (chunks - 1) * devices, total)
  local list = table.move(forwards, 1, warm, 1, {})
  for i = 1, total do
    list[#list + 1] = forwards[warm + i]
    list[#list + 1] = backwards[i]
  end
  return list
end

-- The moment at which a pass may begin; nil: not yet known.
local function ready(done, is_forward, stage, stages, microbatch)
  if is_forward then return stage == 0 and 0 or done[("F %d %d"):format(stage - 1, microbatch)] end
  local own = done[("F %d %d"):format(stage, microbatch)]
  local next_one = stage == stages - 1 and 0 or done[("B %d %d"):format(stage + 1, microbatch)]
  return own and next_one and math.max(own, next_one)
end

-- Seconds of all passes; forward, backward: of each of the devices x chunks stages.
local function simulated(devices, chunks, microbatches, forward, backward)
  local lists, at, free, done, left = {}, {}, {}, {}, 0
  for d = 0, devices - 1 do
    lists[d], at[d], free[d] = order_of(d, devices, chunks, microbatches), 1, 0
    left = left + #lists[d]
  end
  while left > 0 do
    for d = 0, devices - 1 do
      local pass = lists[d][at[d]]
      local stage = pass and pass[2] * devices + d
      local from = pass and ready(done, pass[1], stage, devices * chunks, pass[3])
      if from then
        free[d] = math.max(free[d], from) + (pass[1] and forward or backward)[stage + 1]
        done[("%s %d %d"):format(pass[1] and "F" or "B", stage, pass[3])] = free[d]
        at[d], left = at[d] + 1, left - 1
      end
    end
  end
  local last = 0
  for d = 0, devices - 1 do last = math.max(last, free[d]) end
  return last
end

-- Seconds of the passes of each of `stages` equal parts of the layers.
local function passes_of(c, wide, stages)
  local forward, backward, each = {}, {}, 32 // stages
  local seconds = {}
  for kind, one in ipairs(c.kinds) do
    local sum = { forward = 0, backward = 0 }
    for _, op in ipairs(one.ops) do
      for pass in pairs(sum) do sum[pass] = sum[pass] + op[pass].time end
    end
    seconds[kind] = sum
  end
  for stage = 1, stages do
    local f, b = 0, 0
    for layer = (stage - 1) * each + 1, stage * each do
      local one = seconds[layer <= wide and 1 or 2]
      f, b = f + one.forward, b + one.backward
    end
    forward[stage], backward[stage] = f, b
  end
  return forward, backward
end

describe("an interleaved pipeline of unequal layers", function()
  for _, case in ipairs { { 4, 4, 8, 8 }, { 4, 4, 64, 8 }, { 4, 4, 16, 3 }, { 8, 2, 32, 10 }, { 4, 2, 8, 30 } } do
    local pp, chunks, microbatches, wide = table.unpack(case)
    it(("takes as long as its passes: pp = %d, %d chunks, %d micro-batches, %d wide layers"):format(pp, chunks,
      microbatches, wide), function()
      local c = tperf.train { model = model(wide), system = "h100-sxm", global_batch = microbatches, pp = pp,
        schedule = "interleaved_1f1b", virtual_stages = chunks, software = "none" }
      local want = simulated(pp, chunks, microbatches, passes_of(c, wide, pp * chunks)) + c.breakdown.optimizer
      assert.is_true(math.abs(c.time / want - 1) < 0.03, ("%g, want %g"):format(c.time, want))
    end)
  end

  it("is ranked by the time that its simulation takes", function()
    local found = tperf.search { model = model(8), system = "h100-sxm", gpus = 16, global_batch = 64, tp = 1,
      pp = { 4, 8 }, schedule = { "1f1b", "interleaved_1f1b" }, software = "none", top = 8 }
    local interleaved = 0
    for i, c in ipairs(found) do
      local _, t = tperf.train { configuration = c, model = model(8), system = "h100-sxm", global_batch = 64,
        software = "none", simulate = true }
      assert.is_true(math.abs(t.iteration_time / c.time - 1) < 0.03, c.schedule)
      interleaved = interleaved + (c.virtual_stages > 1 and 1 or 0)
      assert.is_true(i == 1 or c.time >= found[i - 1].time)
    end
    assert.is_true(interleaved > 0)
  end)

  -- Chunks of as many layers of either kind keep their closed form.
  it("has its closed form if each chunk has as many layers of either kind", function()
    local groups = {}
    for i = 1, 16 do
      groups[2 * i - 1] = { count = 1, key = "wide", blocks = WIDE }
      groups[2 * i] = { count = 1, key = "narrow", blocks = NARROW }
    end
    local found = tperf.search { model = tperf.model { name = "m", layers = 32, hidden = WIDTH, heads = 32, seq = 4096,
      architecture = tperf.architecture { name = "own", first = {}, last = {}, groups = groups } },
      system = "h100-sxm", gpus = 8, global_batch = 64, tp = 1, pp = 4, schedule = "interleaved_1f1b",
      virtual_stages = 4, software = "none" }
    assert.is_nil(found.simulated)
    local _, t = tperf.train { configuration = found[1], model = found.model, system = "h100-sxm", global_batch = 64,
      software = "none", simulate = true }
    assert.is_true(math.abs(t.iteration_time / found[1].time - 1) < 0.01)
  end)
end)
