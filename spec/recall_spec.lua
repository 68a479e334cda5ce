-- A block of a script is called once for each share that differs in what it reads, whatever asks for its ops.
local tperf = require "tperf"
local op = tperf.op

local HIDDEN <const> = 1024

-- What calls are counted in. A table with a metatable is captured by its address, so that counting changes no key.
local function counter() return setmetatable({ of = {}, calls = 0 }, {}) end

local function count(counts, ...)
  local key = table.concat({ ... }, " ")
  counts.calls, counts.of[key] = counts.calls + 1, (counts.of[key] or 0) + 1
end

local function most(counts)
  local largest, distinct = 0, 0
  for _, n in pairs(counts.of) do largest, distinct = math.max(largest, n), distinct + 1 end
  return largest, distinct
end

local function model_of(name, fields)
  fields.name = name
  return tperf.model { name = name, layers = 8, hidden = HIDDEN, heads = 16, seq = 512, vocab = 32000,
    architecture = tperf.architecture(fields) }
end

local BUILDERS <const> = {
  ["tokens and tp"] = function(counts)
    return function(m, p)
      count(counts, p.tokens, p.tp)
      local inner = 4 * m.hidden // p.tp
      return { op.linear { name = "up", tokens = p.tokens, n_in = m.hidden, n_out = inner },
        op.linear { name = "down", tokens = p.tokens, n_in = inner, n_out = m.hidden } }
    end
  end,
  ["one field or another, by the first"] = function(counts)
    return function(m, p)
      local second = p.tp > 2 and p.micro_batch or p.mode
      count(counts, p.tp, second)
      return { op.linear { name = "one", tokens = 512 * (math.tointeger(second) or 1), n_in = m.hidden, n_out = 64 } }
    end
  end,
  ["nothing"] = function(counts)
    return function(m)
      count(counts, "always")
      return { op.linear { name = "same", tokens = 512, n_in = m.hidden, n_out = m.hidden } }
    end
  end,
  ["what cuts and attention read"] = function(counts)
    return function(m, p)
      count(counts, p.micro_batch, p.seq, p.tp, tostring(p.sequence_parallel), p.mode, p.context, p.recompute)
      return {
        p:norm { name = "norm", width = m.hidden }, p:column { name = "qkv", n_in = m.hidden, n_out = 3 * m.hidden },
        p:attention { heads = m.heads, head_dim = m.head_dim, causal = true },
        p:row { name = "proj", n_in = m.hidden, n_out = m.hidden }, op.residual { elements = p:outer(m.hidden) },
      }
    end
  end,
  ["that it refuses some shapes"] = function(counts)
    return function(m, p)
      count(counts, p.micro_batch)
      if p.micro_batch > 2 then return nil, "needs two sequences at most" end
      return { op.linear { name = "few", tokens = 512 * p.micro_batch, n_in = m.hidden, n_out = m.hidden } }
    end
  end,
}

local QUESTIONS <const> = {
  function(m) return tperf.search { model = m, system = "h100-sxm", gpus = 8, global_batch = 32 } end,
  function(m)
    return tperf.search { model = m, system = "h100-sxm", gpus = 8, global_batch = 32,
      recompute = { "none", "full" }, top = 3 }
  end,
  function(m) return tperf.train { model = m, system = "h100-sxm", global_batch = 32, tp = 4, dp = 2 } end,
}

