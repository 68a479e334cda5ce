-- The records that cross between Lua and the core, each one list of fields (include/tperf/record.h): a field of a list
-- is read, checked, given its initial value and given back, and a fact of software also reaches profiles, answers and
-- documentation.
local core = require "tperf.core"
local program = require "program"
local profile = require "tperf.describe.profile"
local rules = require("tperf.describe.rules.sets").of
local software = require "tperf.describe.software"
local tperf = require "tperf"
local train_prepare = require "tperf.question.train.prepare"

-- A table that has every field that must be given, as low as it may be.
local function least(fields)
  local t = {}
  for _, f in ipairs(fields) do
    if f.initial == nil then
      t[f.name] = f.kind == "flag" and false or f.kind == "integer" and math.tointeger(math.max(f.low, -1))
        or f.kind == "number" and math.max(f.low, -1.0)
    end
  end
  return t
end

-- Another value within a field's bounds.
local function another(f, value)
  if f.kind == "flag" then return not value end
  local step = f.kind == "integer" and 1 or math.min(f.high - f.low, 1) / 2
  return value + step <= f.high and value + step or value - step
end

local function copy(t)
  local same = {}
  for name, value in pairs(t) do same[name] = value end
  return same
end

describe("the records of the core", function()
  it("are those that questions are read into", function()
    assert.same({ "software", "training", "rules", "pipeline", "engine", "step_table", "choice", "step_line", "search",
      "inference", "cache", "transformer", "deployment" }, core.record())
    assert.error_matches(function() core.record "other" end, "no record is called 'other'")
  end)

  for _, name in ipairs(core.record()) do
    local fields, complete = core.record(name), name ~= "rules" and name or nil

    it(name .. ": every field changes what C has, and no other", function()
      local given = least(fields)
      local before = core.reread(name, given)
      for _, f in ipairs(fields) do
        local changed = copy(given)
        changed[f.name] = another(f, before[f.name])
        local after = core.reread(name, changed)
        assert.equal(changed[f.name], after[f.name], f.name)
        after[f.name] = before[f.name]
        assert.same(before, after)
      end
    end)

    it(name .. ": every field has its initial value, or must be given", function()
      local given = least(fields)
      local read = core.reread(name, given)
      for _, f in ipairs(fields) do
        if f.initial == nil then
          local less = copy(given)
          less[f.name] = nil
          assert.error_matches(function() core.reread(name, less) end, "'" .. f.name .. "' is missing")
        else
          assert.equal(f.initial, read[f.name], f.name)
        end
      end
    end)

    it(name .. ": every field is of its type and within its bounds", function()
      for _, f in ipairs(fields) do
        local function refuses(value)
          local given = least(fields)
          given[f.name] = value
          local ok, message = pcall(core.reread, name, given)
          assert.truthy(not ok and message:find("'" .. f.name .. "'", 1, true), f.name .. " = " .. tostring(value))
        end
        refuses "x"
        refuses {}
        if f.kind == "flag" then
          refuses(1)
        else
          refuses(true)
          refuses(0 / 0)
          if f.low > -1e9 then refuses(f.kind == "integer" and f.low // 1 - 1 | 0 or f.low - 0.001) end
          if f.high < 1e6 then refuses(f.kind == "integer" and f.high // 1 + 1 | 0 or f.high + 0.001) end
        end
      end
    end)

    it(name .. ": every field is documented", function()
      for _, f in ipairs(fields) do assert.truthy(f.doc and #f.doc > 0, f.name) end
    end)

    it((complete or "a record") .. ": nothing else is read", function()
      if not complete then return end
      local given = least(fields)
      given.other = 1
      assert.error_matches(function() core.reread(name, given) end, "unknown field 'other'")
    end)
  end
end)

local MODEL = { name = "m", layers = 4, hidden = 1024, heads = 8, ffn = 4096, seq = 1024, vocab = 1000 }

-- The candidate of a question, on the platform of these facts.
local function candidate_of(t, facts)
  local q = t.problem.questions[1]
  local job = core.job(core.platform(q.system, q.rules, facts), q.training, t.problem.pipelines)
  return job:candidate(t.workload, { global_batch = q.global_batch, dp = t.found.sizes[1], pipeline = 1,
    micro_batch = t.found.micro_batch, panels = t.found.panels, zero = t.found.zero, fast = t.found.fast })
end

local function prepared(name)
  local model = copy(MODEL)
  model.name = name
  return (train_prepare { model = model, system = "h100-sxm", global_batch = 64, tp = 2, pp = 2, dp = 8 })
end

describe("a fact of software", function()
  local facts = core.record "software"

  it("is a field of profiles unless it follows from others, with its default and bounds", function()
    local plain = { name = "plain" }
    for _, f in ipairs(facts) do
      if f.from ~= "derived" and f.usual == nil then plain[f.name] = f.low end
    end
    local usual = software(plain)
    for _, f in ipairs(facts) do
      if f.from == "derived" then
        assert.is_nil(usual[f.name], f.name)
      else
        assert.equal(f.usual == nil and f.low or f.usual, usual[f.name], f.name)
        local changed = copy(plain)
        changed[f.name] = another(f, usual[f.name])
        assert.equal(changed[f.name], profile.terms(software(changed))[f.name], f.name)
        if f.kind == "number" then
          changed[f.name] = f.high + 1
          assert.error_matches(function() software(changed) end, f.name)
        end
      end
    end
  end)

  it("is what no fit changes unless it is fitted", function()
    local values, kept = {}, {}
    for _, f in ipairs(facts) do values[f.name] = f.name end
    profile.keep_facts(kept, values)
    for _, f in ipairs(facts) do assert.equal(f.from ~= "fitted" and f.name or nil, kept[f.name], f.name) end
  end)

  it("is told apart by what is remembered of a workload", function()
    local known = prepared "known"
    local base = profile.terms(software "typical", known.problem.questions[1].training)
    candidate_of(known, base):time()
    for i, f in ipairs(facts) do
      local changed = copy(base)
      changed[f.name] = another(f, core.reread("software", base)[f.name])
      local fresh = candidate_of(prepared("fresh" .. i), changed):time()
      assert.same(fresh, candidate_of(known, changed):time(), f.name)
      assert.same(candidate_of(known, base):time(), candidate_of(known, base):time())
    end
  end)

  it("stands in the reference", function()
    local text = program.slurp "docs/api.md"
    for _, f in ipairs(facts) do
      if f.from ~= "derived" then
        assert.truthy(text:find("| `" .. f.name .. "` | ", 1, true), f.name)
        assert.truthy(text:find(f.doc:gsub("|", "\\|"), 1, true), f.name)
      end
    end
  end)

  it("is read once: the clock and the attention of a platform are those of one reading", function()
    local machine, set = tperf.system "h100-sxm", rules()
    local terms = profile.terms(software "typical")
    terms.flash = 1
    local t = prepared "once"
    local again = core.job(core.platform(machine, set, terms), t.problem.training, t.problem.pipelines)
    assert.truthy(again)
    local c = candidate_of(t, terms)
    local seconds = c:predictor():seconds(terms)
    terms.gradient_bytes = t.problem.training.gradient_bytes
    local predictor = candidate_of(t, terms):predictor()
    for _ = 1, 3 do assert.equal(predictor:seconds(terms), predictor:seconds(terms)) end
    assert.equal(candidate_of(t, terms):time().time, predictor:seconds(terms))
    assert.equal(seconds, predictor:seconds(terms))
  end)
end)

describe("a candidate", function()
  it("tells the same after the tables that it was made from have changed", function()
    local t = prepared "frozen"
    local q = t.problem.questions[1]
    local terms, training = profile.terms(software "typical", q.training), copy(q.training)
    local job = core.job(core.platform(q.system, q.rules, terms), training, t.problem.pipelines)
    local run = { global_batch = q.global_batch, dp = 8, pipeline = 1, micro_batch = 1, panels = 1, zero = 1,
      fast = t.found.fast }
    local c = job:candidate(t.workload, run)
    local before = c:time()
    terms.compute, training.gradient_bytes, run.zero = 3, 1, 3
    assert.same(before, c:time())
  end)

  it("has no software once it is bare, and is the same otherwise", function()
    local t = prepared "bare"
    local bare = t.candidate:bare()
    assert.equal(t.candidate:time().time_without_waste, math.min(bare:time().time, t.candidate:time().time))
    assert.same(bare:time(), bare:bare():time())
    assert.same(t.candidate:stages(), bare:stages())
  end)
end)
