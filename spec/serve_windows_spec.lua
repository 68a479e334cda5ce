-- Caches of layers with a window or a state beside vLLM's pool (serve_pooled_spec.lua): SGLang's pools, vLLM's
-- models all of whose layers have a window, and releases that pool no chunked attention. Expected numbers follow from
-- the models' published sizes and the engines' rules (docs/serving.md), not from tperf.
local program = require "program"
local tperf = require "tperf"

local NO <const> = {} -- stands for a field that is left out

local function served(name, more)
  local q = { model = name, system = "h200-sxm", keep = "steps", load = { rate = 1 }, prompt = 8, output = 2,
    count = 1 }
  for field, value in pairs(more or {}) do q[field] = value ~= NO and value or nil end
  return tperf.serve(q)
end

local function together(n, prompt, output)
  local requests = {}
  for i = 1, n do requests[i] = { arrival = 0, prompt = prompt, output = output } end
  return { requests = requests, load = NO, count = NO, prompt = NO, output = NO }
end

local function with(a, b)
  local made = {}
  for _, t in ipairs { a, b } do
    for name, value in pairs(t) do made[name] = value end
  end
  return made
end

local function most_running(r)
  local most = 0
  for _, step in ipairs(r.steps) do most = math.max(most, step.running) end
  return most
end

local AT_ONCE <const> = { front_end = 0 } -- no tokenizer that requests pass one after another

-- What SGLang's logs lack of PyTorch's total as weights begin to load: of 79.1 GiB 78.45 on an H100 alone, of 139.8 GiB
-- 137.29 on each of 8 H200s.
local ALONE <const>, PARALLEL <const> = 0.7e9, 2.7e9

-- Full layers, windowed ones, bytes of a token in one of them, tensor parallelism.
local SGLANG <const> = {
  ["gpt-oss-20b"] = { 12, 12, 2 * 8 * 64 * 2, 1 },
  ["gpt-oss-120b"] = { 18, 18, 2 * 8 * 64 * 2 / 2, 2 },
  ["llama-4-scout"] = { 12, 36, 2 * 8 * 128 * 2 / 8, 8 },
}

