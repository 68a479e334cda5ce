-- vLLM's layers that keep all tokens, a window's, or a state share one pool of blocks. Expected numbers follow from the
-- models' published sizes and vLLM's rules (docs/serving.md): groups as large as the kind with the fewest layers.
local tperf = require "tperf"

local NO <const> = {} -- stands for a field that is left out

-- kind of layers: their number, and bytes that one keeps of a token, or as a state
local MODELS <const> = {
  ["gpt-oss-20b"] = { -- a window of 128 in every other layer; 8 heads of 64 in 16 bits
    groups = 2, of_layers = 12, block_size = 16, token = 2 * 8 * 64 * 2, window_blocks = 9, windowed = 1,
  },
  ["gemma-3-27b"] = { -- 10 layers see all, 52 a window of 1,024; 16 heads of 128
    groups = 1 + 6, of_layers = 10, block_size = 16, token = 2 * 16 * 128 * 2, window_blocks = 65, windowed = 6,
  },
  ["gemma-2-9b"] = { -- 21 and 21, a window of 4,096; 8 heads of 256
    groups = 2, of_layers = 21, block_size = 16, token = 2 * 8 * 256 * 2, window_blocks = 257, windowed = 1,
  },
  ["nemotron-h-8b"] = { -- 4 with 8 heads of 128, 24 of Mamba-2: 128 heads of 64 with 128 states in 32 bits
    groups = 1 + 6, of_layers = 4, block_size = 1040, token = 2 * 8 * 128 * 2, states = 6,
    state = 4 * 128 * 64 * 128 + 2 * 3 * (128 * 64 + 2 * 8 * 128),
  },
  ["llama-3.1-8b"] = { groups = 1, of_layers = 32, block_size = 16, token = 2 * 8 * 128 * 2 },
}

local function served(name, more)
  local q = { model = name, system = "h200-sxm", software = "vllm-0.15", keep = "steps", prompt = 8, output = 2,
    count = 1, load = { rate = 1 } }
  for field, value in pairs(more or {}) do q[field] = value ~= NO and value or nil end
  return tperf.serve(q)
end

