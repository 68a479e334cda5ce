-- The programs of docs/c_library.md: each compiles as the page has it and prints what the Lua API answers; and the
-- transformer of tperf/transformer.h has the ops of the library's own.
local cases = require "cases"
local core_program = require "core_program"
local program = require "program"
local tperf = require "tperf"

local folder
setup(function() folder = program.folder() end)
teardown(function() program.remove(folder) end)

local SYSTEM <const> = {
  name = "of the page",
  accelerator = {
    tensor = { bf16 = 989e12 }, vector = { bf16 = 134e12, fp32 = 67e12 }, compute_efficiency = 0.6, launch = 2e-6,
    hbm = { bandwidth = 3.35e12, capacity = 80e9, efficiency = 0.9 }, power = 700,
  },
  network = {
    fast = { bandwidth = 450e9, efficiency = 0.8, latency = 1e-6, domain = 8 },
    slow = { bandwidth = 50e9, efficiency = 0.9, latency = 5e-6, nics_per_gpu = 1 },
  },
}

-- A model of tperf_transformer's kind; sizes: layers, hidden, heads, kv_heads, head_dim, ffn, vocab; seq.
local function model(sizes, seq, plain, tied)
  local names, m = { "layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab" }, {
    name = "decoder", seq = seq, gated = not plain, norm = "rmsnorm", positions = "rotary",
    activation = plain and "gelu" or "silu", causal = true, dropout = false, biases = false, tied_embeddings = tied,
  }
  for i, name in ipairs(names) do m[name] = sizes[i] end
  return m
end

local LLAMA <const> = { 32, 4096, 32, 8, 128, 14336, 128256 }

