-- Ops of more tokens from those of fewer: the same as the block's own, to the last bit, wherever that is done.
local cases = require "cases"
local core = require "tperf.core"
local memo = require "tperf.describe.layout.memo"
local op = require "tperf.describe.op"
local sections = require "tperf.describe.layout.sections"
local strategy = require "tperf.describe.strategy"
local tperf = require "tperf"

local rules, tensor = tperf.rules "default", strategy.of "tensor"
local ON = core.platform(tperf.system "h100-sxm", rules)

-- How many lists of ops the blocks of a memory made, and for how many cuts: of linear ones, and of others.
local function made_of(memory)
  local lists, leaves = { [true] = 0, [false] = 0 }, { [true] = 0, [false] = 0 }
  for block, of_block in pairs(memory.leaves) do
    local linear = (block.unmarked or block).linear == true
    for _, leaf in pairs(of_block) do
      leaves[linear] = leaves[linear] + 1
      for _ in pairs(leaf.lists) do lists[linear] = lists[linear] + 1 end
    end
  end
  return lists, leaves
end

describe("blocks on a line", function()
  local MICRO_BATCHES <const> = { 1, 2, 3, 4, 7, 16, 6, 1000, 4096, 5 }
  local SIZES <const> = { { 1, 1, 1, 0 }, { 8, 1, 8, 0 }, { 4, 2, 4, 0 } }
  local VARIANTS <const> = {
    { recompute = "none" }, { recompute = "full" }, { recompute = "full", sequence_parallel = false },
    { recompute = "selective", recompute_modules = "layernorm" },
    { recompute = "selective", recompute_modules = "but:input:core_attn" }, { recompute = "none", loss = "pytorch" },
    { recompute = "selective", recompute_modules = "op" }, { recompute = "none", seq = 1000 },
    { recompute = "none", cuda_graphs = "layer" }, { recompute = "none", offload_modules = "attn_norm" },
    { recompute = "none", mode = "prefill", seq = 512 },
    { recompute = "none", mode = "decode", seq = 1, context = 512 },
  }
  local NAMES <const> = { "llama-3.1-70b", "deepseek-v3", "jamba-v0.1", "gemma-2-27b", "gpt-oss-20b", "gpt3-175b",
    "mixtral-8x7b" }

  for number, name in ipairs(NAMES) do
    it("are those that the blocks make, for " .. name, function()
      local model = tperf.model(name)
      for v = cases(1 + number % 3, 1), #VARIANTS, cases(3, 1) do -- sampled: models take turns
        for _, sizes in ipairs(SIZES) do
          local remembered, kept, variant = sections.new(model, tensor, "flash", rules, {}), {}, VARIANTS[v]
          for _, micro_batch in ipairs(MICRO_BATCHES) do
            local anew = core.workload(tensor.grid, sizes, 1, (remembered:ops(sizes, micro_batch, variant)))
            local known = core.workload(tensor.grid, sizes, 1, (remembered:blocks(sizes, micro_batch, variant, kept)))
            for i = 1, #remembered.kinds + 2 do
              local function rows(w) return w:ops(i, ON, { 1, 1, 1, 1, 1, 1 }) end
              local one, other = rows(anew), rows(known)
              if core.codec.encode(one) ~= core.codec.encode(other) then assert.same(one, other) end
            end
          end
        end
      end
    end)
  end

  it("are made by Lua for two micro-batches of each cut", function()
    local all, kept = sections.new(tperf.model "llama-3.1-70b":with {}, tensor, "flash", rules, {}), {}
    for micro_batch = 1, 64 do all:blocks({ 8, 1, 1, 0 }, micro_batch, { recompute = "full" }, kept) end
    local lists, leaves = made_of(all.memory)
    assert.equal(4, leaves[true]) -- attention, MLP and both ends
    assert.equal(2 * leaves[true], lists[true])
  end)

  local ALONE <const> = { 1, 1, 1, 0 }
  local function joined(n, bytes, saved)
    local list = { name = "x" }
    for i = 1, n do list[i] = op.custom { name = "x", forward = { bytes = bytes }, saved_bytes = saved } end
    return core.block(tensor.grid, ALONE, list)
  end
  local function rows_of(block)
    local workload = core.workload(tensor.grid, ALONE, 1, { { block }, {}, {} })
    return workload:ops(1, ON, { 1, 1, 1, 1, 1, 1 })
  end

  it("make blocks, recomputed ones from the plain ops' line, which they may leave", function()
    -- Up to 22 tokens the first op keeps less than the input of the recomputed layer.
    local function input(n) return 2000 + 10 * n end
    local first, second = joined(2, 1, 100), joined(2, 2, 200)
    for n = 1, 64 do
      local plain = joined(2, n, 100 * n)
      assert.same(rows_of(plain), rows_of((core.block_on_line(first, second, n - 1))))
      local whole = core.block(tensor.grid, ALONE, plain, input(n))
      assert.same(rows_of(whole), rows_of((core.block_on_line(first, second, n - 1, input(n)))))
    end
  end)

  it("make the same block for the same line and place", function()
    local first, second = joined(2, 1, 100), joined(2, 2, 200)
    local one, copies = core.block_on_line(first, second, 5)
    assert.equal(2, copies)
    local again, none = core.block_on_line(first, second, 5)
    assert.equal(one, again)
    assert.equal(0, none)
    assert.is_true(one ~= core.block_on_line(first, second, 5, 0))
    assert.is_true(one ~= core.block_on_line(first, second, 6))
    assert.is_true(one ~= core.block_on_line(first, joined(2, 2, 200), 5))
  end)

  it("make no block where a count would not be exact, or of other ops", function()
    assert.is_nil((core.block_on_line(joined(1, 1, 0), joined(1, 1 / 3, 0), 3)))
    assert.is_nil((core.block_on_line(joined(1, 1, 0), joined(2, 2, 0), 3)))
    for _, wrong in ipairs { { 1, joined(1, 1, 0), 3 }, { joined(1, 1, 0), {}, 3 },
      { joined(1, 1, 0), joined(1, 2, 0), "x" }, { joined(1, 1, 0), joined(1, 2, 0), 0 / 0 },
      { joined(1, 1, 0), joined(1, 2, 0), 3, "x" } } do
      assert.is_false((pcall(core.block_on_line, table.unpack(wrong))))
    end
  end)

  -- The bytes of a block whose one count depends on the micro-batch, and how often it was called for them.
  local function bytes_of(f, micro_batches, linear)
    local block, calls, list = { name = "custom", linear = linear }, 0, {}
    function block.build(_, p)
      calls = calls + 1
      return { op.custom { name = "x", dtype = "bf16", forward = { bytes = f(p.micro_batch) } } }
    end
    local memory, model = memo.new(tensor, rules), tperf.model "llama-3.1-8b"
    for i, micro_batch in ipairs(micro_batches) do
      local share = strategy.share(tensor, model, micro_batch, ALONE, rules, { recompute = "none" })
      local made = memo.blocks(tensor.grid, memo.jobs(memory, block, model, share), model, share, ALONE)
      list[i] = rows_of(made[1])[1].forward.bytes
    end
    return list, calls
  end

  it("are taken for counts that grow with the tokens, wherever the line's steps lead", function()
    local at = { 2, 4, 6, 64, 128, 5, 2, 1 }
    local list, calls = bytes_of(function(n) return 7 * n + 3 end, at, true)
    for i, micro_batch in ipairs(at) do assert.equal(7 * micro_batch + 3, list[i]) end
    assert.equal(4, calls) -- for 2 and 4; 5 and 1 are between two steps, and before the first
  end)

  it("are not taken for a block that does not say that its counts are linear", function()
    local at = { 1, 2, 3, 4, 300, 301 }
    local list, calls = bytes_of(function(n) return math.min(n, 300) end, at)
    assert.same({ 1.0, 2.0, 3.0, 4.0, 300.0, 300.0 }, list)
    assert.equal(#at, calls)
  end)
end)
