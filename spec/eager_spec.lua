-- PyTorch without a compiler: what its kernels pass through HBM between them.
local program = require "program"
local tperf = require "tperf"

local HIDDEN <const>, FFN <const>, HEADS <const>, KV <const>, SEQ <const> = 1024, 4096, 8, 2, 512

local function bytes_of(change)
  local model = { name = "spec", layers = 2, hidden = HIDDEN, heads = HEADS, kv_heads = KV, ffn = FFN, gated = true,
    seq = SEQ, norm = "rmsnorm", positions = "rotary", activation = "silu" }
  for name, value in pairs(change.model or {}) do model[name] = value end
  local c = tperf.train {
    model = tperf.model(model), system = "h100-sxm", gpus = 1, global_batch = 1, compile = change.compile,
    software = tperf.software "torchtitan-2024":with { norm = change.norm },
  }
  local bytes = {}
  for _, one in ipairs(c.layers) do bytes[one.name] = { one.forward.bytes, one.backward.bytes } end
  return bytes, c
end

local function more(change)
  local fused = bytes_of { compile = true, model = change.model }
  local found = {}
  for name, now in pairs((bytes_of(change))) do
    local forward, backward = now[1] - fused[name][1], now[2] - fused[name][2]
    if forward ~= 0 or backward ~= 0 then found[name] = { forward, backward } end
  end
  return found
end

describe("compile = false", function()
  local norm, gate = { 32 * SEQ * HIDDEN, 74 * SEQ * HIDDEN }, { 4 * SEQ * FFN, 8 * SEQ * FFN }
  local turned = SEQ * (HEADS + KV) * HIDDEN // HEADS
  local rotary = { 16 * turned, 16 * turned }

  it("passes the elements of norms, rotations and gates through HBM at every step", function()
    assert.same({ norm = norm, rotary = rotary, silu = gate }, more { compile = false, norm = "pytorch" })
  end)

  it("leaves norms fused since PyTorch 2.8", function()
    assert.same({ rotary = rotary, silu = gate }, more { compile = false, norm = "fused" })
  end)

  it("makes no difference to a norm that copies its input to fp32", function()
    -- Forward, 2 bytes are read and 4 written, then 4 read instead of 2; backward, 4 are read twice instead of 2, 4
    -- written instead of 2, then 4 read and 2 written.
    local copied = { (2 + 4 + 4 - 2) * SEQ * HIDDEN, (2 * (4 - 2) + 4 - 2 + 4 + 2) * SEQ * HIDDEN }
    assert.same({ norm = copied }, more { compile = true, norm = "copied" })
    assert.same({ norm = copied }, more { compile = true, norm = "copied", model = { norm = "layernorm" } })
    assert.same({ norm = copied, rotary = rotary, silu = gate }, more { compile = false, norm = "copied" })
    for kind, bytes in pairs { fused = 2, copied = 4 } do
      local _, c = bytes_of { norm = kind }
      for _, one in ipairs(c.layers) do
        if one.name == "norm" then assert.equal(bytes * SEQ * HIDDEN, one.saved_bytes) end
      end
    end
  end)

  it("makes a GELU that is written in steps of a kernel for each, and no other", function()
    -- transformers' NewGELUActivation: see kernels/eager.yaml for the sums.
    local steps = { (4 + 4 + 6 + 4 + 4 + 4 + 4 + 6 - 4) * SEQ * FFN, (12 + 6 + 8 + 14 + 4 + 12 - 6) * SEQ * FFN }
    local plain = { norm = "layernorm", gated = false, activation = "gelu", positions = "learned",
      activation_steps = true }
    assert.same({ gelu = steps }, more { compile = false, norm = "pytorch", model = plain })
    local path = program.temporary ".json"
    program.write(path, [[{ "model_type": "gpt2", "n_embd": 1024, "n_layer": 2, "n_head": 8, "n_positions": 512,
      "vocab_size": 1024 }]])
    assert.is_true(tperf.model(path).activation_steps) -- GPT-2's is gelu_new by default
    assert.is_false(tperf.model "llama-3.1-8b".activation_steps)
  end)

  it("scales, masks and casts the scores of separate kernels", function()
    local fused, eager = {}, {}
    for compile, into in pairs { [true] = fused, [false] = eager } do
      local c = tperf.train { model = "gpt2", system = "h100-sxm", gpus = 1, global_batch = 1, attention = "unfused",
        compile = compile, software = tperf.software "torchtitan-2024" }
      for _, one in ipairs(c.layers) do into[one.name] = one end
    end
    local scores = 12 * 1024 * 1024
    local function more_of(pass) return (eager.softmax[pass].bytes - fused.softmax[pass].bytes) / scores end
    assert.equal(4 + 4 + 6 + 6 - 4, more_of "forward")
    assert.equal(6 + 12 + 6 + 4 - 6, more_of "backward")
    assert.equal(4 * scores, eager.softmax.saved_bytes - fused.softmax.saved_bytes) -- the softmax in fp32
  end)

  it("is PyTorch's plain modules where a profile describes no stack of its own, or one that compiles", function()
    local o = { model = "llama-3.2-1b", system = "h100-sxm", dp = 8, global_batch = 8, seq = 2048, compile = false }
    local function time(software)
      o.software = software
      return tperf.train(o)
    end
    for _, name in ipairs { "typical", "tuned", "nanogpt-2023" } do
      local plain = tperf.software(name):with { norm = "pytorch", loss = "pytorch", accumulation = "separate",
        pytorch_modules = true, module_calls = 3 }
      local c, by_hand = time(name), time(plain)
      assert.equal(by_hand.time, c.time, name)
      assert.equal(by_hand.memory.total, c.memory.total, name)
      assert.equal(name, c.software)
      o.compile = nil
      assert.is_true(c.time > 1.05 * time(name).time, name)
      o.compile = false
    end
  end)

  it("leaves a layernorm and an activation without gate as they are", function()
    local plain = { norm = "layernorm", gated = false, activation = "gelu", positions = "learned" }
    assert.same({}, more { compile = false, norm = "pytorch", model = plain })
  end)

  it("is what a configuration keeps and is asked with again", function()
    local _, c = bytes_of { compile = false }
    assert.is_false(c.compile)
    assert.is_true((select(2, bytes_of { compile = true }).compile))
    assert.is_nil((select(2, bytes_of {}).compile))
    local again = tperf.train { model = "llama-3.1-8b", system = "h100-sxm", configuration = c, seq = SEQ }
    assert.is_false(again.compile)
  end)
end)

