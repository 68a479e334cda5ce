-- Values returned by a script's functions to strategies, blocks, schedules, sweeps, searches, plots and reports: a
-- wrong value is an error at the script's line that names the function, never one from inside the library.
local cases = require "cases"
local tperf = require "tperf"

local an_op = tperf.op.linear { name = "a", tokens = 8, n_in = 8, n_out = 8 }

-- Values that a function may return instead of the expected one. `n` distinguishes nil from no value.
local VALUES = { n = 20, nil, true, false, "x", "", 0, -1, 0.5, 7, 1e300, 0 / 0, 1 / 0, {}, { 1 }, { x = 1 }, { {} },
  { an_op }, print, an_op, coroutine.create(print) }

local NEVER = { ["nil"] = true, string = true, ["function"] = true, thread = true } -- valid nowhere

local HERE = debug.getinfo(1, "S").short_src

-- Tries f with every wrong value, or each step-th: each is accepted, or refused with a proper message. Returns how many
-- were refused.
local function try(what, f, names, step)
  local refused = 0
  for i = step or 1, VALUES.n, step or 1 do
    local value = VALUES[i]
    local ok, message = pcall(function()
      local answer = f(value)
      return answer
    end)
    if not ok then
      refused = refused + 1
      local at = type(message) == "string" and message:find("^" .. HERE:gsub("%p", "%%%0") .. ":%d+: ")
      assert(at, ("%s returns %s: %s"):format(what, tostring(value), tostring(message)))
      if names and NEVER[type(value)] then
        assert(message:find(what, 1, true), ("%s returns %s, which the message does not name: %s"):format(what,
          tostring(value), message))
      end
    end
  end
  return refused
end

local defined = 0

-- Strategy `tensor` with one function replaced.
local function strategy_with(field, value)
  defined = defined + 1
  local given = { name = ("odd-%d"):format(defined), extends = "tensor" }
  if field == "admits" then
    given.axes = {}
    for i, axis in ipairs(tperf.strategy.of "tensor".axes) do
      given.axes[i] = { name = axis.name, meaning = axis.meaning, admits = function() return value end,
        cuts = axis.cuts, folds = axis.folds }
    end
  else
    given[field] = function() return value end
  end
  return tperf.strategy.define(given)
end

local SMALL = { name = "m", layers = 4, hidden = 256, heads = 8, kv_heads = 4, ffn = 512, vocab = 1000, seq = 128,
  activation = "silu", gated = true }
local EXPERTS = { name = "e", layers = 4, hidden = 256, heads = 8, ffn = 512, vocab = 1000, seq = 128,
  experts = { count = 8, top_k = 2, ffn = 128 } }
local MAMBA = { name = "s", layers = 2, hidden = 256, heads = 8, ffn = 512, vocab = 1000, seq = 128,
  layer_pattern = "M*", mamba = { state = 16, heads = 8, head_dim = 64 } }

local LATENT = { name = "l", layers = 2, hidden = 256, heads = 8, ffn = 512, vocab = 1000, seq = 128,
  mla = { kv_rank = 64, nope_dim = 32, rope_dim = 16, v_dim = 32 } }

local QUESTIONS = {
  search = function(s)
    tperf.search { model = SMALL, system = "h100-sxm", gpus = 4, global_batch = 8, strategy = s, top = 1, pp = 1,
      micro_batch = 1 }
  end,
  train = function(s)
    tperf.train { model = SMALL, system = "h100-sxm", global_batch = 8, strategy = s, tp = 2, dp = 2 }
  end,
  layer = function(s)
    for _, model in ipairs { SMALL, EXPERTS, MAMBA, LATENT } do
      tperf.layer { model = model, system = "h100-sxm", strategy = s, tp = 2 }
    end
    tperf.layer { model = "subramanian2024/gpt3_1T", system = "subramanian2024/A100", strategy = s, tp = 2,
      rules = "subramanian2024" }
  end,
}

-- The functions that the library calls besides a layer's ops.
local CUTS_NOT = { admits = true, sequence_shards = true, panels = true, boundary = true, exchange = true }

describe("a strategy's", function()
  for _, field in ipairs { "admits", "sequence_shards", "panels", "boundary", "exchange", "column", "row", "replicated",
    "inner", "outer", "inner_tokens", "outer_tokens", "inner_bias", "outer_bias", "norm", "heads", "router", "scan",
    "embedding", "head", "cross_entropy" } do
    it(field .. " is checked where it returns", function()
      local refused = 0
      for _, name in ipairs(CUTS_NOT[field] and { "search", "train", "layer" } or { "layer" }) do
        refused = refused + try(field, function(value) QUESTIONS[name](strategy_with(field, value)) end, true)
      end
      assert.is_true(refused > 10)
    end)
  end
end)

describe("a block's", function()
  local function lay(build)
    local mine = tperf.architecture { name = "mine", layer = { tperf.block("odd", build) } }
    tperf.layer { model = tperf.model(SMALL):with { architecture = mine }, system = "h100-sxm", tp = 2 }
  end

  it("list is checked where it returns", function()
    assert.is_true(try("odd", function(value) lay(function() return value end) end, true) > 10)
  end)

  for _, cut in ipairs { "column", "row", "replicated", "norm", "router", "embedding", "head", "cross_entropy", "scan",
    "inner", "outer", "inner_tokens", "inner_bias", "outer_bias", "heads" } do
    it("arguments of share:" .. cut .. " are checked", function()
      assert.is_true(try(cut, function(value)
        lay(function(_, share) return { share[cut](share, value) } end)
      end) > 10)
      for _, field in ipairs { "n_in", "n_out", "width", "rows", "vocab", "experts", "top_k", "heads", "name" } do
        try(cut, function(value)
          lay(function(_, share)
            local o = { name = "x", n_in = 8, n_out = 8, width = 8, vocab = 8, heads = 8, head_dim = 8, groups = 1,
              state = 8, chunk = 8 }
            o[field] = value
            return { share[cut](share, o) }
          end)
        end, nil, cases(3, 1))
      end
    end)
  end
end)

