-- Ops: counts against direct enumeration and against one another, and refusals.
local tperf = require "tperf"
local op = tperf.op

local function attention(o)
  o.batch, o.heads, o.head_dim = o.batch or 1, o.heads or 1, o.head_dim or 1
  return op.attention(o):counts()
end

-- Pairs that attend to each other, counted one by one: the last `queries` of `keys` rows.
local function pairs_of(queries, keys, causal, window)
  local n = 0
  for row = keys - queries + 1, keys do
    for key = 1, causal and row or keys do
      if not window or not causal or row - key < window then n = n + 1 end
    end
  end
  return not causal and window and queries * math.min(window, keys) or n
end

describe("op.attention", function()
  it("counts the pairs that attend to each other", function()
    for _, causal in ipairs { true, false } do
      for keys = 1, 9 do
        for queries = 1, keys do
          for window = 0, keys + 1 do
            local w = window > 0 and window or nil
            local c = attention { queries = queries, keys = keys, causal = causal, window = w, head_dim = 3 }
            local n = pairs_of(queries, keys, causal, w)
            -- Scores: n inner products of 3; output: n terms in each of 3 columns, less one sum a row.
            assert.equal(n * 5 + 3 * (2 * n - queries), c.forward.tensor_flops)
          end
        end
      end
    end
  end)

  it("balances causal rows over shards", function()
    local one = attention { queries = 64, keys = 64, causal = true, head_dim = 16 }
    local shard = attention { queries = 16, keys = 64, shards = 4, causal = true, head_dim = 16 }
    assert.equal(one.forward.tensor_flops / 4, shard.forward.tensor_flops)
    assert.equal(one.saved_bytes / 4, shard.saved_bytes)
  end)

  it("agrees with the published fused attention if nothing is masked or shared", function()
    local shape = { batch = 2, heads = 3, queries = 8, keys = 32, head_dim = 16 }
    local published = op.flash_attention(shape):counts()
    shape.dropout = true
    local ours = op.attention(shape):counts()
    for _, pass in ipairs { "forward", "backward" } do
      assert.equal(published[pass].tensor_flops, ours[pass].tensor_flops)
      assert.equal(published[pass].vector_flops, ours[pass].vector_flops)
    end
  end)

  it("moves each key and value once for the heads that share it", function()
    local function moved(kv_heads)
      return attention { heads = 8, kv_heads = kv_heads, queries = 1, keys = 1000, head_dim = 64 }.forward.bytes
    end
    local own = 2 * 2 * 8 * 64 + 4 * 8 -- queries, output, log-sum-exps
    for _, kv_heads in ipairs { 1, 2, 4, 8 } do assert.equal(own + 2 * 2 * kv_heads * 1000 * 64, moved(kv_heads)) end
  end)

  it("reads only the keys within the window", function()
    local c = attention { queries = 1, keys = 1000, window = 100, causal = true, head_dim = 64, kv_dtype = "fp8" }
    assert.equal(2 * 2 * 64 + 4 + 2 * 100 * 64, c.forward.bytes)
  end)

  it("reads values that are part of the keys with them", function()
    local c = attention { heads = 16, kv_heads = 1, queries = 1, keys = 1000, head_dim = 576, value_dim = 512,
      values_in_keys = true }
    assert.equal(2 * 16 * (576 + 512) + 4 * 16 + 2 * 1000 * 576, c.forward.bytes)
  end)

  it("takes seq for queries and keys", function()
    assert.same(attention { queries = 8, keys = 8 }, attention { seq = 8 })
    assert.has_error(function() attention { seq = 8, keys = 8 } end, nil)
  end)

  it("refuses impossible values", function()
    local function message(o)
      local ok, text = pcall(attention, o)
      assert.is_false(ok)
      return text
    end
    assert.matches("'kv_heads' %(2%) must divide 'heads' %(3%)", message { heads = 3, kv_heads = 2, seq = 4 })
    assert.matches("at least as many keys as queries", message { queries = 5, keys = 4, causal = true })
    assert.matches("'queries' must not be negative", message { queries = -1, keys = 4 })
    assert.matches("'shards' must be at least 1", message { seq = 4, shards = 0 })
    assert.matches("unknown dtype 'bf17'", message { seq = 4, kv_dtype = "bf17" })
    assert.matches("unknown field 'causual'", message { seq = 4, causual = true })
    assert.matches("'causal' must be true or false", message { seq = 4, causal = 1 })
    assert.matches("'heads' must be an integer", message { seq = 4, heads = 1.5 })
    assert.matches("'queries' is missing", message { keys = 4 })
  end)
end)

