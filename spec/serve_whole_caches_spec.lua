-- Decoding by kernels that leave caches whole (FlashAttention 2): the longest cache of a batch ends last, and in a step
-- with prefills every query head reads its cache by itself. Expected values follow from the bytes of the caches.
local tperf = require "tperf"

local LAYERS <const>, KEY <const> = 32, 2 * 2 * 128 -- of Llama 3.1 8B: a key-value head's bytes for a token
local RATE <const> = tperf.system("rtx-pro-6000").accelerator.whole_caches.bandwidth

local function engine_of(whole)
  return { name = "plain", compute = 1, attention = 1, memory = 1, comm = 1, host = 0, overlap = 0,
    engine = { release = "0", scheduler = "vllm", whole_caches = whole and { "rtx-pro-6000" } or nil } }
end

-- The steps of requests with these prompts that arrive at once, and of those that come later.
local function steps_of(prompts, whole, later, more)
  local requests = {}
  for _, prompt in ipairs(prompts) do
    requests[#requests + 1] = { arrival = 0, prompt = prompt, output = 40 }
  end
  for _, prompt in ipairs(later or {}) do
    requests[#requests + 1] = { arrival = 0.5, prompt = prompt, output = 40 }
  end
  local q = { model = "llama-3.1-8b", system = "rtx-pro-6000", requests = requests, host = {}, sampling = "none",
    software = engine_of(whole), keep = "steps", engine = { max_num_batched_tokens = 1 << 17, max_num_seqs = 128 } }
  for name, value in pairs(more or {}) do q[name] = value end
  return tperf.serve(q).steps
end

-- The duration of a step of decodes alone whose longest cache is known, from a run of such prompts.
local function decoding(prompts, whole, more) return steps_of(prompts, whole, nil, more)[20].duration end

local function repeated(n, prompt, last)
  local list = {}
  for i = 1, n do list[i] = prompt end
  list[n] = last or prompt
  return list
end

-- Seconds of blocks on units that take the next one when they are free and share the memory's bandwidth evenly, none of
-- them reading faster than RATE. The blocks: each head's, request by request.
local function makespan(keys, heads, units, bandwidth)
  local running, time, read, next_block = {}, 0, 0, 0
  while true do
    while #running < units and next_block < heads * #keys do
      running[#running + 1] = read + KEY * keys[next_block % #keys + 1]
      next_block = next_block + 1
    end
    if #running == 0 then return time end
    local first = 1
    for i = 2, #running do
      if running[i] < running[first] then first = i end
    end
    time = time + (running[first] - read) / math.min(RATE, bandwidth / #running)
    read = running[first]
    running[first] = running[#running]
    running[#running] = nil
  end
end

-- n prompts of lognormal lengths.
local function spread(n, sigma)
  local list = {}
  for i = 1, n do
    local normal = math.sqrt(-2 * math.log(1 - math.random())) * math.cos(2 * math.pi * math.random())
    list[i] = math.ceil(700 * math.exp(sigma * normal))
  end
  return list
end

describe("caches that stay whole", function()
  it("take about as long as units that take them from a list", function()
    math.randomseed(7)
    local system = tperf.system("rtx-pro-6000").accelerator
    local bandwidth = system.compute_efficiency.decode.bf16.efficiency * system.hbm.bandwidth
    for _, sigma in ipairs { 0.4, 0.6, 0.8 } do
      local uneven, sum = spread(96, sigma), 0
      for _, keys in ipairs(uneven) do sum = sum + keys end
      -- beyond what the caches take at the memory's bandwidth, which is what kernels take that cut them
      local more = LAYERS * (makespan(uneven, 8, 188, bandwidth) - KEY * 8 * sum / bandwidth)
      local predicted = decoding(uneven, true) - decoding(uneven, false)
      assert.truthy(predicted > 0.7 * more and predicted < 1.4 * more, sigma .. ": " .. predicted / more)
    end
  end)

  it("make a step wait for the longest, which one unit reads", function()
    local alike, uneven = repeated(64, 1000), repeated(64, 1000 - 8000 // 63, 9000) -- with as many keys in all
    local alone = decoding(alike, true)
    local late = decoding(uneven, true) - alone
    local longest = LAYERS * KEY * (9000 - 1000) / RATE
    assert.truthy(late > 0.7 * longest and late < longest, late / longest)
    assert.truthy(math.abs(decoding(uneven, false) / decoding(alike, false) - 1) < 0.01)
  end)

  it("are cut where there are few, unless no two heads share one", function()
    local uneven = repeated(16, 500, 9000) -- 16 x 8 caches on 188 units
    assert.equal(decoding(uneven, false), decoding(uneven, true))
    local mha = tperf.model("llama-3.1-8b"):with { kv_heads = 32 }
    local more = decoding(uneven, true, { model = mha }) - decoding(uneven, false, { model = mha })
    assert.truthy(more > 0)
  end)

  it("are read once for each head beside prefills", function()
    local function mixed(whole)
      local list = steps_of(repeated(100, 2000), whole, { 64 }, { engine = { max_num_batched_tokens = 1 << 18 } })
      for _, step in ipairs(list) do
        if step.prefills == 1 and step.decodes == 100 then return step.duration, step.decode_context end
      end
    end
    local whole, keys = mixed(true)
    local cut = mixed(false)
    -- 32 heads of keys at the rate of all units, instead of the caches of 8 at the memory's bandwidth
    local heads = LAYERS * KEY * 32 * keys / (188 * RATE)
    assert.truthy(heads > 2 * LAYERS * KEY * 8 * keys / 1792e9)
    assert.truthy(whole > cut and whole > heads and whole < cut + heads, whole)
  end)

  it("are those of systems that say how fast a unit reads", function()
    local profile = engine_of(true)
    profile.engine.whole_caches = { "Hopper" }
    local function tpot(software)
      return tperf.serve { model = "llama-3.1-8b", system = "h100-sxm", software = software, host = {},
        sampling = "none", load = { concurrency = 64 }, count = 64, prompt = 1000, output = 20 }.tpot.mean
    end
    assert.equal(tpot(engine_of(false)), tpot(profile))
  end)
end)