describe("a schedule's", function()
  local function schedule_with(field, value)
    defined = defined + 1
    local name = ("odd-%d"):format(defined)
    local given = { order = function(s)
      for m = 1, s.microbatches do
        for d = 1, s.devices do s:forward(d, d, m) end
      end
      for m = 1, s.microbatches do
        for d = 1, s.devices do s:backward(d, d, m) end
      end
    end, stages_per_device = 1 }
    given[field] = function() return value end
    if field == "remedy" then -- is called after a deadlock
      given.order = function(s) for d = 1, s.devices do s:backward(d, d, 1) s:forward(d, d, 1) end end
    end
    tperf.schedule.define(name, given)
    return name
  end

  for _, field in ipairs { "order", "refuse", "remedy", "least_microbatches", "closed_form", "in_flight" } do
    it(field .. " is checked where it returns", function()
      local refused = try(field, function(value)
        local name = schedule_with(field, value)
        local shape = { schedule = name, devices = 4, microbatches = 8 }
        if field == "closed_form" then
          tperf.schedule.closed_form(shape)
          tperf.train { model = SMALL, system = "h100-sxm", global_batch = 8, pp = 2, schedule = name }
        elseif field == "in_flight" then
          shape.device = 1
          tperf.schedule.in_flight(shape)
          tperf.train { model = SMALL, system = "h100-sxm", global_batch = 8, pp = 2, schedule = name }
        else
          shape.rules = "pp-visualization" -- rules that call least_microbatches
          tperf.schedule(shape)
        end
      end, field == "least_microbatches")
      assert.is_true(refused > 5 or field == "order")
    end)
  end

  it("passes are checked", function()
    for _, pass in ipairs { "forward", "backward", "backward_input", "backward_weight", "overlapped", "hold" } do
      try(pass, function(value)
        defined = defined + 1
        local name = ("odd-%d"):format(defined)
        tperf.schedule.define(name, function(s) s[pass](s, value, 1, 1, 1, value) end)
        tperf.schedule { schedule = name, devices = 2, microbatches = 2, stages = 2 }
      end)
    end
  end)
end)

describe("a question's", function()
  it("where is checked where it returns", function()
    try("where", function(value)
      tperf.search { model = SMALL, system = "h100-sxm", gpus = 4, global_batch = 8,
        where = function() return value end }
    end)
  end)

  it("progress may return anything", function()
    assert.equal(0, try("progress", function(value)
      tperf.search { model = SMALL, system = "h100-sxm", gpus = 4, global_batch = 8,
        progress = function() return value end }
    end))
  end)

  it("run, in a sweep, is checked where it returns", function()
    assert.is_true(try("run", function(value)
      local rows = tperf.sweep { run = function() return value end, n = tperf.vary { 1, 2 }, progress = false }
      tperf.report.text(rows, { "n" })
      tperf.report.json(rows, { "n" })
    end, true) > 5)
  end)
end)

describe("a figure's", function()
  local rows = {}
  for i = 1, 3 do
    for j = 1, 3 do rows[#rows + 1] = { x = i, y = j, z = i * j, n = "n" .. i, s = "s" .. j } end
  end
  local function drawn(figure)
    figure:svg()
    figure:text()
  end
  local figures = {
    lines = { x = "x", y = "y", series = "s", y2 = false }, scatter = { x = "x", y = "y", series = "s", label = "n" },
    bars = { x = "n", y = "z", series = "s" }, contour = { x = "x", y = "y", z = "z" },
    heatmap = { x = "x", y = "y", z = "z" },
  }
  for kind, fields in pairs(figures) do
    for field in pairs(fields) do
      it(("%s of plot.%s is checked where it returns"):format(field, kind), function()
        try(field, function(value)
          local o = { rows = rows }
          for name, usual in pairs(fields) do o[name] = usual or nil end
          o[field] = { key = function(row) return row.x == 2 and value or row.x end, title = field }
          drawn(tperf.plot[kind](o))
        end)
        try(field, function(value)
          local o = { rows = rows }
          for name, usual in pairs(fields) do o[name] = usual or nil end
          o[field] = function() return value end
          drawn(tperf.plot[kind](o))
        end)
      end)
    end
  end

  it("guide is checked where it returns", function()
    try("guide", function(value)
      drawn(tperf.plot.lines { rows = rows, x = "x", y = "y", series = "s",
        guides = { { f = function() return value end, label = "g" } } })
    end)
  end)
end)

describe("a table's", function()
  local rows = { { a = 1 }, { a = 2 } }
  it("column and format are checked where they return", function()
    for _, column in ipairs {
      function(value) return { key = function() return value end, title = "t" } end,
      function(value) return { key = "a", format = function() return value end } end,
    } do
      try("t", function(value)
        tperf.report.text(rows, { column(value) })
        tperf.report.markdown(rows, { column(value) })
      end)
      try("t", function(value) tperf.report.csv(rows, { column(value) }) end)
      try("t", function(value) tperf.report.html(rows, { column(value) }) end)
    end
  end)
end)