describe("a block that reads", function()
  for name, make in pairs(BUILDERS) do
    it(name .. " is called once for each of these", function()
      local counts = counter()
      local m = model_of("reads " .. name, { layer = { tperf.block("own", make(counts)) } })
      for _, ask in ipairs(QUESTIONS) do ask(m) end
      local largest, distinct = most(counts)
      assert.equal(1, largest)
      assert.equal(distinct, counts.calls)
    end)
  end

  it("the context is called once for each that a search of inference needs", function()
    local counts = counter()
    local m = model_of("decodes", { layer = { tperf.block("own", function(own, p)
      count(counts, p.mode, p.tokens, p.tp, p.context)
      local keys = p.context + p.seq
      return { op.linear { name = "up", tokens = p.tokens, n_in = own.hidden, n_out = 4 * own.hidden // p.tp },
        op.attention { name = "see", batch = p.micro_batch, queries = p.seq, keys = keys, heads = 16 // p.tp,
          head_dim = 64 },
        op.linear { name = "down", tokens = p.tokens, n_in = 4 * own.hidden // p.tp, n_out = own.hidden } }
    end) } })
    tperf.search_inference { model = m, system = "h100-sxm", gpus = 2, prompt = 300, generate = 20 }
    assert.equal(1, (most(counts)))
  end)

  it("nothing and stands at an end is called once, too", function()
    local counts = counter()
    local plain = tperf.block("own", function(m)
      return { op.linear { name = "x", tokens = 9, n_in = 8, n_out = m.hidden } }
    end)
    local last = tperf.block("last", BUILDERS["nothing"](counts))
    local m = model_of("ends", { layer = { plain }, first = {}, last = { last } })
    for _, ask in ipairs(QUESTIONS) do ask(m) end
    assert.equal(1, counts.calls)
  end)

  it("other values of what it captures is called again", function()
    local counts, width = counter(), 64
    local m = model_of("captures", { layer = { tperf.block("own", function(own)
      count(counts, width)
      return { op.linear { name = "x", tokens = 512, n_in = own.hidden, n_out = width } }
    end) } })
    for _, value in ipairs { 64, 128, 64 } do
      width = value
      local c = tperf.train { model = m, system = "h100-sxm", global_batch = 8 }
      assert.equal(2 * HIDDEN * value, c.kinds[1].ops[1].weight_bytes)
    end
    assert.equal(2, counts.calls)
  end)
end)

describe("what was remembered of a block", function()
  it("is not changed by what a question does with it", function()
    local counts = counter()
    local function make(m, p)
      count(counts, p.tp)
      return { p:norm { name = "norm", width = m.hidden }, p:column { name = "fc1", n_in = m.hidden, n_out = 4096 },
        p:row { name = "fc2", n_in = 4096, n_out = m.hidden } }
    end
    local function ask(m, o)
      o.model, o.system, o.global_batch = m, "h100-sxm", 8
      local c = tperf.train(o)
      return { c.time, c.memory.total, c.memory.activations, c.memory.weights, c.memory.optimizer }
    end
    local OPTIONS <const> = { { recompute = "full" }, {}, { peft = { rank = 8 } }, { precision = "fp8-block" }, {},
      { recompute = "full" }, { peft = { rank = 8 } }, { tp = 2 }, { objective = "dpo" }, {} }
    local one = model_of("used again", { layer = { tperf.block("own", make) } })
    for i, o in ipairs(OPTIONS) do
      local fresh = model_of("fresh " .. i, { layer = { tperf.block("own", make) } })
      local function copy()
        local c = {}
        for k, v in pairs(o) do c[k] = v end
        return c
      end
      assert.same(ask(fresh, copy()), ask(one, copy()))
    end
  end)
end)

describe("a field of a group that is nearly called as one that tperf reads", function()
  local function model(fields, read)
    local group = { count = 8, blocks = { tperf.block("own", function(m, p)
      local width = read and read(p.group) or 64
      return { p:column { name = "up", n_in = m.hidden, n_out = width }, p:row { name = "down", n_in = width,
        n_out = m.hidden } }
    end) } }
    for name, value in pairs(fields) do group[name] = value end
    return model_of("groups", { groups = { group } })
  end

  local ASKED <const> = {
    train = function(m) return tperf.train { model = m, system = "h100-sxm", global_batch = 8 } end,
    search = function(m) return tperf.search { model = m, system = "h100-sxm", gpus = 2, global_batch = 8 } end,
    ["model (its parameters)"] = function(m) return m:parameters() end,
    infer = function(m) return tperf.infer { model = m, system = "h100-sxm", prompt = 10, generate = 2 } end,
  }

  for name, ask in pairs(ASKED) do
    it("is an error in tperf." .. name .. " unless a block reads it", function()
      assert.error_matches(function() ask(model { widht = 2048 }) end,
        "group 'widht 2048': nothing reads its field 'widht' %(did you mean 'width'%?%)")
      assert.error_matches(function() ask(model { keep = 1 }) end, "'keep' %(did you mean 'keeps'%?%)")
      ask(model({ widht = 2048 }, function(group) return group.widht end))
      ask(model({ widht = 2048 }, function(group)
        for field, value in pairs(group) do
          if field == "widht" then return value end
        end
      end))
      ask(model { expansion = 2048 })
    end)
  end
end)
