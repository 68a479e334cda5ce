-- What engines take where their command says nothing, by device: the values are those of the releases' own code, which
-- software/*.yaml names.
local tperf = require "tperf"

local function taken(system, software, more)
  local q = { model = "llama-3.1-8b", system = system, software = software, load = { concurrency = 1 }, count = 2,
    prompt = 10, output = 2 }
  for name, value in pairs(more or {}) do q[name] = value end
  return tperf.serve(q).defaults
end

describe("an engine's defaults", function()
  it("are vLLM's 256 requests and 2,048 tokens below 70 GiB, on an A100 and a GB10; else 1,024 and 8,192", function()
    for system, limits in pairs { l4 = { 256, 2048 }, ["l40s"] = { 256, 2048 }, ["a100-sxm-80gb"] = { 256, 2048 },
      gb10 = { 256, 2048 }, ["h100-sxm"] = { 1024, 8192 }, ["b200-sxm"] = { 1024, 8192 }, mi300x = { 1024, 8192 } } do
      for _, release in ipairs { "vllm-0.11", "vllm-0.15" } do
        local d = taken(system, release)
        assert.same(limits, { d.max_num_seqs, d.max_num_batched_tokens }, system)
      end
    end
  end)

  it("are SGLang's chunks and graphs by memory and GPUs", function()
    for system, limits in pairs { l4 = { 2048, 24 }, l40s = { 4096, 32 }, ["h100-sxm"] = { 8192, 256 },
      ["h200-sxm"] = { 8192, 256 }, ["b200-sxm"] = { 16384, 512 } } do
      local d = taken(system, "sglang")
      assert.same(limits, { d.max_num_batched_tokens, d.max_cudagraph_capture_size }, system)
    end
    assert.equal(512, taken("h100-sxm", "sglang", { tp = 4 }).max_cudagraph_capture_size)
    assert.equal(80, taken("l4", "sglang", { tp = 4 }).max_cudagraph_capture_size)
  end)

  it("are only what the question leaves open, and change the answer", function()
    local d = taken("l4", nil, { engine = { max_num_seqs = 64 }, memory_utilization = 0.9 })
    assert.same({ max_num_batched_tokens = 2048 }, d)
    local function blocks(seqs)
      return tperf.serve { model = "llama-3.1-8b", system = "l4", load = { concurrency = 1 }, count = 2, prompt = 10,
        output = 2, engine = { max_num_seqs = seqs } }.num_blocks
    end
    assert.equal(blocks(256), blocks(nil))
    assert.truthy(blocks(1024) < blocks(256))
  end)

  it("are 1,024 and 8,192 with step times", function()
    local q = { step_time = { fixed = 1e-3 }, load = { concurrency = 2000 }, count = 4000, prompt = 1, output = 10 }
    assert.equal(1024, tperf.serve(q).max_num_seqs)
  end)
end)

describe("kernels of experts", function()
  local function tpot(model, software, experts, system)
    return tperf.serve { model = model, system = system or "b200-sxm", tp = 8, software = software, experts = experts,
      requests = { { arrival = 0, prompt = 64, output = 16 } } }.tpot.mean
  end

  it("are Triton's in 16 bits in SGLang's earlier releases, and of families for which none are chosen", function()
    -- sglang/srt/server_args.py of 0.5.6 and 0.5.8, _handle_model_specific_adjustments
    assert.equal(tpot("qwen3-235b-a22b", "sglang-0.5", "portable"), tpot("qwen3-235b-a22b", "sglang-0.5"))
    assert.equal(tpot("qwen3-235b-a22b", "sglang-0.5.10", "fused"), tpot("qwen3-235b-a22b", "sglang-0.5.10"))
    for _, software in ipairs { "sglang-0.5", "sglang-0.5.10" } do
      assert.equal(tpot("glm-4.6", software, "portable"), tpot("glm-4.6", software))
      assert.equal(tpot("minimax-m2", software, "portable"), tpot("minimax-m2", software))
      assert.equal(tpot("deepseek-v3", software, "fused"), tpot("deepseek-v3", software))
    end
    assert.truthy(tpot("glm-4.6", "sglang-0.5", "portable") > 1.3 * tpot("glm-4.6", "sglang-0.5", "fused"))
  end)
end)

describe("users at full context", function()
  it("are the blocks over those of the longest request, as vLLM prints", function()
    local function ask(engine, model)
      return tperf.serve { model = model or "llama-3.1-8b", system = "h100-sxm", load = { concurrency = 1 }, count = 2,
        prompt = 10, output = 2, engine = engine }
    end
    local r = ask { num_blocks = 10000, max_model_len = 4000 }
    assert.same({ tokens = 4000, requests = 10000 / 250 }, r.full_context)
    assert.equal(10000 / 251, ask({ num_blocks = 10000, max_model_len = 4001 }).full_context.requests)
    -- gpt-oss: half of its layers keep 128 tokens, in ceil(127 / 16) + 1 = 9 blocks of 16
    r = ask({ num_blocks = 10000, max_model_len = 16000 }, "gpt-oss-20b")
    assert.equal(10000 / (1000 + 9), r.full_context.requests)
    assert.equal(131072, ask({}).full_context.tokens) -- the model's context
  end)
end)