describe("op.grouped_linear", function()
  it("is one product per expert, and reads the active ones", function()
    local one = op.linear { tokens = 10, n_in = 8, n_out = 16, bias = true }:counts()
    local four = op.grouped_linear { tokens = 40, n_in = 8, n_out = 16, experts = 4, bias = true }:counts()
    for _, pass in ipairs { "forward", "backward" } do
      for _, field in ipairs { "tensor_flops", "vector_flops", "bytes" } do
        assert.equal(4 * one[pass][field], four[pass][field], pass .. field)
      end
    end
    assert.equal(4 * one.weight_bytes, four.weight_bytes)
    assert.equal(4 * one.saved_bytes, four.saved_bytes)
    assert.is_true(four.expert)
    local two = op.grouped_linear { tokens = 40, n_in = 8, n_out = 16, experts = 4, active = 2 }:counts()
    local all = op.grouped_linear { tokens = 40, n_in = 8, n_out = 16, experts = 4 }:counts()
    assert.equal(2 * 2 * 8 * 16, all.forward.bytes - two.forward.bytes)
    assert.equal(all.weight_bytes, two.weight_bytes)
  end)
end)

describe("op.linear", function()
  it("names each collective of a product that is cut", function()
    local function comms(pass)
      local list = {}
      for i, c in ipairs(pass.comms) do list[i] = ("%s %s %.0f"):format(c.kind, c.axis, c.bytes) end
      return list
    end
    local column = op.linear { tokens = 64, n_in = 8, n_out = 4, shard = 16, gather = "tp", input_grad = "tp" }:counts()
    assert.same({ "all_gather tp 1024" }, comms(column.forward))
    assert.same({ "all_gather tp 1024", "reduce_scatter tp 1024" }, comms(column.backward))
    assert.equal(2 * 16 * 8, column.saved_bytes)
    local row = op.linear {
      tokens = 64, n_in = 8, n_out = 4, reduce_scatter = "tp", output_grad = "tp", bias = true, bias_grad = "tp",
    }:counts()
    assert.same({ "reduce_scatter tp 512" }, comms(row.forward))
    assert.same({ "all_gather tp 512", "all_reduce tp 8" }, comms(row.backward))
    local whole = op.linear { tokens = 64, n_in = 8, n_out = 4, parameter_grad = "tp", bias = true }:counts()
    assert.same({ "all_reduce tp 72" }, comms(whole.backward))
  end)

  it("reads weights of another dtype", function()
    local wide = op.linear { tokens = 1, n_in = 100, n_out = 100 }:counts()
    local narrow = op.linear { tokens = 1, n_in = 100, n_out = 100, weight_dtype = "fp8" }:counts()
    assert.equal(10000, wide.forward.bytes - narrow.forward.bytes)
    assert.equal(10000, narrow.weight_bytes)
  end)
end)

describe("op.scan", function()
  it("counts the products of its chunks one by one", function()
    local heads, width, groups, state, chunk, seq = 4, 8, 2, 16, 8, 32
    local flops = 0
    for _ = 1, seq // chunk do
      flops = flops + groups * 2 * chunk * chunk * state -- C B^T
        + heads * 2 * chunk * chunk * width -- times X
        + heads * 2 * chunk * state * width -- the chunk's state
        + heads * 2 * chunk * state * width -- the contribution of the state before it
    end
    local c = op.scan { batch = 3, seq = seq, heads = heads, head_dim = width, groups = groups, state = state,
      chunk = chunk }:counts()
    assert.equal(3 * flops, c.forward.tensor_flops)
    -- Between the kernels, in fp32: 4 chunks' states and 4 chunks' pairs of tokens.
    local states, pairs = 4 * 4 * heads * state * width, 4 * 4 * groups * chunk * chunk
    local inputs, outputs = 2 * seq * (heads * width + 2 * groups * state + heads), 2 * seq * heads * width
    assert.equal(3 * (inputs + outputs + 4 * states + 2 * pairs), c.forward.bytes)
    assert.equal(3 * (2 * (inputs + outputs) + 11 * states + 6 * pairs), c.backward.bytes)
    assert.equal(3 * (2 * states + pairs), c.repeated_bytes) -- at most two copies of the states, one of the pairs
    assert.equal(3 * 2 * seq * (heads * width + 2 * groups * state + heads), c.saved_bytes)
  end)
end)