describe("vLLM's pool of blocks", function()
  for name, want in pairs(MODELS) do
    it("has room for the tokens of " .. name .. "'s groups of layers", function()
      local r = served(name)
      assert.equal(want.of_layers * want.block_size * want.token * r.num_blocks, r.memory.cache)
      assert.equal(r.num_blocks // want.groups * want.block_size, r.cache_tokens)
      if want.state then -- the smallest block of whole sixteens of tokens that holds a state
        assert.truthy(want.state <= want.block_size * want.token)
        assert.truthy(want.state > (want.block_size - 16) * want.token)
      end
    end)

    it("runs as many requests of " .. name .. " at once as their blocks allow", function()
      local tokens, blocks = 3000, 2000
      local own = (tokens + want.block_size - 1) // want.block_size
      local each = own + (want.windowed or 0) * math.min(own, want.window_blocks or 0) + (want.states or 0)
      local requests = {}
      for i = 1, blocks // each + 5 do requests[i] = { arrival = 0, prompt = tokens - 20, output = 20 } end
      local r, most = served(name, { requests = requests, load = NO, count = NO, prompt = NO, output = NO,
        engine = { num_blocks = blocks + 1, max_num_batched_tokens = 1 << 20 } }), 0
      for _, step in ipairs(r.steps) do most = math.max(most, step.running) end
      assert.equal(math.min(blocks // each, #requests), most)
      assert.equal(#requests, r.finished)
    end)
  end

  -- "Setting attention block size to N tokens to ensure that attention page size is >= mamba page size. Padding mamba
  -- page size by P %", as vLLM logs it; a conv's last three inputs are in 16 bits, the state in the model's dtype.
  it("has blocks of as many tokens as vLLM logs", function()
    for name, logged in pairs {
      ["qwen3-next-80b-a3b"] = { 544, 1.49, 2048, 3, 2 * 32 * 128 * 128 + 2 * 3 * 128 * (2 * 16 + 32) },
      ["qwen3.6-35b-a3b"] = { 1056, 0.76, 2048, 3, 4 * 32 * 128 * 128 + 2 * 3 * 128 * (2 * 16 + 32) },
      ["qwen3.8-27b"] = { 784, 0.13, 4096, 3, 4 * 48 * 128 * 128 + 2 * 3 * 128 * (2 * 16 + 48) },
    } do
      local tokens, padding, token, states, state = table.unpack(logged)
      local r = served(name, { tp = 2 })
      assert.equal(tokens, r.cache_tokens // (r.num_blocks // (1 + states)), name)
      assert.near(padding, 100 * (tokens * token / state - 1), 0.005)
    end
  end)

  it("halves states that are kept in 16 bits, by the model, the engine or the question", function()
    local function state(name, more)
      local q = { model = name, system = "h200-sxm", batch = 1, prompt = 1, generate = 1 }
      for field, value in pairs(more or {}) do q[field] = value end
      return tperf.infer(q).memory.cache
    end
    local wide = 24 * 4 * 128 * 64 * 128 -- of Nemotron-H 8B
    assert.equal(wide / 2, state "nemotron-h-8b" - state("nemotron-h-8b", { state_dtype = "bf16" }))
    assert.equal(state("nemotron-h-8b", { state_dtype = "fp16" }),
      state(tperf.model "nemotron-h-8b":with { state_dtype = "bf16" }))
    for _, refused in ipairs {
      function() state("llama-3.1-8b", { state_dtype = "bf16" }) end,
      function() served("llama-3.1-8b", { state_dtype = "bf16" }) end,
    } do
      local ok, message = pcall(refused)
      local wanted = "'state_dtype' is of recurrent layers, and model 'llama-3.1-8b' has none"
      assert.truthy(not ok and message:find(wanted, 1, true), message)
    end
    local asked = { software = "sglang", load = { concurrency = 64 }, count = 64, prompt = 100, output = 20 }
    local fp32 = served("mamba2-2.7b", asked)
    asked.state_dtype = "bf16"
    local bf16 = served("mamba2-2.7b", asked)
    -- a step of 64 reads and writes the states of 64 layers: 80 heads of 64 with 128 states
    local saved = 64 * 64 * 2 * 2 * 80 * 64 * 128 / 4.8e12
    assert.truthy(fp32.tpot.p50 - bf16.tpot.p50 > saved and fp32.tpot.p50 - bf16.tpot.p50 < 2 * saved)
  end)

  it("is one of all layers between pools for prompts and answers, which send caches", function()
    local pools = { prefill = { replicas = 1 }, decode = { replicas = 1 } }
    assert.equal(24 * 16 * 2 * 8 * 64 * 2, served("gpt-oss-20b", pools).memory.cache
      // served("gpt-oss-20b", pools).num_blocks)
  end)

  it("is not that of older releases and other engines, which keep all tokens of a window", function()
    for _, software in ipairs { "vllm-0.6", "sglang-0.5", "tensorrt-llm" } do
      local r = served("gpt-oss-20b", { software = software })
      assert.equal(24 * 16 * 2 * 8 * 64 * 2 * r.num_blocks, r.memory.cache)
      assert.equal(16 * r.num_blocks, r.cache_tokens)
    end
  end)

  it("caches no prefixes where layers keep states", function()
    local function cached(name)
      return served(name, { count = 5, load = { rate = 0.1 }, prefix = { tokens = 4800 }, prompt = 100 }).cache_hits
    end
    assert.equal(0, cached "nemotron-h-8b")
    assert.truthy(cached "gpt-oss-20b" > 0.5)
  end)

  it("takes groups of an engine without a model, not of one with", function()
    local function run(more)
      local q = { step_time = { fixed = 1 }, engine = { num_blocks = 31, block_size = 1, groups = { states = 2 } },
        requests = {}, keep = "steps" }
      for i = 1, 9 do q.requests[i] = { arrival = 0, prompt = 3, output = 1 } end
      for field, value in pairs(more or {}) do q[field] = value ~= NO and value or nil end
      return tperf.serve(q)
    end
    assert.equal(30 // (3 + 2), run().steps[1].running)
    local function refuses(text, more)
      local ok, message = pcall(run, more)
      assert.truthy(not ok and message:find(text, 1, true), message)
    end
    refuses("'engine.groups' follow from the model", { model = "gpt-oss-20b", system = "h100-sxm", step_time = NO })
    refuses("'engine.groups' share blocks under scheduler = \"vllm\", not \"sglang\"",
      { engine = { num_blocks = 31, scheduler = "sglang", groups = { states = 1 } } })
  end)
end)