-- What the page's program number i prints.
local function example(i)
  local list = {}
  for text in program.slurp "docs/c_library.md":gmatch "```c\n(.-)```" do list[#list + 1] = text end
  assert.equal(5, #list)
  local source = ("%s/example%d.c"):format(folder, i)
  program.write(source, (list[i]:gsub("#include <tperf/(%w+)%.h>", '#include "tperf/%1.h"')))
  return core_program.run(core_program.build(source, folder))
end

describe("the programs of docs/c_library.md", function()
  it("time a collective", function()
    local seconds = tperf.collective { system = SYSTEM, kind = "all_reduce", bytes = 1 << 30, gpus = 64, fast = 8 }
    assert.equal(("%.6f s\n"):format(seconds), example(1))
  end)

  it("train", function()
    local r = tperf.train {
      model = model(LLAMA, 8192), system = SYSTEM, gpus = 64, global_batch = 128, tp = 4, pp = 2, micro_batch = 1,
      software = "none",
    }
    local b = r.breakdown
    assert.equal(("a step of %.6f s: compute %.6f, tensor_comm %.6f, bubble %.6f; %.3f GB on the fullest GPU\n"):format(
      r.time, b.compute, b.tensor_comm, b.bubble, r.memory.total / 1e9), example(2))
  end)

  it("search", function()
    local sizes = { 1, 2, 4, 8 }
    local found = tperf.search {
      model = model(LLAMA, 8192), system = SYSTEM, gpus = 64, global_batch = 128, tp = sizes, pp = sizes,
      micro_batch = sizes, recompute = { "none", "full" }, schedule = "1f1b", zero = 1, software = "none", top = 3,
    }
    local lines = { ("%d candidates, %d fit"):format(found.candidates, found.feasible) }
    for _, c in ipairs(found) do
      lines[#lines + 1] = ("%.4f samples/s: tp %d, pp %d, dp %d, micro_batch %d%s"):format(c.throughput, c.tp, c.pp,
        c.dp, c.micro_batch, c.recompute == "full" and ", recomputed" or "")
    end
    assert.equal(table.concat(lines, "\n") .. "\n", example(3))
  end)

  it("infer", function()
    local r = tperf.infer {
      model = model(LLAMA, 8192), system = SYSTEM, tp = 4, pp = 2, batch = 8, prompt = 1000, generate = 200,
    }
    assert.equal(("%.3f ms to the first token, %.4f ms for each further one; %.3f GB on the fullest GPU, at most %d "
      .. "sequences\n"):format(1e3 * r.ttft, 1e3 * r.tpot, r.memory.total / 1e9, r.max_batch), example(4))
  end)

  it("serve", function()
    local r = tperf.serve {
      step_time = { fixed = 5e-3, per_token = 20e-6, per_context_token = 5e-9 }, load = { rate = 20 }, count = 1000,
      prompt = { lognormal = { median = 512, sigma = 0.7 }, max = 8192 }, output = { exponential = 128, max = 4096 },
      replicas = 2, seed = 1, slo = { ttft = 0.5, tpot = 0.006 },
      engine = { max_num_seqs = 64, max_num_batched_tokens = 2048, max_model_len = 16384, block_size = 16,
        num_blocks = 8001 },
    }
    local all = r.whole -- as the program's figures are those of the whole run
    assert.equal(("%d answers; first token %.6f s (p99 %.6f), further tokens %.6f s; %d within the limits\n"):format(
      r.finished, all.ttft.mean, all.ttft.p99, all.tpot.mean, math.floor(all.attainment * r.finished + 0.5)),
      example(5))
  end)
end)

local random = { state = 7 }
function random.pick(list)
  random.state = (random.state * 1103515245 + 12345) % (1 << 31)
  return list[1 + (random.state >> 16) % #list]
end

-- The sizes of a model that tp cuts, and the command line's numbers for them.
local function some_model()
  local pick, head_dim = random.pick, random.pick { 64, 80, 128 }
  local heads = pick { 16, 32, 40 }
  local sizes = { pick { 4, 7, 12 }, heads * 64, heads, pick { 1, 4, 8 }, head_dim, pick { 2048, 5632 },
    pick { 32000, 50257 } }
  local plain, tied = pick { false, true }, pick { false, true }
  local numbers = table.concat(sizes, " ") .. (" %d %d"):format(plain and 1 or 0, tied and 1 or 0)
  return sizes, plain, tied, numbers
end

local function near(expected, said)
  assert.truthy(math.abs(said - expected) <= 1e-12 * math.abs(expected), ("%.17g, not %.17g"):format(said, expected))
end

describe("the transformer of tperf/transformer.h", function()
  local asked
  setup(function() asked = core_program.build("src/tools/ask_transformer.c", folder) end)

  local function ask(...)
    local out = core_program.run(asked, table.concat({ ... }, " "))
    local list = {}
    for number in out:gmatch "%S+" do list[#list + 1] = tonumber(number) end
    return table.unpack(list)
  end

  it("trains as the library's", function()
    for _ = 1, cases(12, 200) do
      local pick, sizes, plain, tied, numbers = random.pick, some_model()
      local tp, pp, dp, micro_batch = pick { 1, 2, 8 }, pick { 1, 2, 4 }, pick { 1, 4, 32 }, pick { 1, 2 }
      local again, zero, batch, seq = pick { 0, 1 }, pick { 0, 1, 2, 3 }, dp * micro_batch * pick { 4, 9 },
        pick { 1024, 4096 }
      local r = tperf.train {
        model = model(sizes, seq, plain, tied), system = SYSTEM, global_batch = batch, tp = tp, pp = pp, dp = dp,
        micro_batch = micro_batch, zero = zero, recompute = again == 1 and "full" or "none", software = "none",
      }
      local seconds, bytes = ask("train", numbers, tp, pp, dp, micro_batch, batch, seq, again, zero)
      near(r.time, seconds)
      near(r.memory.total, bytes)
    end
  end)

  it("serves as the library's", function()
    for _ = 1, cases(8, 100) do
      local pick, sizes, plain, tied, numbers = random.pick, some_model()
      local tp, pp, batch, prefill_batch = pick { 1, 2, 8 }, pick { 1, 2, 4 }, pick { 2, 7, 64 }, pick { 1, 2 }
      local prompt, generate = pick { 100, 3000 }, pick { 1, 50, 1000 }
      local r = tperf.infer {
        model = model(sizes, 4096, plain, tied), system = SYSTEM, tp = tp, pp = pp, batch = batch,
        prefill_batch = prefill_batch, prompt = prompt, generate = generate,
      }
      local prefill, decode, bytes, most = ask("infer", numbers, tp, pp, batch, prefill_batch, prompt, generate)
      near(r.prefill.time, prefill)
      near(r.decode.time, decode)
      near(r.memory.total, bytes)
      near(r.max_batch, most)
    end
  end)

  it("refuses sizes that it cannot cut", function()
    for text, given in pairs {
      ["heads = 32 is not divided by tp = 3"] = { "train", "4 4224 32 8", "3 1 1 1 8 1024 0 1" },
      ["kv_heads = 6 neither divides tp = 4 nor is divided by it"] = { "train", "4 4096 32 6", "4 1 1 1 8 1024 0 1" },
      ["transformer: 'layers' is out of range"] = { "train", "0 4096 32 8", "4 1 1 1 8 1024 0 1" },
      ["8 stages cannot share the layers"] = { "train", "4 4096 32 8", "4 8 1 1 8 1024 0 1" },
      ["sizes must be at least 1 and lie in what they divide"] = { "train", "4 4096 32 8", "4 2 16 1 8 1024 0 1" },
      ["prefill_batch = 2 is more than batch = 1"] = { "infer", "4 4096 32 8", "4 2 1 2 100 10" },
    } do
      local arguments = ("%s %s 128 14336 32000 0 0 %s"):format(table.unpack(given))
      local ok, message = pcall(core_program.run, asked, arguments)
      assert.truthy(not ok and tostring(message):find(text, 1, true), text .. ": " .. tostring(message))
    end
  end)
end)
