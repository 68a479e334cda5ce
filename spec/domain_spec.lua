-- Placements in fast domains of any size: docs/model.md section 7.1.
local cases = require "cases"
local tperf = require "tperf"

local function best(model, base, domain, gpus, change)
  local system = tperf.system(base):with { network = { fast = { domain = domain } } }
  local request = { model = model, system = system, gpus = gpus, global_batch = 2 * gpus, top = 1, threads = 1,
    placement = not (change and change.fast) and "best" or nil }
  for name, value in pairs(change or {}) do request[name] = value end
  return tperf.search(request)[1]
end

-- Domains of up to `most` GPUs: small ones, and those around multiples of `part`, or all.
local function domains_of(most, small, part)
  local list = {}
  for domain = 1, most do
    local nearest = (domain + part // 2) // part * part
    if domain <= small or math.abs(domain - nearest) <= cases(1, part) then list[#list + 1] = domain end
  end
  return list
end

local DOMAINS <const> = domains_of(144, 12, 24)

describe("a fast domain", function()
  it("of 72 GPUs holds blocks of 64 if 72 do not divide", function()
    local c = best("deepseek-v3", "gb200-nvl72", 72, 1152, { tp = 8, pp = 1, fast = { tp = 8, dp = 8 } })
    assert.same({ 8, 8 }, { c.fast.tp, c.fast.dp })
    assert.equal(1152 // 64 * 72 - 1152, c.idle) -- 18 domains, 8 GPUs idle in each
    local priced = { tokens = 1e12, price = 2 }
    assert.near(tperf.cost(c, priced).gpu_hours, tperf.cost(c, priced).seconds / 3600 * 18 * 72, 1e-6)
  end)

  it("holds several blocks if they fit", function()
    local c = best("llama-3.1-8b", "gb200-nvl72", 72, 256, { tp = 8, pp = 1, fast = { tp = 8, dp = 4 } })
    assert.equal(4 * 72 - 256, c.idle) -- two blocks of 32 in each of four domains
  end)

  it("leaves no GPU idle if it holds the whole machine", function()
    assert.equal(0, best("llama-3.1-8b", "gb200-nvl72", 72, 64).idle)
    assert.equal(0, best("llama-3.1-8b", "h100-sxm", 8, 64).idle)
  end)

  it("never slows a training step by being larger", function()
    local searched = {
      { "llama-3.1-8b", "gb200-nvl72", 96 }, { "qwen3-30b-a3b", "b200-sxm", 120 },
      { "deepseek-v3", "gb200-nvl72", 1152 },
    }
    for _, case in ipairs(searched) do
      local model, base, gpus = table.unpack(case)
      local least, change = math.huge, { micro_batch = 1, schedule = "1f1b", recompute = "full" }
      for _, domain in ipairs(DOMAINS) do
        local time = best(model, base, domain, gpus, change).time
        assert.is_true(time <= least * (1 + 1e-12),
          ("%s on %d GPUs, domains of %d: %.17g s after %.17g s"):format(model, gpus, domain, time, least))
        least = time
      end
    end
  end)

  -- Every placement in domains of d GPUs is possible in domains of d + 1, so the best latency never gets worse.
  local function never_later(what, domains, latency)
    local least = math.huge
    for _, domain in ipairs(domains) do
      local seconds = latency(domain)
      assert.is_true(seconds <= least * (1 + 1e-12),
        ("%s, domains of %d: %.17g s after %.17g s"):format(what, domain, seconds, least))
      least = seconds
    end
  end

  local function machine(base, domain)
    return tperf.system(base):with {
      network = { fast = { domain = domain } }, accelerator = { hbm = { capacity = 2e12 } },
    }
  end

  local function with(question, sizes)
    for name, value in pairs(sizes) do question[name] = value end
    return question
  end

  it("never slows an answer by being larger", function()
    for _, case in ipairs {
      { "llama-3.1-70b", "h100-sxm", { tp = 8, pp = 4 } }, { "llama-3.1-8b", "b200-sxm", { tp1 = 4, tp2 = 8 } },
      { "mixtral-8x7b", "h100-sxm", { tp = 2, ep = 4, pp = 2 } },
      { "qwen3-30b-a3b", "b200-sxm", { tp = 2, cp = 9, ep = 16, etp = 1 } },
      { "deepseek-v3", "gb200-nvl72", { tp = 8, cp = 4, ep = 32, etp = 1, pp = 3 } },
      { "kimi-k2", "gb200-nvl72", { tp = 2, ep = 48, etp = 1, pp = 4 } },
    } do
      local model, base, sizes = table.unpack(case)
      never_later(model, DOMAINS, function(domain)
        return tperf.infer(with({ model = model, system = machine(base, domain), prompt = 7200, generate = 64,
          batch = 4, placement = "best" }, sizes)).latency
      end)
    end
  end)

  it("never slows a served request by being larger", function()
    for _, case in ipairs {
      { "llama-3.1-8b", "h100-sxm", { tp = 8, pp = 2 }, 16 },
      { "qwen3-30b-a3b", "b200-sxm", { tp = 2, cp = 9, attention_dp = 4, etp = 1, ep = 8 }, 24 },
    } do
      local model, base, sizes, most = table.unpack(case)
      never_later(model, domains_of(most, 4, 8), function(domain)
        return tperf.serve(with({ model = model, system = machine(base, domain), load = { concurrency = 8 },
          count = 16, prompt = 900, output = 40,
          engine = { max_num_seqs = 64, max_num_batched_tokens = 2048 }, placement = "best" },
          sizes)).e2e.mean
      end)
    end
  end)

  it("is filled under the published rules", function()
    local request = {
      model = "subramanian2024/gpt3_1T", system = tperf.system "subramanian2024/B200", gpus = 1024, global_batch = 4096,
      rules = "subramanian2024", top = 20,
    }
    local domain = request.system.network.fast.domain
    local found = tperf.search(request)
    assert.is_true(#found > 0)
    for _, c in ipairs(found) do
      assert.equal(domain, c.fast.tp * c.fast.dp * c.fast.pp)
      assert.equal(0, c.idle)
    end
  end)
end)