describe("op.cross_entropy", function()
  it("keeps 4 bytes a logit and sums rows three times", function()
    local c = op.cross_entropy { tokens = 10, vocab = 100, row_sum = "tp" }:counts()
    assert.equal(4 * 10 * 100, c.saved_bytes)
    assert.equal(3, #c.forward.comms)
    for _, one in ipairs(c.forward.comms) do
      assert.same({ kind = "all_reduce", axis = "tp", share = false, beside = false, bytes = 40 }, one)
    end
  end)
end)

describe("op.custom", function()
  it("takes its counts as given", function()
    local given = {
      name = "mine", dtype = "fp16", weight_bytes = 5, saved_bytes = 6, repeated_bytes = 7,
      expert = true,
      forward = { tensor_flops = 1, vector_flops = 2, bytes = 3,
        comms = { { kind = "all_gather", axis = "ep", bytes = 4, share = true, beside = true } } },
      backward = { tensor_flops = 7, vector_flops = 8, bytes = 9, comms = {} },
    }
    local c = op.custom(given):counts()
    assert.is_false(c.recomputed)
    assert.is_false(c.tied)
    c.recomputed, c.tied = nil, nil
    given.parameters, given.trained = 5 / 2, 5 / 2 -- of two bytes each
    assert.same(given, c)
  end)

  it("refuses impossible counts and unknown collectives", function()
    assert.error_matches(function() op.custom { forward = { bytes = -1 } } end, "'forward.bytes' must be")
    assert.error_matches(function() op.custom { forward = { bytes = 0 / 0 } } end, "'forward.bytes' must be")
    assert.error_matches(function() op.custom { weight_bytes = 1e999 } end, "'weight_bytes' must be")
    local wrong = { { kind = "all_gathr", axis = "tp", bytes = 1 } }
    assert.error_matches(function() op.custom { forward = { comms = wrong } } end, "forward.comms%[1%].kind")
    assert.error_matches(function() op.collective { kind = "all_gather", axis = "ninechars", bytes = 1 } end,
      "an axis has a name of 1 to 7 bytes")
    assert.error_matches(function() op.collective { kind = "all_gather", bytes = 1 } end, "axis")
    assert.error_matches(function() op.collective { kind = "nonsense", bytes = 1, axis = "tp" } end,
      'unknown kind "nonsense"; there are: all_gather, ')
  end)

  it("carries gradients back by the counterpart", function()
    local c = op.collective { kind = "all_gather", axis = "cp", bytes = 10 }:counts()
    assert.equal("all_gather", c.forward.comms[1].kind)
    assert.equal("reduce_scatter", c.backward.comms[1].kind)
  end)
end)

describe("op.activation", function()
  it("keeps its inputs", function()
    assert.equal(20, op.activation { kind = "gelu", elements = 10 }:counts().saved_bytes)
    assert.equal(40, op.activation { kind = "silu", gated = true, elements = 10 }:counts().saved_bytes)
    assert.error_matches(function() op.activation { kind = "swish", elements = 1 } end, 'unknown kind "swish"')
  end)
end)

describe("passes over elements", function()
  local made = {
    activation = { kind = "silu", gated = true, elements = 10 }, residual = { elements = 10 },
    rotary = { elements = 10 }, bias = { tokens = 5, width = 2 }, gelu = { elements = 10 },
  }

  local function counts(name, dtype)
    local given = { dtype = dtype }
    for field, value in pairs(made[name]) do given[field] = value end
    return op[name](given):counts()
  end

  it("move bytes of their dtype", function()
    for name in pairs(made) do
      local wide, usual, narrow = counts(name, "fp32"), counts(name), counts(name, "fp8")
      assert.equal("fp32", wide.dtype)
      for _, count in ipairs { "weight_bytes", "saved_bytes" } do
        assert.equal(2 * usual[count], wide[count], name)
        assert.equal(usual[count] / 2, narrow[count], name)
      end
      for _, pass in ipairs { "forward", "backward" } do
        assert.is_true(usual[pass].bytes > 0)
        assert.equal(2 * usual[pass].bytes, wide[pass].bytes, name)
        assert.equal(usual[pass].bytes / 2, narrow[pass].bytes, name)
      end
    end
  end)

  it("have masks of a byte, whatever their dtype", function()
    local function bytes(dtype) return op.dropout { elements = 10, dtype = dtype }:counts().forward.bytes end
    assert.same({ 50, 90 }, { bytes(), bytes "fp32" })
    local function kept(dtype) return op.residual { elements = 10, dropout = true, dtype = dtype }:counts() end
    assert.same({ 70, 130 }, { kept().forward.bytes, kept("fp32").forward.bytes })
    assert.same({ 10, 10 }, { kept().saved_bytes, kept("fp32").saved_bytes })
  end)

  it("refuse unknown dtypes", function()
    for name in pairs(made) do
      assert.error_matches(function() counts(name, "fp33") end, "op%." .. name .. ": unknown dtype 'fp33'")
      assert.error_matches(function() counts(name, 32) end, "op%." .. name .. ": 'dtype' must be a name, got 32")
      assert.error_matches(function() op[name](5) end, "op%." .. name .. " needs a table of fields, got 5")
    end
  end)
end)

-- Every constructor with its fields replaced in turn by invalid values.
describe("every op", function()
  local sound = {
    linear = { tokens = 8, n_in = 4, n_out = 4, shard = 2, bias = true, gather = "tp", parameter_grad = "tp" },
    grouped_linear = { tokens = 8, n_in = 4, n_out = 4, experts = 2, active = 1.5 },
    summa = { tokens = 8, n_in = 4, n_out = 4, n_in_columns = 2, n_in_rows = 2, columns = "tp1", rows = "tp2" },
    norm = { tokens = 8, width = 4, parameters = 4, statistics = "tp", grad_statistics = 3, root_mean_square = true },
    attention = { batch = 1, heads = 4, kv_heads = 2, queries = 4, keys = 8, head_dim = 4, value_dim = 2, window = 3,
      causal = true, shards = 2, gather = "cp", kv_dtype = "fp8" },
    scores = { batch = 1, heads = 4, queries = 4, keys = 8, head_dim = 4, kv_heads = 2, gather = "cp" },
    elementwise = { elements = 8, parameters = 2, forward_flops = 1, backward_flops = 1, forward_bytes = 1,
      backward_bytes = 1, saved_bytes = 1, parameter_grad = "tp" },
    softmax = { rows = 8, width = 4, row_sum = "tp" },
    embedding = { tokens = 8, rows = 4, width = 4, reduce_scatter = "tp" },
    cross_entropy = { tokens = 8, vocab = 4, row_sum = "tp" },
    router = { tokens = 8, width = 4, experts = 4, top_k = 2, bias = true, parameter_grad = "tp" },
    scan = { batch = 1, seq = 8, heads = 4, head_dim = 4, state = 2, groups = 2, chunk = 4, step = false },
    custom = { name = "c", weight_bytes = 1, saved_bytes = 1, forward = { bytes = 1 } },
    collective = { kind = "all_gather", axis = "tp", bytes = 5 },
  }
  local hostile = {
    -1, -0.5, 0, 0.5, 1e999, -1e999, 0 / 0, 2 ^ 53, 1e300, math.mininteger, math.maxinteger, "", "x", ("x"):rep(1000),
    "\0", true, {}, print,
  }

  local function finite(pass)
    for _, field in ipairs { "tensor_flops", "vector_flops", "bytes" } do
      assert.is_true(pass[field] >= 0 and pass[field] < math.huge, field)
    end
    for _, c in ipairs(pass.comms) do assert.is_true(c.bytes >= 0 and c.bytes < math.huge) end
  end

  for name, fields in pairs(sound) do
    it("counts or refuses with a reason: op." .. name, function()
      op[name](fields)
      for field in pairs(fields) do
        for _, value in ipairs(hostile) do
          local given = {}
          for key, kept in pairs(fields) do given[key] = kept end
          given[field] = value
          local ok, made = pcall(op[name], given)
          if ok then
            local c = made:counts()
            finite(c.forward)
            finite(c.backward)
            assert.is_true(c.weight_bytes >= 0 and c.saved_bytes >= 0)
            assert.is_true(c.weight_bytes < math.huge and c.saved_bytes < math.huge)
            if type(value) == "number" then -- taken as it is: a size or a count
              assert.is_true(value == value and value >= 0 and value < math.huge, field .. " = " .. tostring(value))
            end
          else
            assert.matches("^spec/op_spec.lua:%d+: op[. ]", made)
          end
        end
      end
      for _, other in ipairs { "tokns", 1, true } do
        assert.error_matches(function() op[name] { [other] = 1 } end, "op%.%w+")
      end
      for _, value in ipairs { 1, "x", true } do
        assert.error_matches(function() op[name](value) end, "table")
      end
    end)
  end
end)
