-- Whole fine-tuning jobs: packing by hand and by a naive program, sums of iterations.
local job = require "tperf.question.job"
local picker = require "picker"
local program = require "program"
local tperf = require "tperf"

local shell = program.ask

local SEQ <const> = 2048

local function question(changes)
  local q = { model = "llama-3.2-1b", system = "h100-sxm", dp = 8, global_batch = 64, micro_batch = 2, seq = SEQ }
  for name, value in pairs(changes or {}) do q[name] = value end
  return q
end

local function asked(changes)
  local q = question { examples = 1000, epochs = 2, lengths = { SEQ } }
  for name, value in pairs(changes) do q[name] = value end
  return tperf.job(q)
end

-- Best-fit decreasing, trying every open sequence.
local function naive(lengths, seq)
  local rooms = {}
  for _, length in ipairs(lengths) do
    local best
    for i, room in ipairs(rooms) do
      if room >= length and (not best or room < rooms[best]) then best = i end
    end
    if not best then
      rooms[#rooms + 1] = seq
      best = #rooms
    end
    rooms[best] = rooms[best] - length
  end
  return #rooms
end

describe("tperf.job", function()
  it("packs the longest documents first, each into the fullest sequence that has room", function()
    assert.equal(2, job.packed({ 5, 4, 3, 2, 2 }, 8)) -- 5 + 3, 4 + 2 + 2
    assert.equal(3, job.packed({ 8, 7, 7, 1, 1 }, 8))
    local pick = picker(54)
    for _ = 1, 20 do
      local lengths, seq = {}, pick { 64, 100, 257 }
      for i = 1, 200 do lengths[i] = math.min(pick { 3, 9, 17, 30, 41, 55, 64, 90, 200 } + i % 7, seq) end
      table.sort(lengths, function(a, b) return a > b end)
      assert.equal(naive(lengths, seq), job.packed(lengths, seq))
    end
  end)

  it("takes as many iterations as full batches of sequences, epoch by epoch", function()
    local c
    for batching, packing in pairs { packed = { lengths = { SEQ } }, padded = false } do
      c = tperf.train(question { packing = packing or nil })
      local j = asked { batching = batching }
      assert.equal(1000, j.sequences)
      assert.same({ 16, 32 }, { j.steps, j.iterations }) -- ceil(1000 / 64)
      assert.near(c.time, j.time, 1e-9)
      assert.near(32 * c.time, j.seconds, 1e-6)
      assert.near(j.seconds / 3600, j.hours, 1e-12)
      assert.equal(2 * 1000 * SEQ, j.tokens)
      assert.near(1, j.filled, 1e-12)
      assert.equal(c.memory.total, j.memory)
    end
    assert.near(8 * 2.5 * 32 * asked({}).time / 3600, asked { price = 2.5 }.cost.dollars, 1e-6)
  end)

  it("fills sequences with several documents, which do not see each other", function()
    local j = asked { lengths = { 512 } }
    assert.equal(250, j.sequences)
    assert.near(1, j.filled, 1e-12)
    assert.near(tperf.train(question { packing = { mean = 512 } }).time, j.time, 1e-9)
    assert.near(0.75, asked { lengths = { 1536 } }.filled, 1e-12) -- no two have room in a sequence
    assert.equal(1000, asked { lengths = { 9999 } }.sequences) -- cut
  end)

  it("pads each micro-batch to its longest example, for which replicas wait", function()
    local short, long = tperf.train(question { seq = 512 }).time, tperf.train(question()).time
    local lengths = {}
    for i = 1, 100 do lengths[i] = i <= 20 and SEQ or 512 end
    -- Of two examples one in five long, a micro-batch is long with 1 - 0.8^2; 8 replicas of 4 micro-batches wait for
    -- the slowest, e(8) = 1.4236 deviations above the mean.
    local part = 1 - 0.8 ^ 2
    local mean, deviation = short + part * (long - short), (long - short) * math.sqrt(part * (1 - part) / 4)
    assert.near(1, asked { batching = "padded", lengths = lengths }.time / (mean + 1.4236 * deviation), 0.03)
    -- ZeRO 3 gathers weights in every micro-batch: 16 examples at once, of which one is long with 1 - 0.8^16.
    local o = { batching = "padded", lengths = lengths, zero = 3 }
    local all = 1 - 0.8 ^ 16
    local a, b = tperf.train(question { seq = 512, zero = 3 }).time, tperf.train(question { zero = 3 }).time
    assert.near(1, asked(o).time / (a + all * (b - a)), 0.03)
    assert.equal(tperf.train(question { zero = 3 }).memory.total, asked(o).memory)
    assert.near(1, asked { batching = "padded", lengths = { 500 } }.filled / (500 / 512), 1e-9) -- multiples of 64
  end)

  it("fine-tunes the experts of a mixture", function()
    local o = { model = "olmoe-1b-7b", ep = 8, zero = 1 }
    local c = asked(o)
    assert.equal("finetuning", c.question.routing)
    assert.equal("balanced", asked { model = o.model, ep = 8, zero = 1, routing = "balanced" }.question.routing)
  end)

  it("refuses what it cannot answer", function()
    for _, case in ipairs {
      { { lengths = {} }, "'lengths'" }, { { lengths = { 0 } }, "lengths" }, { { examples = 0 }, "examples" },
      { { packing = { mean = 5 } }, "'lengths' are those of 'packing'" }, { { batching = "sorted" }, "batching" },
      { { seq = "long" }, "'seq' must be a positive integer" },
    } do
      assert.error_matches(function() asked(case[1]) end, (case[2]:gsub("%-", "%%-")))
    end
  end)
end)

describe("tperf train --examples", function()
  local path = program.temporary ".csv"
  local run = "tperf train llama-3.2-1b -s h100-sxm --seq 2048 --dp 8 -b 64 -m 2 --examples 1000 --epochs 2 "

  it("reads a number a line, after a heading", function()
    program.write(path, "tokens,id\n512,1\n\n512,2\n")
    local result = shell(run .. "--gpu-hour 2.5 --lengths " .. path)
    assert.truthy(result.out:find "\n1000 examples x 2 epochs, packed +expected +from +to\n")
    assert.truthy(result.out:find "\nsequences of an epoch +250\n")
    assert.truthy(result.out:find "\niterations +8\n")
    assert.truthy(result.out:find "\ncost +%$")
    assert.truthy(result.out:find "\npeak memory ")
    local json = shell(run .. "--json --batching padded --lengths " .. path)
    assert.truthy(json.out:find '"batching": "padded"', 1, true)
  end)

  it("names the price that it takes from the system's file", function()
    program.write(path, "512\n")
    assert.truthy(shell(run .. "--lengths " .. path).err:find "tperf: h100%-sxm: [%d.]+ dollars a GPU%-hour")
    assert.is_nil(shell(run .. "--gpu-hour 2.5 --lengths " .. path).err:find "dollars a GPU%-hour")
  end)

  it("names the line that has none, and what does not go together", function()
    program.write(path, "512\nmany\n")
    for _, case in ipairs {
      { run .. "--lengths " .. path, ":2: a number of tokens is needed, got 'many'" },
      { run, "--examples needs --lengths" }, { run .. "--tokens 1e9 --lengths " .. path, "leave out --tokens" },
      { run .. "--packing 100 --lengths " .. path, "leave that out" },
      { "tperf train llama-3.2-1b -s h100-sxm --dp 8 -b 64 --epochs 2", "--epochs needs --examples" },
    } do
      local result = shell(case[1])
      assert.not_equal(0, result.code)
      assert.truthy((result.err .. result.out):find(case[2], 1, true), case[2])
    end
  end)
end)