describe("SGLang's pools", function()
  for name, sizes in pairs(SGLANG) do
    local full, windowed, token, tp = table.unpack(sizes)
    it("divide the memory by swa_full_tokens_ratio: " .. name, function()
      for _, ratio in ipairs { 0.8, 0.3, 1 } do
        local r = served(name, { software = "sglang-0.5.10", tp = tp, memory_utilization = 0.85,
          engine = { swa_full_tokens_ratio = ratio ~= 0.8 and ratio or nil } })
        local room = 0.85 * (r.memory.capacity - (tp > 1 and PARALLEL or ALONE)) - r.memory.weights
        local tokens = room / (token * (full + ratio * windowed)) -- SGLang's full_max_total_num_tokens
        assert.truthy(r.cache_tokens <= tokens and r.cache_tokens > tokens - 16, r.cache_tokens .. " " .. tokens)
      end
    end)
  end

  -- A request holds its tokens in one pool, and in the other as many, at most two windows.
  it("both admit a request, so that short ones fill the windows' pool first", function()
    local blocks, each = 1000, 10 -- of 16 tokens; a window of 8,192
    local function at_once(engine)
      return most_running(served("llama-4-scout", with({ software = "sglang-0.5.10", tp = 8,
        host = AT_ONCE, engine = with({ num_blocks = blocks + 1, max_num_batched_tokens = 1 << 20 }, engine),
      }, together(120, 150, 10))))
    end
    assert.equal(blocks * 8 // 10 // each, at_once {})
    assert.equal(blocks // 2 // each, at_once { swa_full_tokens_ratio = 0.5 })
    assert.equal(blocks // each, at_once { pooled = false })
  end)

  it("leave long requests to the pool of the other layers", function()
    local r = served("gpt-oss-20b", with({ software = "sglang-0.5.10", host = AT_ONCE, -- a window of 128
      engine = { num_blocks = 1001, max_num_batched_tokens = 1 << 20 } }, together(12, 1590, 10)))
    assert.equal(1000 // 100, most_running(r))
    assert.equal(12, r.finished)
  end)

  it("retract decodes that the windows' pool has no blocks for", function()
    local r = tperf.serve { step_time = { fixed = 1 }, keep = "steps", requests = {
      { arrival = 0, prompt = 4, output = 12 }, { arrival = 0, prompt = 4, output = 12 } },
      engine = { scheduler = "sglang", num_blocks = 101, block_size = 1, prefix_caching = false,
        groups = { windowed = 1, window_blocks = 100, apart = 20 } } }
    assert.equal(1, r.preemptions) -- 2 x (4 + 6) = 20: the seventh token has no block
    assert.equal(2, r.finished)
    assert.equal(2, most_running(r))
  end)

  it("are of the releases and models for which SGLang has them", function()
    local function tokens(name, software, engine)
      return served(name, { software = software, tp = 8, engine = engine }).cache_tokens
    end
    for _, name in ipairs { "gemma-3-27b", "gemma-2-9b", "mistral-7b" } do
      local old = tokens(name, "sglang-0.5")
      assert.equal(old, tokens(name, "sglang-0.5.10"), name)
    end
    for _, name in ipairs { "gpt-oss-20b", "llama-4-scout" } do
      for _, software in ipairs { "sglang-0.5.5", "sglang-0.5" } do
        assert.equal(tokens(name, "sglang-0.5.10", { pooled = false }), tokens(name, software), name)
        assert.equal(tokens(name, "sglang-0.5.10"), tokens(name, software, { pooled = true }), name)
      end
    end
  end)

  it("refuse what is another engine's", function()
    local function refuses(text, question)
      local ok, message = pcall(tperf.serve, question)
      assert.truthy(not ok and message:find(text, 1, true), message)
    end
    local function asked(engine, software)
      return { model = "gpt-oss-20b", system = "h200-sxm", software = software, engine = engine, prompt = 8, output = 2,
        load = { rate = 1 } }
    end
    refuses("'engine.swa_full_tokens_ratio' is SGLang's", asked({ swa_full_tokens_ratio = 0.5 }, "vllm"))
    refuses("'engine.pooled' is vLLM's and SGLang's", asked({ pooled = true }, "tensorrt-llm"))
    refuses("'engine.swa_full_tokens_ratio' must be", asked({ swa_full_tokens_ratio = 1.5 }, "sglang"))
    refuses("'engine.pooled' goes with a model", { step_time = { fixed = 1 }, engine = { pooled = true },
      load = { rate = 1 }, prompt = 8, output = 2 })
    refuses("'engine.groups.apart' is of scheduler = \"sglang\"", { step_time = { fixed = 1 }, load = { rate = 1 },
      prompt = 8, output = 2, engine = { num_blocks = 9, groups = { apart = 3 } } })
  end)
end)

describe("vLLM, where all layers have a window,", function()
  -- SlidingWindowManager: before it takes blocks, a request with c computed tokens returns those that hold only tokens
  -- before c - window + 1.
  local function held(computed, tokens, window, size)
    local gone = math.max(0, computed - window + 1) // size
    return (computed + tokens + size - 1) // size - gone
  end

  it("keeps the blocks of a window", function()
    for _, caching in ipairs { true, false } do
      local r = served("mistral-7b", with({ software = "vllm-0.15", system = "h200-sxm",
        engine = { num_blocks = 2001, max_num_batched_tokens = 2000, async_scheduling = false,
          prefix_caching = caching } }, together(1, 9000, 300)))
      local computed = 0
      for _, step in ipairs(r.steps) do
        local tokens = step.prefill_tokens + step.decode_tokens
        assert.equal(2000 - held(computed, tokens, 4096, 16), step.free_blocks)
        computed = computed + tokens
      end
      assert.equal(9000 + 299, computed)
    end
  end)

  it("runs as many long requests at once as windows fit", function()
    for _, software in ipairs { "vllm-0.15", "vllm-0.11" } do
      local blocks, each = 2600, 4096 // 16 + 1
      local r = served("mistral-7b", with({ software = software,
        engine = { num_blocks = blocks + 1, max_num_batched_tokens = 512 } }, together(14, 12000, 2000)))
      assert.truthy(most_running(r) >= blocks // (each + 512 // 16), most_running(r)) -- one of them prefills
      assert.truthy(most_running(r) <= blocks // (each - 1), most_running(r))
      assert.equal(14, r.finished)
    end
  end)

  it("rejects no request for its length", function()
    local r = served("mistral-7b", with({ software = "vllm-0.15",
      engine = { num_blocks = 300, max_num_batched_tokens = 256 } }, together(2, 20000, 100)))
    assert.equal(2, r.finished)
  end)

  it("takes as long, request by request, whether steps are kept or not", function()
    local function run(keep, seed)
      local requests = {}
      for i = 1, 40 do
        requests[i] = { arrival = i * 7919 * seed % 40, prompt = 1 + i * 104729 * seed % 90,
          output = 1 + i * 31 % 70 }
      end
      return tperf.serve { step_time = { fixed = 0.5, per_context_token = 0.001 }, keep = keep, requests = requests,
        engine = { num_blocks = 60 + seed, block_size = 2, max_num_batched_tokens = 16, prefix_caching = seed % 2 == 0,
          groups = { window = 20 + seed } } }
    end
    for seed = 1, 8 do
      local one, all = run("steps", seed), run("requests", seed)
      assert.same(one.requests, all.requests)
    end
  end)

  it("finds shared prefixes, of which it takes only the window's blocks", function()
    local segments = { { 7, 400 }, { 8, 40 } }
    local r = tperf.serve { step_time = { fixed = 1 }, keep = "requests", requests = {
      { arrival = 0, prompt = 440, output = 2, segments = segments },
      { arrival = 20, prompt = 450, output = 2, segments = { { 7, 400 }, { 9, 50 } } } },
      engine = { num_blocks = 200, block_size = 4, max_num_batched_tokens = 100, groups = { window = 32 } } }
    assert.equal(400, r.requests[2].cached_tokens)
  end)

  it("serves answers in a pool of their own", function()
    local r = served("mistral-7b", { software = "vllm-0.15", prompt = 20000, output = 40, count = 3,
      load = { rate = 5 }, prefill = { engine = { num_blocks = 800 } }, decode = { engine = { num_blocks = 800 } } })
    assert.equal(3, r.finished)
  end)
end)

describe("vLLM, where layers attend within chunks,", function()
  it("pools them since its builder keeps metadata", function()
    local function tokens(software, engine)
      return served("llama-4-scout", { software = software, tp = 8, engine = engine }).memory.cache
        // served("llama-4-scout", { software = software, tp = 8, engine = engine }).cache_tokens
    end
    local token = 2 * 8 * 128 * 2 // 8 -- of a layer, on each of 8 GPUs
    assert.equal(48 * token, tokens "vllm-0.11")
    assert.equal(48 * token, tokens("vllm-0.15", { pooled = false }))
    -- 4 groups of 12 layers: 3 of the 4 blocks that a token needs are a window's
    assert.equal(48 * token, tokens "vllm-0.15")
    local function longest(software)
      return most_running(served("llama-4-scout", with({ software = software, tp = 8,
        engine = { num_blocks = 4096 + 1, max_num_batched_tokens = 1 << 20 } }, together(9, 32768 - 16, 16))))
    end
    assert.equal(4096 // (2048), longest "vllm-0.11")
    assert.equal(4096 // (2048 + 3 * 513), longest "vllm-0.15")
  end)
end)

describe("SGLang's part of the memory", function()
  -- Tokens that its logs count (max_total_num_tokens): vLLM's issue 21348, and ai-dynamo/aisimulate's pull request 263.
  it("holds as many tokens as its logs count", function()
    for tokens, q in pairs {
      [367404] = { "qwen3-235b-a22b", system = "h100-sxm", tp = 4, precision = "fp8-block", memory_utilization = 0.93 },
      [509000] = { "deepseek-v3", system = "h200-sxm", tp = 8, memory_utilization = 0.82 },
    } do
      q.software = "sglang-0.5"
      assert.near(tokens, served(q[1], with(q, { [1] = NO })).cache_tokens, 0.03 * tokens)
    end
  end)
end)

describe("states beside a cache", function()
  -- Nemotron-H 8B on two GPUs: 24 layers of Mamba-2, 128 heads of 64 with 128 states in 32 bits, and a conv's last
  -- three inputs in 16.
  local STATE <const> = 24 * (4 * 128 * 64 * 128 + 2 * 3 * (128 * 64 + 2 * 8 * 128)) / 2

  local function asked(engine)
    return served("nemotron-h-8b", { software = "sglang", tp = 2, system = "l40s", memory_utilization = 0.88,
      engine = engine })
  end

  -- mamba_full_memory_ratio 0.9 gives them 0.9 / 1.9 of the memory; with the radix cache a request may have three
  -- (MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO), without it SGLang keeps as many as requests run.
  it("take SGLang's part of the memory, for a third as many requests if prefixes are cached", function()
    local r, off, few = asked {}, asked { prefix_caching = false }, asked { prefix_caching = false, max_num_seqs = 10 }
    local room = 0.88 * (r.memory.capacity - PARALLEL) - r.memory.weights
    local states = 0.9 / 1.9 * room / STATE
    assert.near(states, off.max_num_seqs, 0.01 * states)
    assert.near(states / 3, r.max_num_seqs, 0.01 * states)
    assert.near(room / 1.9, r.num_blocks * 16 * 4 * 2 * 8 * 128 * 2 / 2, 0.01 * room)
    assert.near(room - 10 * STATE, few.num_blocks * 16 * 4 * 2 * 8 * 128 * 2 / 2, 0.001 * room)
  end)

  it("are no more where the number of blocks is given", function()
    for _, software in ipairs { "sglang", "tensorrt-llm", "vllm-0.6" } do
      local function run(engine)
        return served("nemotron-h-8b", { software = software, tp = 2, system = "l40s", engine = engine })
      end
      local r = run {}
      local again = run { num_blocks = r.num_blocks }
      assert.equal(r.max_num_seqs, again.max_num_seqs)
      assert.equal(r.memory.cache, again.memory.cache)
      assert.truthy(again.memory.weights + again.memory.cache <= again.memory.capacity)
    end
  end)
end)

describe("launch files", function()
  it("say how caches of layers with a window lie", function()
    local files = {
      ["plain.sh"] = "python3 -m sglang.launch_server --model-path openai/gpt-oss-20b\n",
      ["half.sh"] = "python3 -m sglang.launch_server --model-path openai/gpt-oss-20b --swa-full-tokens-ratio 0.5\n",
      ["off.sh"] = "python3 -m sglang.launch_server --model-path openai/gpt-oss-20b --disable-hybrid-swa-memory\n",
      ["vllm.sh"] = "vllm serve openai/gpt-oss-20b --disable-hybrid-kv-cache-manager\n",
    }
    program.within(files, function(run)
      local rest = " -s h200-sxm --rate 1 --count 2 --prompt 100 --output 2 --json"
      local function tokens(options)
        local r = run("serve gpt-oss-20b " .. options .. rest)
        assert.equal(0, r.code, r.err)
        return tonumber(r.out:match '"cache_tokens": (%d+)')
      end
      local plain = tokens "--from plain.sh"
      assert.equal(tokens "--software sglang", plain)
      assert.near(plain * 1.8 / 1.5, tokens "--from half.sh", 16)
      assert.near(plain * 1.8 / 2, tokens "--from off.sh", 16)
      assert.equal(tokens "--software vllm --no-pooled", tokens "--from vllm.sh")
      for options, flag in pairs {
        ["sglang --swa-full-tokens-ratio 0.5"] = "--swa-full-tokens-ratio 0.5",
        ["sglang --no-pooled"] = "--disable-hybrid-swa-memory",
        ["vllm --no-pooled"] = "--disable-hybrid-kv-cache-manager",
      } do
        local written = run("serve gpt-oss-20b -s h200-sxm --tp 1 --launch " .. options .. " > out.sh && cat out.sh")
        assert.truthy(written.out:find(flag, 1, true), written.out .. written.err)
        assert.equal(tokens("--software " .. options), tokens "--from out.sh")
      end
    end)
  end)
end)
