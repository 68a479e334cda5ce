-- Ops of more tokens from those of fewer: the same as the block's own, to the last bit, wherever that is done.
local cases = require "cases"
local core = require "tperf.core"
local forms = require "tperf.describe.layout.forms"
local lines = require "tperf.describe.layout.lines"
local memo = require "tperf.describe.layout.memo"
local op = require "tperf.describe.op"
local sections = require "tperf.describe.layout.sections"
local strategy = require "tperf.describe.strategy"
local tperf = require "tperf"

local rules, tensor = tperf.rules "default", strategy.of "tensor"
local ON = core.platform(tperf.system "h100-sxm", rules)

-- How often a module's function gives an answer while f runs.
local function answers_of(module, name, f)
  local original, count = module[name], 0
  module[name] = function(...)
    local made = original(...)
    count = count + (made and 1 or 0)
    return made
  end
  local ok, message = pcall(f)
  module[name] = original
  assert.truthy(ok, message)
  return count
end

-- How often f calls for ops on a line and gets them.
local function lines_in(f) return answers_of(forms, "on_line", f) end

describe("ops on a line", function()
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
      local model, reached, whole = tperf.model(name), 0, 0
      for v = cases(1 + number % 3, 1), #VARIANTS, cases(3, 1) do -- sampled: models take turns
        for _, sizes in ipairs(SIZES) do
          local remembered, kept, variant = sections.new(model, tensor, "flash", rules, {}), {}, VARIANTS[v]
          for _, micro_batch in ipairs(MICRO_BATCHES) do
            local anew = core.workload(tensor.grid, sizes, 1, (remembered:ops(sizes, micro_batch, variant)))
            local known
            reached = reached + lines_in(function()
              whole = whole + answers_of(lines, "blocks", function()
                known = core.workload(tensor.grid, sizes, 1, (remembered:blocks(sizes, micro_batch, variant, kept)))
              end)
            end)
            for i = 1, #remembered.kinds + 2 do
              local function rows(w) return w:ops(i, ON, { 1, 1, 1, 1, 1, 1 }) end
              local one, other = rows(anew), rows(known)
              if core.codec.encode(one) ~= core.codec.encode(other) then assert.same(one, other) end
            end
          end
        end
      end
      assert.truthy(reached > 0)
      assert.equal(not model.experts, whole > 0)
    end)
  end

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

  -- A block with one count that depends on the micro-batch.
  local function ops_of(memory, block, micro_batch)
    local share = strategy.share(tensor, tperf.model "llama-3.1-8b", micro_batch, { 1, 1, 1, 0 }, rules,
      { recompute = "none", sequence_parallel = false, attention = "flash" })
    share.stream = share:outer_tokens()
    return memo.lists(memory, memo.jobs(memory, block, share.model, share), share.model, share)[1]
  end
  local function block_of(f)
    local block = { name = "custom" }
    function block.build(_, p)
      return { op.custom { name = "x", dtype = "bf16", forward = { bytes = f(p.micro_batch) } } }
    end
    return block
  end

  for name, f in pairs {
    rounded_up = function(n) return 128 * ((n + 127) // 128) end, rounded_down = function(n) return n // 3 end,
    bounded = function(n) return math.min(n, 300) end, at_least = function(n) return math.max(n, 300) end,
    squared = function(n) return n * n end, a_third = function(n) return n / 3 end,
    odd = function(n) return n + n % 2 end, split = function(n) return n < 100 and n or 2 * n - 100 end,
  } do
    it("are not taken where a count is " .. name, function()
      local memory, block = memo.new(tensor), block_of(f)
      for _, micro_batch in ipairs { 1, 2, 3, 4, 7, 16, 100, 250, 299, 300, 301, 600, 601, 1000 } do
        assert.equal(f(micro_batch), ops_of(memory, block, micro_batch)[1]:counts().forward.bytes)
      end
    end)
  end

  it("are taken for a count that grows with the tokens, between what was made", function()
    local built = {}
    local memory, block = memo.new(tensor), block_of(function(n)
      built[#built + 1] = n
      return 7 * n + 3
    end)
    for _, micro_batch in ipairs { 2, 4, 6, 64, 128, 5 } do
      assert.equal(7 * micro_batch + 3, ops_of(memory, block, micro_batch)[1]:counts().forward.bytes)
    end
    local last = #built
    assert.same({ 4, 5 }, { built[last - 2], built[last] }) -- 5 is between two steps
    assert.truthy(built[last - 1] > 10000) -- made to see whether the line reaches it
  end)

  it("keep whose adapter they are", function()
    local one = op.custom { name = "x", dtype = "bf16", forward = { bytes = 1 } }
    assert.is_false(one:is_added())
    local made = forms.on_line({ one:add() }, { one }, 3)
    assert.is_true(made[1]:is_added())
  end)
end)
