-- No collective is faster than the links: every kind, system, size and group shape against the bytes that must cross a
-- GPU's ports and a domain's NICs, at full bandwidth and without latency.
local cases = require "cases"
local core = require "tperf.core"
local catalogue = require "tperf.base.catalogue"
local tperf = require "tperf"

local RULES <const> = tperf.rules()
local EVERY <const> = cases(4, 2) -- powers of two in bytes

-- Fractions of a vector that must enter or leave some GPU, and some domain, among n GPUs, n / g in each of g domains.
-- An all-reduce moves them twice, to the GPU that adds and back, unless a switch adds.
local MUST_CROSS = {
  all_reduce = function(n, g) return 2 * (n - 1) / n, 2 * (g - 1) / g end,
  all_gather = function(n, g) return (n - 1) / n, (g - 1) / g end,
  reduce_scatter = function(n, g) return (n - 1) / n, (g - 1) / g end,
  broadcast = function() return 1, 1 end, -- every other GPU gets all of it
  reduce = function() return 1, 1 end, -- every other GPU's summands leave it
  scatter = function(n, g) return (n - 1) / n, (g - 1) / g end, -- through the root's port
  gather = function(n, g) return (n - 1) / n, (g - 1) / g end,
  all_to_all = function(n, g) return (n - 1) / n, n / g * (g - 1) / g end, -- every GPU of the domain has a vector
  send = function() return 1, 1 end,
}

local function bound(system, kind, bytes, n, q)
  local fast, slow, g = system.network.fast, system.network.slow, n / q
  local of_gpu, of_domain = MUST_CROSS[kind](n, g)
  if kind == "all_reduce" and fast.reduces then of_gpu = 1 end
  local links = fast.mesh and (q - 1) / (fast.domain - 1) or 1
  local port, nics = fast.bandwidth * links, slow.bandwidth * slow.nics_per_gpu
  if g == 1 then return of_gpu * bytes / port end
  local between = of_domain * bytes / (q * nics)
  if q == 1 then return between end
  -- No byte enters a domain twice, so the rest comes from other GPUs of the domain.
  return math.max(between, of_gpu * bytes / (port + nics), (of_gpu - of_domain / q) * bytes / port)
end

local function groups_of(domain)
  local list = {}
  for _, q in ipairs { 1, 2, 3, 4, 5, 8, 16, 36, 72 } do
    for _, g in ipairs { 1, 2, 3, 4, 16, 512 } do
      if q <= domain and q * g > 1 then list[#list + 1] = { q * g, q } end
    end
  end
  return list
end

-- The collectives that beat their bound, the worst first; `serves`: with the kernels of serving engines.
local function faster_than_the_wire(system, serves)
  local machine, list, tried = core.machine(system), {}, 0
  for kind in pairs(MUST_CROSS) do
    for _, group in ipairs(groups_of(system.network.fast.domain)) do
      local n, q = group[1], group[2]
      for power = 0, kind == "send" and n > 2 and -1 or 44, EVERY do
        local bytes = 2.0 ^ power
        local ratio = machine:collective(RULES, kind, bytes, n, q, serves) / bound(system, kind, bytes, n, q)
        tried = tried + 1
        if ratio < 1 - 1e-9 then
          list[#list + 1] = { ratio, ("%s, %s of %g bytes among %d GPUs, %d to a domain: %.3f of the bound"):format(
            system.name, kind, bytes, n, q, ratio) }
        end
      end
    end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  for i, entry in ipairs(list) do list[i] = entry[2] end
  assert.is_true(EVERY * tried > (system.network.fast.domain > 1 and 4000 or 1800))
  return table.concat(list, "\n", 1, math.min(#list, 5))
end

-- The system with the best curves that are allowed, and no latency.
local function best_curves(system)
  local link = { latency = 0, hop = 0, small = 1, extra = 0, large = 1, switch = 1e24, growth = 4 }
  return system:with {
    name = system.name .. " at its best",
    network = {
      fast = {
        efficiency = {
          send = 1, all_gather = link, reduce_scatter = link, all_to_all = link,
          all_reduce = link, direct = { latency = 0, hop = 0, one_shot = 1, extra = 0, two_shot = 1 },
        },
        latency = 0,
      },
      slow = { efficiency = { efficiency = 1, latency = 0, doubling = 0, hop = 0, ramp = 0 }, latency = 0 },
    },
  }
end

describe("No collective beats its bound", function()
  for _, name in ipairs(catalogue.list "systems") do
    it("on " .. name, function()
      local system = tperf.system(name)
      assert.equal("", faster_than_the_wire(system, false))
      assert.equal("", faster_than_the_wire(system, true))
    end)
  end

  it("with the best curves that are allowed", function()
    for _, name in ipairs { "a100-sxm-80gb", "h100-sxm", "gb200-nvl72", "mi300x" } do
      local best = best_curves(tperf.system(name))
      assert.equal("", faster_than_the_wire(best, false))
      assert.equal("", faster_than_the_wire(best, true))
    end
  end)

  -- An all-to-all's vector holds each GPU's messages to all others: fewer of them stay in a domain.
  it("among several domains is faster than in each of them", function()
    local rules = tperf.rules "default"
    for _, name in ipairs(catalogue.list "systems") do
      local system = tperf.system(name)
      local machine, domain = core.machine(system), system.network.fast.domain
      for _, kind in ipairs { "all_reduce", "all_gather", "reduce_scatter", "all_to_all" } do
        for exponent = 0, 34, 2 do
          for _, gpus in ipairs { 2, 4, 8, 36, 72 } do
            for _, domains in ipairs(gpus <= domain and { 2, 3, 20 } or {}) do
              local bytes = kind == "all_to_all" and 2 ^ exponent * domains or 2 ^ exponent
              local one = machine:collective(rules, kind, 2 ^ exponent, gpus, gpus)
              local several = machine:collective(rules, kind, bytes, gpus * domains, gpus)
              assert.truthy(several >= one * (1 - 1e-9),
                ("%s: %s of 2^%d B, %d x %d GPUs"):format(name, kind, exponent, domains, gpus))
            end
          end
        end
      end
    end
  end)

  it("because no curve may exceed the whole bandwidth", function()
    local function refusal(change)
      local ok, message = pcall(function() return tperf.system "h100-sxm":with { network = change } end)
      assert.is_false(ok)
      return message
    end
    for _, field in ipairs { "small", "large", "in_network" } do
      local message = refusal { fast = { efficiency = { all_gather = { [field] = 1.01 } } } }
      assert.truthy(message:find("all_gather." .. field, 1, true) and message:find("1.01", 1, true), message)
    end
    for _, field in ipairs { "one_shot", "two_shot" } do
      assert.truthy(refusal { fast = { efficiency = { direct = { [field] = 1.01 } } } }:find(field, 1, true))
    end
    assert.truthy(refusal { slow = { efficiency = { efficiency = 1.01 } } }:find "slow.efficiency")
  end)
end)
