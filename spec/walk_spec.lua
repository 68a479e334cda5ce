-- A search's walk times candidates from shared steps; tperf.train times a configuration as a whole. Both must agree to
-- the last bit, or results would not be sorted by their times.
local tperf = require "tperf"

local QUESTIONS <const> = {
  ["every schedule and ZeRO stage"] = { model = "llama-3.1-8b", gpus = 64, schedule = "any", zero = { 0, 1, 2, 3 } },
  ["without software"] = { model = "llama-3.1-8b", gpus = 64, software = "none", zero = { 0, 1, 3 } },
  ["experts, folded over other axes"] = { model = "mixtral-8x7b", gpus = 64, strategy = "context", zero = { 1, 3 },
    micro_batch = 1 },
  ["passes that hide experts' exchanges"] = { model = "mixtral-8x7b", gpus = 64, overlap_moe_a2a = true,
    schedule = "any", micro_batch = 1 },
  ["panels"] = { model = "gpt3-175b", gpus = 64, strategy = "summa", micro_batch = 1 },
  ["hybrid shards"] = { model = "llama-3.1-8b", gpus = 64, shard = { 2, 8 }, zero = { 1, 3 } },
  ["buckets, the first beside the optimizer's step"] = { model = "llama-3.1-8b", gpus = 64,
    overlap_param_gather = true, overlap_grad_reduce = true, overlap_param_gather_with_optimizer_step = true },
  ["buckets larger than a layer"] = { model = "llama-3.1-8b", gpus = 64, overlap_param_gather = true,
    overlap_grad_reduce = true, bucket_size = 1e9 },
  ["matrices orthogonalised whole"] = { model = "llama-3.1-8b", gpus = 64, optimizer = "muon" },
  ["stages of other lengths"] = { model = "llama-3.1-8b", gpus = 48, global_batch = 96, first_stage_layers = 3,
    last_stage_layers = 5, pp = 4 },
}

describe("the walk of a search", function()
  for name, question in pairs(QUESTIONS) do
    it("ranks by the times of tperf.train: " .. name, function()
      question.system, question.infeasible, question.prune, question.top = "h100-sxm", true, false, 400
      question.global_batch = question.global_batch or 64
      local found = tperf.search(question)
      assert.truthy(#found > 20, #found .. " found")
      for i = 2, #found do
        local before, here = found[i - 1].global_batch / found[i - 1].time, found[i].global_batch / found[i].time
        assert.truthy(before >= here, ("%d: %.17g before %.17g"):format(i, before, here))
      end
    end)
  end

  it("shares what machines with equal domains and numbers of GPUs have in common, and nothing else", function()
    local function ask(system, gpus)
      return tperf.search { model = "mixtral-8x7b", system = system, gpus = gpus, global_batch = 64,
        micro_batch = { 1, 2 }, strategy = "context", zero = { 1, 3 }, top = 20, threads = 1 }
    end
    local systems, gpus = { "h100-sxm", "h200-sxm", "gb200-nvl72", "b200-sxm" }, { 8, 32, 16 }
    local together, i = ask(systems, gpus), 0
    for _, system in ipairs(systems) do
      for _, n in ipairs(gpus) do
        i = i + 1
        local alone = ask(system, n)
        assert.equal(#alone, #together[i])
        for k, c in ipairs(alone) do assert.equal(c.time, together[i][k].time) end
      end
    end
  end)
end)
