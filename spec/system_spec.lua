local program = require "program"
local tperf = require "tperf"
local core = require "tperf.core"
local catalogue = require "tperf.base.catalogue"

local function refusal(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

local good = [[
name: mine
accelerator:
  tensor: { fp16: 100 TFLOP/s }
  vector: { fp32: 10 TFLOP/s, bf16: 20 TFLOP/s }
  hbm: { bandwidth: 1 TB/s, capacity: 80 GB }
network:
  fast: { bandwidth: 300 GB/s, efficiency: 0.7, latency: 2.5 us, domain: 8 }
  slow: { bandwidth: 200 Gb/s, efficiency: 0.7, latency: 5 us }
]]

-- tperf.system on a file of this text; the file is removed whatever happens.
local function from_text(text)
  local base = program.temporary()
  local path = base .. ".yaml"
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  local ok, result = pcall(function()
    local system = tperf.system(path)
    return system
  end)
  os.remove(path)
  os.remove(base)
  return ok, ok and result or result:gsub(path:gsub("%p", "%%%0"), "FILE")
end

describe("tperf.system", function()
  it("reads the published systems in SI units", function()
    local a100 = tperf.system "subramanian2024/A100"
    assert.equal("subramanian2024/A100", tostring(a100))
    assert.same({ fp16 = 312e12 }, a100.accelerator.tensor)
    assert.same({ fp32 = 19.5e12, fp16 = 78e12 }, a100.accelerator.vector)
    assert.same({ bandwidth = 1555e9, capacity = 80e9, efficiency = 1, scattered = 0.7 }, a100.accelerator.hbm)
    assert.equal(0.8, a100.accelerator.compute_efficiency)
    assert.equal(20e-6, a100.accelerator.launch)
    local fast, slow = a100.network.fast, a100.network.slow
    assert.same({ 300e9, 0.7, 2.5e-6, 4 }, { fast.bandwidth, fast.efficiency, fast.latency, fast.domain })
    assert.same({ 25e9, 0.7, 5e-6, 1 }, { slow.bandwidth, slow.efficiency, slow.latency, slow.nics_per_gpu })
  end)

  it("fills in defaults, and lets fp16 and bf16 stand for each other", function()
    local ok, system = from_text(good)
    assert.is_true(ok, system)
    assert.same({ 0.8, 20e-6, 1, 1 }, { system.accelerator.compute_efficiency, system.accelerator.launch,
      system.accelerator.hbm.efficiency, system.network.slow.nics_per_gpu })
    assert.equal(100e12, system.accelerator.tensor.bf16)
    assert.equal(20e12, system.accelerator.vector.fp16)
    assert.is_nil(system.accelerator.tensor.fp8)
    assert.equal(25e9, system.network.slow.bandwidth)
    local faster = system:with { accelerator = { tensor = { fp16 = "200 TFLOP/s" } } }
    assert.equal(200e12, faster.accelerator.tensor.bf16)
    assert.equal(100e12, system.accelerator.tensor.bf16)
  end)

  it("makes changed copies and takes its own objects and tables", function()
    local a100 = tperf.system "subramanian2024/A100"
    local wide = a100:with { name = "wide", network = { fast = { domain = 64 }, slow = { bandwidth = "400 Gb/s" } } }
    assert.same({ "wide", 64, 300e9, 50e9 },
      { wide.name, wide.network.fast.domain, wide.network.fast.bandwidth, wide.network.slow.bandwidth })
    assert.equal(4, a100.network.fast.domain)
    assert.same(wide, tperf.system(wide))
    local plain = {}
    for key, value in pairs(wide) do plain[key] = value end
    assert.same(wide, tperf.system(plain))
  end)

  local bad = {
    { "80 GB }", "80 GB/s }", "FILE:5:39: 'accelerator.hbm.capacity': \"80 GB/s\" is in bytes/s; expected a quantity" },
    { "80 GB }", "80 XB }", "FILE:5:39: 'accelerator.hbm.capacity': \"80 XB\" has no unit" },
    { "80 GB }", "-1 }", "FILE:5:39: 'accelerator.hbm.capacity' must be a quantity from 1000000 to" },
    { "80 GB }", "0 }", "FILE:5:39: 'accelerator.hbm.capacity' must be" },
    { "80 GB }", ".nan }", "must be a quantity from 1000000 to 1e+24 in bytes, such as \"80 GB\", got nan" },
    { "80 GB }", "80 }", "must be a quantity from 1000000 to 1e+24 in bytes, such as \"80 GB\", got 80" },
    { "fp16: 100 TFLOP/s", "fp16: 989", "from 1000000000 to 1e+24 in FLOP/s, such as \"990 TFLOP/s\", got 989" },
    { "300 GB/s", "900", "from 1000000 to 1e+24 in bytes/s, such as \"900 GB/s\", got 900" },
    { "latency: 5 us", "latency: 5", "must be a quantity from 0 to 1 in s, such as \"2.5 us\", got 5" },
    { "80 GB }", ".inf }", "got inf" }, { "80 GB }", "1e30 }", "got 1e+30" }, { "80 GB }", "[80] }", "got a table" },
    { "80 GB }", "true }", "got true" }, { "80 GB }", "null }", "FILE:5:39: 'accelerator.hbm.capacity' is missing" },
    { ", capacity: 80 GB", "", "FILE:5:3: 'accelerator.hbm.capacity' is missing" },
    { "capacity", "capcity", "FILE:5:29: unknown field 'accelerator.hbm.capcity' (did you mean 'capacity'?)" },
    { "capacity: 80 GB", "bandwidth: 1", "FILE:5:29: duplicate key 'bandwidth' (first on line 5)" },
    { "domain: 8", "domain: 2.5", "'network.fast.domain' must be an integer from 1 to 2147483648, got 2.5" },
    { "domain: 8", "domain: 0", "got 0" }, { "domain: 8", "domain: 99999999999", "got 99999999999" },
    { "domain: 8", "domain: \"8\"", "got \"8\"" },
    { "efficiency: 0.7", "efficiency: 1.1", "FILE:7:44: 'network.fast.efficiency' must be a number from" },
    { "efficiency: 0.7", "efficiency: 0", "got 0" }, { "efficiency: 0.7", "efficiency: 70%", "got \"70%\"" },
    { "fp16: 100 TFLOP/s", "fp8: 1 TFLOP/s", "FILE:3:11: 'accelerator.tensor' needs a peak for fp16 or bf16" },
    { "name: mine", "name: 3", "FILE:1:7: 'name' must be a string, got 3" },
    { "latency: 5 us", "latency: -5 us", "FILE:8:58: 'network.slow.latency' must be a quantity from 0 to 1 in s" },
  }
  for _, case in ipairs(bad) do
    it("refuses a file with " .. case[2] .. ", saying where", function()
      local from, to = good:find(case[1], 1, true)
      local ok, message = from_text(good:sub(1, from - 1) .. case[2] .. good:sub(to + 1))
      assert.is_false(ok)
      assert.truthy(message:find("^spec/system_spec.lua:%d+: tperf.system: FILE:%d+:%d+: "), message)
      assert.truthy(message:find(case[3], 1, true), message)
    end)
  end

  it("refuses files that hold something else", function()
    local ok, message = from_text "- 1\n"
    assert.is_false(ok)
    assert.truthy(message:find("FILE:1:3: unknown field '[1]'", 1, true), message)
    ok, message = from_text "text"
    assert.is_false(ok)
    assert.truthy(message:find("FILE:1:1: ", 1, true), message)
  end)

  it("refuses invalid names, paths and arguments", function()
    assert.truthy(refusal(tperf.system, "h100"):find("unknown system \"h100\" (did you mean 'h100-", 1, true))
    assert.truthy(refusal(tperf.system, "nothing-like-it"):find("unknown system", 1, true))
    assert.truthy(refusal(tperf.system, "no/such.yaml"):find("cannot open", 1, true))
    assert.truthy(refusal(tperf.system, "../systems/h100-sxm"):find("unknown system", 1, true))
    assert.truthy(refusal(tperf.system, ""):find("unknown system", 1, true))
    assert.truthy(refusal(tperf.system, "/"):find("tperf.system", 1, true))
    assert.truthy(refusal(tperf.system, "h100-sxm\0"):find("tperf.system", 1, true))
    assert.truthy(refusal(tperf.system, 3):find("needs a name, a path or a table, got 3", 1, true))
    assert.truthy(refusal(tperf.system):find("needs a name", 1, true))
    assert.truthy(refusal(tperf.system, {}):find("is missing", 1, true))
  end)

  it("refuses changes that make a system invalid", function()
    local system = tperf.system "subramanian2024/A100"
    assert.truthy(refusal(system.with, system, { network = { fst = {} } }):find("did you mean 'fast'?", 1, true))
    assert.truthy(refusal(system.with, system, { network = 3 }):find("'network' must be a table, got 3", 1, true))
    assert.truthy(refusal(system.with, system, 3):find("needs a table of changes", 1, true))
    assert.truthy(refusal(system.with, {}):find("call it with a colon", 1, true))
    local cyclic = {}
    cyclic.network = cyclic
    assert.truthy(refusal(system.with, system, cyclic):find("unknown field 'network.network'", 1, true))
    local deep = { accelerator = { hbm = {} } }
    deep.accelerator.hbm.hbm = deep
    assert.truthy(refusal(system.with, system, deep):find("unknown field", 1, true))
  end)
end)

describe("the core's system", function()
  it("takes every shipped system", function()
    local names = catalogue.list "systems"
    assert.is_true(#names > 10)
    for _, name in ipairs(names) do core.check_system(tperf.system(name)) end
  end)

  it("refuses objects changed behind the library's back", function()
    local function copy(value)
      if type(value) ~= "table" then return value end
      local made = {}
      for name, one in pairs(value) do made[name] = copy(one) end
      return made
    end
    local function broken(change)
      local system = copy(tperf.system "subramanian2024/A100")
      change(system)
      return refusal(core.check_system, system)
    end
    assert.truthy(broken(function(s) s.accelerator.hbm.bandwidth = 0 / 0 end):find "hbm.bandwidth is")
    assert.truthy(broken(function(s) s.accelerator.tensor.fp16 = -1 end):find "accelerator.tensor.fp16 is %-1")
    assert.truthy(broken(function(s) s.network.fast.domain = 0 end):find "network.fast.domain is 0")
    assert.truthy(broken(function(s) s.network.fast.domain = 2.5 end):find "must be an integer")
    assert.truthy(broken(function(s) s.network.slow.nics_per_gpu = 1 / 0 end):find "nics_per_gpu is inf")
    assert.truthy(broken(function(s) s.network = nil end):find "no table 'network'")
    assert.truthy(broken(function(s) s.accelerator.launch = {} end):find "must be a number")
  end)
end)

describe("shipped data", function()
  -- Calls visit(path, value, has_source) for every number and quantity below a node.
  local function visit_numbers(node, path, has_source, visit)
    has_source = has_source or type(node.source) == "string"
    for key, value in pairs(node) do
      local where = path .. "." .. key
      if type(value) == "table" then
        visit_numbers(value, where, has_source, visit)
      elseif type(value) == "number" or type(value) == "string" and value:find "^[+-]?%.?%d" then
        visit(where, value, has_source)
      end
    end
  end

  for _, kind in ipairs { "systems", "models" } do
    it("names a source for every number of " .. kind, function()
      local names, numbers = catalogue.list(kind), 0
      assert.is_true(#names > 8)
      for _, name in ipairs(names) do
        local content = assert(catalogue.read(assert(catalogue.find(kind, name))))
        assert.equal(name, content.name)
        visit_numbers(content, name, false, function(where, _, has_source)
          numbers = numbers + 1
          assert.is_true(has_source, where .. " has no source")
        end)
      end
      assert.is_true(numbers > 6 * #names - 7)
    end)
  end

  it("fails this check for a number without a source", function()
    local bare = {}
    visit_numbers({ a = { source = "x", b = "3 GB" }, c = 4 }, "", false, function(where, _, has_source)
      if not has_source then bare[#bare + 1] = where end
    end)
    assert.same({ ".c" }, bare)
  end)

  it("is listed by name, published sets with their folder", function()
    local found = {}
    for _, name in ipairs(catalogue.list "systems") do found[name] = true end
    for _, name in ipairs { "a100-sxm-40gb", "a100-sxm-80gb", "h100-sxm", "h100-pcie", "h200-sxm", "b200-sxm",
      "gb200-nvl72", "mi300x", "subramanian2024/B200-next" } do
      assert.is_true(found[name], name)
    end
    assert.same({}, catalogue.list "no-such-kind")
  end)

  it("is found along TPERF_PATH first, from any folder", function()
    local folder = program.temporary()
    assert(os.execute("mkdir -p " .. folder .. "/systems"))
    local file = assert(io.open(folder .. "/systems/h100-sxm.yaml", "w"))
    file:write(good)
    file:close()
    file = assert(io.open(folder .. "/script.lua", "w"))
    file:write [[local tperf = require "tperf"
      print(tperf.system "h100-sxm", tperf.system "h200-sxm", tperf.system "./systems/h100-sxm.yaml")]]
    file:close()
    local pipe = assert(io.popen(("cd %s && TPERF_PATH=/nowhere:%s %s run script.lua 2> notes"):format(folder, folder,
      core.resource.executable)))
    local output = pipe:read "a"
    pipe:close()
    os.execute("rm -r " .. folder)
    assert.equal("mine\th200-sxm\tmine\n", output)
  end)
end)

describe("curves of another system", function()
  local FIVE = {
    name = "mine", curves_of = "h100-sxm",
    accelerator = { tensor = { bf16 = "500 TFLOP/s" }, hbm = { bandwidth = "2 TB/s", capacity = "48 GB" } },
    network = { fast = { bandwidth = "300 GB/s", domain = 4 }, slow = { bandwidth = "200 Gb/s" } },
  }

  it("stand in for what a system leaves out, and for nothing else", function()
    local mine, base = tperf.system(FIVE), tperf.system "h100-sxm"
    local own, others = mine.accelerator.compute_efficiency, base.accelerator.compute_efficiency
    for _, name in ipairs { "efficiency", "depth", "tile_loss" } do
      assert.equal(others.gemm.fp8[name], own.gemm.fp8[name])
    end
    assert.equal(base.accelerator.launch, mine.accelerator.launch)
    assert.equal(base.accelerator.hbm.stream.efficiency, mine.accelerator.hbm.stream.efficiency)
    assert.equal(base.network.fast.efficiency.all_reduce.large, mine.network.fast.efficiency.all_reduce.large)
    assert.is_nil(own.gemm.fp8.error) -- of the fit, which was there
    assert.same({ 500e12, 2e12, 48e9, nil }, { mine.accelerator.tensor.bf16, mine.accelerator.hbm.bandwidth,
      mine.accelerator.hbm.capacity, mine.accelerator.cache })
    assert.same({ "borrowed", "h100-sxm" }, { mine:calibration() })
    assert.equal(132, mine.accelerator.units)
    assert.is_true(tperf.train({ model = "llama-3.1-8b", system = FIVE, gpus = 8, global_batch = 8 }).time > 0)
    assert.equal("h100-sxm's: ", mine.accelerator.hbm.stream.source:sub(1, 12))
  end)

  it("leave what a system says of its own, number by number", function()
    local changed = { name = "mine", curves_of = "h100-sxm", network = FIVE.network, accelerator = {
      tensor = FIVE.accelerator.tensor, hbm = { bandwidth = "2 TB/s", capacity = "48 GB", efficiency = 0.5 },
      launch = "1 us", compute_efficiency = { gemm = { bf16 = { efficiency = 0.7, quantisation = 0, sustained = 1,
        sustained_after = 1e-4, tile_loss = 0 } } } } }
    local mine, base = tperf.system(changed).accelerator, tperf.system("h100-sxm").accelerator
    assert.same({ 0.7, 0.5, 1e-6 }, { mine.compute_efficiency.gemm.bf16.efficiency, mine.hbm.efficiency, mine.launch })
    assert.same({ base.compute_efficiency.gemm.bf16.depth, 0 },
      { mine.compute_efficiency.gemm.bf16.depth, mine.compute_efficiency.gemm.bf16.quantisation })
    assert.is_nil(mine.compute_efficiency.gemm.bf16.error) -- of another curve
    assert.equal(base.compute_efficiency.gemm.fp8.efficiency, mine.compute_efficiency.gemm.fp8.efficiency)
    assert.equal(base.compute_efficiency.attention.bf16.keys, mine.compute_efficiency.attention.bf16.keys)
    changed.accelerator.compute_efficiency = 0.6
    assert.equal(0.6, tperf.system(changed).accelerator.compute_efficiency)
    assert.equal("datasheet", (tperf.system(changed):calibration()))
  end)

  it("stand in for links alone where a network names a system, or for none", function()
    local function links(fast)
      local s = { name = "mine", curves_of = "l40s", accelerator = FIVE.accelerator, network = {
        fast = { bandwidth = "32 GB/s", domain = 8, curves_of = fast }, slow = { bandwidth = "200 Gb/s" } } }
      return tperf.system(s).network.fast.efficiency
    end
    local large = function(name) return tperf.system(name).network.fast.efficiency.all_reduce.large end
    assert.equal(large "l40s", links(nil).all_reduce.large)
    assert.equal(large "rtx-a6000", links("rtx-a6000").all_reduce.large)
    assert.equal(0.7, links "none")
    local alone = { name = "mine", accelerator = FIVE.accelerator, network = { fast = FIVE.network.fast,
      slow = { bandwidth = "200 Gb/s", curves_of = "h100-sxm" } } }
    assert.equal(0.95, tperf.system(alone).network.slow.efficiency.efficiency)
    assert.equal(0.7, tperf.system(alone).network.fast.efficiency)
  end)

  it("must be of a system that there is, and not of itself", function()
    local function with(of)
      local s = {}
      for key, value in pairs(FIVE) do s[key] = value end
      s.curves_of = of
      return refusal(tperf.system, s)
    end
    assert.truthy(with "h100-sxn":find("(did you mean 'h100-sxm'?)", 1, true))
    assert.truthy(with(7):find("'curves_of' must be a string", 1, true))
    local path = program.temporary() .. ".yaml"
    program.write(path, good .. "curves_of: " .. path .. "\n")
    assert.truthy(refusal(tperf.system, path):find("has its curves from itself", 1, true))
    os.remove(path)
  end)
end)
