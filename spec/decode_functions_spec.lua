-- Decoding of blocks whose counts are any function of the context: against sums over single steps.
local tperf = require "tperf"
local op = tperf.op

local function bits(n)
  local count = 0
  while n > 0 do count, n = count + (n & 1), n >> 1 end
  return count
end

-- Bytes of a step as a function of the tokens that the new one sees, itself included.
local FUNCTIONS = {
  { "all keys", function(k) return 4096.0 * k end },
  { "a window of 512", function(k) return 4096.0 * math.min(k, 512) end },
  { "at most 1300 keys", function(k) return 4096.0 * math.min(k, 1300) end },
  { "an update every 64th token", function(k) return k % 64 == 0 and 1e8 or 1e6 end },
  { "an update every 1000th token", function(k) return k % 1000 == 0 and 1e9 or 1e6 end },
  { "one state for each set bit", function(k) return 1e6 * bits(k) end }, -- log-linear attention (arXiv 2506.04761)
  { "levels", function(k) return 1e6 * (1 + math.log(k, 2) // 1) end },
  { "chunks of 700", function(k) return 4096.0 * (k % 700) end },
  { "blocks of 64 keys", function(k) return 4096.0 * 64 * ((k + 63) // 64) end },
  { "k log k", function(k) return 100.0 * k * math.log(k) end },
  { "a root", function(k) return 1e5 * k ^ 0.5 end },
  { "less and less", function(k) return 1e9 / k end },
}

local function model(build)
  return tperf.model {
    name = "m", layers = 2, hidden = 256, heads = 4, ffn = 512, seq = 256, vocab = 1000, unbounded = true,
    architecture = tperf.architecture { name = "own", layer = { tperf.block("own", build) } },
  }
end

local function with(f)
  return model(function(_, p)
    local bytes = p.mode == "decode" and f(p.context + p.seq) or 1e6
    return { op.linear { name = "x", tokens = p.tokens, n_in = 256, n_out = 256 },
      op.custom { name = "f", forward = { bytes = bytes * p.micro_batch } } }
  end)
end

local function infer(m, prompt, generate)
  return tperf.infer { model = m, system = "h100-sxm", prompt = prompt, generate = generate, batch = 4, ops = true }
end

local function bytes_of(r, name)
  for _, row in ipairs(r.ops) do
    if row.phase == "decode" and row.name == name then return row.bytes end
  end
end

local function near(expected, got, tolerance, what)
  assert.is_true(math.abs(got - expected) <= tolerance * math.abs(expected),
    ("%s: expected %.9g, got %.9g"):format(what, expected, got))
end

describe("decoding with", function()
  for _, case in ipairs(FUNCTIONS) do
    it(case[1] .. " moves the bytes of all steps", function()
      for _, lengths in ipairs { { 1, 200 }, { 300, 900 }, { 1000, 100 }, { 1023, 2500 } } do
        local prompt, generate = table.unpack(lengths)
        local sum = 0
        for k = prompt + 1, prompt + generate - 1 do sum = sum + 4 * case[2](k) end
        near(sum / (generate - 1), bytes_of(infer(with(case[2]), prompt, generate), "f"), 1e-6,
          ("prompt %d, %d tokens"):format(prompt, generate))
      end
    end)

    it(case[1] .. " takes the time of all steps", function()
      local m, sum = with(case[2]), 0
      for k = 490, 530 do sum = sum + infer(m, k, 2).decode.time end
      near(sum, infer(m, 490, 42).decode.time, 1e-7, case[1])
    end)
  end
end)

describe("a long answer", function()
  -- The sum of 1 … n is n (n + 1) / 2.
  it("of a block that reads all keys is summed from few steps", function()
    local calls = 0
    local r = infer(with(function(k)
      calls = calls + 1
      return 4096.0 * k
    end), 1000, 60001)
    near(4 * 4096.0 * (61000 * 61001 / 2 - 1000 * 1001 / 2) / 60000, bytes_of(r, "f"), 1e-7, "bytes")
    assert.is_true(calls < 1200, calls)
  end)

  it("is refused if its steps keep to no line", function()
    local m = with(function(k) return 1e6 * bits(k) end)
    local ok, message = pcall(infer, m, 1000, 100000)
    assert.is_false(ok)
    assert.truthy(message:find("no straight lines", 1, true), message)
  end)
end)

describe("a step whose ops differ from others'", function()
  -- Every 8th token is 1 step of 8: the op's bytes on average are an eighth.
  it("is priced with its own", function()
    local m = model(function(_, p)
      local list = { op.linear { name = "x", tokens = p.tokens, n_in = 256, n_out = 256 } }
      if p.mode == "decode" and (p.context + 1) % 8 == 0 then
        list[2] = op.custom { name = "now and then", forward = { bytes = 8e6, vector_flops = 1e6 } }
      end
      return list
    end)
    local r = infer(m, 800, 81)
    near(1e6, bytes_of(r, "now and then"), 1e-9, "bytes")
    local sum = 0
    for k = 800, 879 do sum = sum + infer(m, k, 2).decode.time end
    near(sum, r.decode.time, 1e-9, "time")
  end)
end)
