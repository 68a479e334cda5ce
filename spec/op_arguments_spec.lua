-- What the core's ops refuse: numbers of the library's own calls that no op can have.
local core = require "tperf.core"
local tperf = require "tperf"

local function refuses(text, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok, text)
  if not message:find(text, 1, true) then error(("no %q in: %s"):format(text, message), 2) end
end

local function product()
  return core.op.linear { name = "fc", tokens = 8, n_in = 64, n_out = 32 }
end

describe("an op", function()
  it("sends tokens to experts only as a router may choose them", function()
    local right = { experts = 8, top_k = 2, groups = 4, top_groups = 2, relayed = 1, passed = 1, ports = 0.5,
      doubling = 1e-6, units = 20 }
    local function send(field, value, kind)
      local once = {}
      for name, number in pairs(right) do once[name] = number end
      if field then once[field] = value end
      return product():communicate("forward", kind or "all_to_all", "ep", 1e6, false, false, once)
    end
    assert.is_true(core.op.is(send()))
    local negative = "op 'fc': once: 'units', 'relayed', 'passed' and 'doubling' must not be negative"
    for _, name in ipairs { "units", "relayed", "passed", "doubling" } do refuses(negative, send, name, -1) end
    for _, ports in ipairs { -0.1, 1.1 } do refuses("once: 'ports' must be from 0 to 1", send, "ports", ports) end
    refuses("once: only an all_to_all has it", send, nil, nil, "all_gather")
    for _, top_k in ipairs { 0, 9 } do
      refuses("once: 'top_k' must be from 1 to the number of experts", send, "top_k", top_k)
    end
    refuses("once: 'top_k' must be from 1 to the number of experts", send, "experts", 0)
    for _, groups in ipairs { 3, 16 } do
      refuses("once: 'groups' must divide the number of experts", send, "groups", groups)
    end
    for _, chosen in ipairs { 0, 5 } do
      refuses("once: 'top_groups' must be from 1 to 'groups'", send, "top_groups", chosen)
    end
    refuses("once: 'top_k' is more than the experts of 'top_groups' groups", send, "top_k", 5)
    refuses("experts: 'top_k' must be from 1", core.routed_parts, 8, 9, 1, 1, 2)
  end)

  it("keeps, repeats and holds only what is a number of bytes, or a part", function()
    for _, part in ipairs { -0.1, 1.1 } do
      refuses("not from 0 to 1", function() return product():drop_input(part) end)
      refuses("not from 0 to 1", function() return product():repeat_part(part, 1) end)
    end
    for _, bytes in ipairs { -1, math.huge } do
      refuses("not a number of bytes", function() return product():repeat_part(0.5, bytes) end)
      refuses("not a number of bytes", function() return product():hold(bytes, 0) end)
      refuses("not a number of bytes", function() return product():hold(0, bytes) end)
    end
    assert.equal(7, product():hold(7, 0):counts().saved_bytes)
    assert.equal(7, product():hold(7, 0):keeps())
    assert.equal(7, product():hold(7, 0):again(3):keeps()) -- 4 kept, 3 made again
  end)

  it("is narrowed only if it is a product, by bytes that a number has", function()
    local norm = core.op.norm { name = "norm", tokens = 8, width = 64 }
    refuses("op 'norm' is no product with weights", norm.narrowed, norm, { dtype = "fp8" })
    assert.is_nil(norm:product())
    for _, name in ipairs { "number", "weight", "held", "copies", "gathered", "step", "gather", "grad_gather" } do
      local one = product()
      refuses("op 'fc': 65 bytes of a number, not 0 to 64", one.narrowed, one, { dtype = "fp8", [name] = 65 })
      refuses("op 'fc': -1 bytes of a number, not 0 to 64", one.narrowed, one, { dtype = "fp8", [name] = -1 })
    end
    assert.equal(64 * 32, product():narrowed { dtype = "fp8", held = 1 }:counts().weight_bytes)
    local weights = 2 * 64 * 32
    assert.equal(weights, product():narrowed { dtype = "fp8" }:counts().weight_bytes)
    -- X in one byte, Y in two; weights of two bytes, or of one
    assert.equal(8 * 64 + 2 * 8 * 32 + weights, product():narrowed { dtype = "fp8", number = 1 }:counts().forward.bytes)
    assert.equal(2 * 8 * 64 + 2 * 8 * 32 + weights / 2,
      product():narrowed { dtype = "fp8", weight = 1 }:counts().forward.bytes)
  end)

  it("has sizes, and queries that see some of the keys", function()
    local sizes = { name = "fc", tokens = 8, n_in = 64, n_out = 32 }
    for name in pairs { tokens = 1, n_in = 1, n_out = 1, shard = 1, chunks = 1, output_shard = 1 } do
      local right = sizes[name]
      sizes[name] = -1
      refuses(("'%s' must not be negative, got -1"):format(name), core.op.linear, sizes)
      sizes[name] = right
    end
    refuses("'gathered_tokens' must not be negative", core.op.norm, { tokens = 8, width = 64, gathered_tokens = -1 })
    for _, seen in ipairs { 0.5, 9, -1 } do
      refuses("'seen' must be", tperf.op.attention, { batch = 1, heads = 1, queries = 1, keys = 8, head_dim = 8,
        seen = seen })
    end
  end)

  it("names the same field of several that are wrong, whatever order its table has", function()
    for i = 1, 20 do
      local wrong = { name = "fc", tokens = 8, n_in = 64, n_out = 32 }
      for k = 1, 9 do wrong[("f%d_%d"):format(k, i)] = k end
      wrong[1], wrong[true] = 1, 1
      refuses(("unknown field 'f1_%d'"):format(i), core.op.linear, wrong)
      refuses("'tokens' must be an integer, got x", core.op.linear, { n_out = {}, n_in = "y", tokens = "x", bias = 7 })
    end
  end)
end)