describe("torchtitan's file", function()
  local function compiles(lines)
    local text = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n"
    local files = { { name = "t.toml", text = text .. lines } }
    return tperf.import.launch { files = files, given = { gpus = 8 } }.axes.compile
  end

  it("compiles if it says so, and its layers are among what it compiles", function()
    assert.is_false(compiles "")
    assert.is_false(compiles "[compile]\nenable = false\n")
    assert.is_true(compiles "[compile]\nenable = true\n")
    assert.is_true(compiles "[compile]\nenable = true\ncomponents = [\"model\", \"loss\"]\n")
    assert.is_false(compiles "[compile]\nenable = true\ncomponents = [\"loss\"]\n")
    assert.is_true(compiles "compile = true\n") -- of 2024
  end)

  it("is written to compile unless the configuration is eager", function()
    for _, compile in ipairs { true, false } do
      local q = { model = "llama-3.1-8b", system = "h100-sxm", gpus = 8, global_batch = 8, zero = 3, compile = compile }
      local text = tperf.report.launch(tperf.train(q), "torchtitan", { model = "llama-3.1-8b" })
      assert.equal(compile, text:find("[compile]\nenable = true", 1, true) ~= nil)
    end
    local eager = tperf.train {
      model = "llama-3.1-8b", system = "h100-sxm", gpus = 8, global_batch = 8, compile = false,
    }
    assert.error_matches(function() tperf.report.launch(eager, "megatron", { seq = 8192 }) end, "compile = false: ")
  end)
end)
