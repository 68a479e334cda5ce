-- docs/api.md and meta/tperf.lua are up to date; comments agree with schemas; records have the documented
-- fields.
local neutral = require "tperf.base.entry.neutral"
local program = require "program"
local tperf = require "tperf"
package.path = "./tools/?.lua;" .. package.path
local records = require "apidoc.records"
local reference = require "apidoc.reference"

describe("the reference", function()
  it("describes every field that functions take, and no other", function()
    assert.same({}, reference.problems())
  end)

  it("is what `make docs` writes now", function()
    for path, text in pairs(reference.pages()) do
      assert.truthy(text == program.slurp(path), path .. " is not what its sources say: run `make docs` and commit it")
    end
  end)

  it("lists every function of tperf", function()
    local page, meta = program.slurp "docs/api.md", program.slurp "meta/tperf.lua"
    local count = 0
    for key, value in pairs(tperf) do
      local names = type(value) == "table" and {} or { key }
      for member, f in pairs(type(value) == "table" and value or {}) do
        if type(f) == "function" then names[#names + 1] = key .. "." .. member end
      end
      local called = getmetatable(value) and getmetatable(value).__call
      for _, name in ipairs(names) do
        local is_called = called and page:find("### tperf." .. key .. "\n", 1, true)
        if key ~= "version" then
          count = count + 1
          assert.truthy(page:find("### tperf." .. name .. "\n", 1, true) or is_called, name)
        end
      end
    end
    assert.truthy(count > 60)
    assert(load(meta, "@meta/tperf.lua", "t"))
  end)

  it("has signatures that match the functions", function()
    local count = 0
    for name, given in program.slurp "docs/api.md":gmatch "\n### tperf%.([^\n]+)\n+`[^\n(]+%(([^\n]*)%)`\n" do
      local f = tperf
      for part in name:gmatch "[^.]+" do f = type(f) == "table" and f[part] or nil end
      local info = type(f) == "function" and debug.getinfo(neutral.inner(f), "Su")
      local own = info and info.what ~= "C" and reference.parameters_of(f) or {}
      if info and info.isvararg then own[#own + 1] = "..." end
      if info then
        count = count + 1
        assert.equal(table.concat(own, ", "), given, name)
      end
    end
    assert.truthy(count > 30)
  end)

  it("reports missing and superfluous fields", function()
    local search = tperf.search
    local check = require "tperf.base.check"
    local record = check.record
    check.record = function(what, value, schema)
      if what == "tperf.search" then schema.brand_new, schema.gpus = check.any(), nil end
      return record(what, value, schema)
    end
    local list = table.concat(reference.problems(), "\n")
    check.record = record
    assert.equal(search, tperf.search)
    local message = "tperf.search takes 'brand_new', which lua/tperf/question/search/init.lua does not describe"
    assert.truthy(list:find(message, 1, true))
    assert.truthy(list:find("describes 'gpus', which tperf.search does not take", 1, true))
  end)
end)

-- Fails if a record lacks a field that its ---@class requires, or has one that it does not describe.
local function holds(class_name, value, where)
  local class
  for _, one in ipairs(records.all()) do
    if one.name == class_name then class = one end
  end
  local known = {}
  for _, field in ipairs(class.fields) do
    known[field.name] = field
    if not field.optional and field.name ~= "[integer]" then
      assert.truthy(value[field.name] ~= nil, ("%s lacks '%s'"):format(where, field.name))
    end
    local inner = field.type:match "^(tperf%.[%w_]+)"
    local item = value[field.name]
    if inner and item ~= nil and inner ~= "tperf.model" and inner ~= "tperf.system" then
      local of = field.type:find "%[%]$" and "[1]" or ""
      item = of == "" and item or item[1]
      if item ~= nil then holds(inner, item, where .. "." .. field.name .. of) end
    end
    if math.type(item) and not field.type:find "number" then
      assert.equal("integer", math.type(item), ("%s.%s"):format(where, field.name))
    end
  end
  for name, item in pairs(value) do
    if math.type(name) ~= "integer" and type(item) ~= "function" then
      assert.truthy(known[name], ("%s has a field '%s' that its ---@class does not describe: add ---@field %s, run "
        .. "`make docs`"):format(where, name, name))
    end
  end
end

describe("---@class describes the records of", function()
  local question = { model = "gpt2", system = "h100-sxm", global_batch = 64 }
  local function with(more)
    for name, value in pairs(question) do more[name] = value end
    return more
  end

  it("searches and configurations", function()
    local found = tperf.search(with { gpus = 8, top = 1, strategy = "all", prune = false })
    holds("tperf.found", found, "found")
    holds("tperf.configuration", found[1], "found[1]")
  end)

  it("training, layers and timelines", function()
    local c, t = tperf.train(with { tp = 2, pp = 2, dp = 2, simulate = true })
    holds("tperf.configuration", c, "configuration")
    assert.truthy(c.kinds and c.first and c.last and c.simulated)
    t.memory_change = nil -- the library's own
    holds("tperf.timeline", t, "timeline")
    holds("tperf.layer_op", tperf.layer { model = "gpt2", system = "h100-sxm", tp = 2 }[2], "op")
  end)

  it("groups and parameters", function()
    holds("tperf.layer_group", tperf.model "deepseek-v3":groups()[1], "group")
    holds("tperf.parameters", tperf.model "deepseek-v3":parameters(), "parameters")
  end)
end)

describe("annotations of what blocks get", function()
  local meta = program.slurp "meta/tperf.lua"

  -- The fields of a class, sorted.
  local function fields_of(class)
    local list, from = {}, select(2, meta:find("---@class " .. class .. "\n", 1, true))
    assert.truthy(from, class)
    for name in meta:sub(from):match "^(.-)\n\n":gmatch "%-%-%-@field ([%w_]+)" do list[#list + 1] = name end
    table.sort(list)
    return table.concat(list, ", ")
  end

  -- A message with all fields that a cut has.
  local function message_of(cut)
    local block = tperf.block("b", function(_, p) return { p[cut](p, { nonsense = 1 }) } end)
    local model = tperf.model("llama-3.1-8b"):with {
      architecture = tperf.architecture { name = "a", layer = { block } } }
    local ok, message = pcall(tperf.layer, { model = model, system = "h100-sxm", strategy = "tensor" })
    assert.is_false(ok)
    return message
  end

  it("have the fields that cuts have", function()
    local cuts = { column = "product", row = "product", replicated = "product", head = "product", norm = "norm",
      router = "router", embedding = "embedding", cross_entropy = "cross_entropy", scan = "scan",
      inner_bias = "inner_bias", outer_bias = "outer_bias" }
    local share = ", " .. fields_of "tperf.share" .. ","
    for cut, class in pairs(cuts) do
      assert.equal(message_of(cut):match "it has (.*)$", fields_of("tperf.cut." .. class))
      assert.truthy(share:find(", " .. cut .. ",", 1, true), cut)
    end
    assert.truthy(share:find(", attention,", 1, true))
  end)

  it("have the fields of groups that tperf reads", function()
    for name in fields_of "tperf.group":gmatch "[%w_]+" do
      if name ~= "key" and name ~= "blocks" then
        local block = tperf.block("b", function() return {} end)
        local architecture = tperf.architecture { name = "a", groups = { { count = 1, [name] = -1.5 } },
          layer = { block } }
        local model = { name = "m", layers = 1, hidden = 8, seq = 8, vocab = 8, architecture = architecture }
        assert.error_matches(function() tperf.model(model):parameters() end, "'" .. name .. "'")
      end
    end
  end)
end)
