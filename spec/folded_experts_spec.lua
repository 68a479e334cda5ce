-- Experts spread over tensor, context and data axes, with a tensor axis of their own (arXiv 2504.14960).
local tperf = require "tperf"

local MODEL = "qwen3-30b-a3b"

local function configuration(etp, ep, tp)
  return tperf.train {
    model = MODEL, system = "h100-sxm", gpus = 32, tp = tp, etp = etp, ep = ep, global_batch = 64, zero = 1,
    software = "none",
  }
end

local function op_of(c, name)
  for _, op in ipairs(c.kinds[1].ops) do
    if op.name == name then return op end
  end
end

local function work(c, name) return op_of(c, name).forward.tensor_flops end

describe("experts that are whole", function()
  local cut, whole = configuration(2, 4, 2), configuration(1, 8, 2)

  it("take the memory and the FLOPs of experts that are cut", function()
    assert.near(cut.memory.weights, whole.memory.weights, 1e-9 * cut.memory.weights)
    assert.near(cut.memory.gradients, whole.memory.gradients, 1e-9 * cut.memory.gradients)
    assert.near(work(cut, "fc1"), work(whole, "fc1"), 1e-9 * work(cut, "fc1"))
    -- A sum of k products has k - 1 additions, once for every cut.
    assert.near(work(cut, "fc2") * (2 - 1 / 768) / (2 - 1 / 384), work(whole, "fc2"), 1e-9 * work(cut, "fc2"))
  end)

  it("exchange tokens over all of ep, and neither gather nor sum over etp", function()
    local a, b = op_of(cut, "dispatch").forward.comms[1], op_of(whole, "dispatch").forward.comms[1]
    assert.same({ "all_to_all", "ep", 4 }, { a.kind, a.axis, a.gpus })
    assert.same({ "all_to_all", "ep", 8 }, { b.kind, b.axis, b.gpus })
    assert.equal("etp", op_of(cut, "fc1").forward.comms[1].axis)
    for _, name in ipairs { "fc1", "fc2" } do assert.same({}, op_of(whole, name).forward.comms) end
  end)

  it("are those that are cut where nothing cuts", function()
    assert.equal(configuration(nil, 4, 1).time, configuration(1, 4, 1).time)
  end)

  it("are cut as tp cuts by default, as in Megatron-Core", function()
    assert.equal(cut.time, configuration(nil, 4, 2).time)
    assert.equal(2, configuration(nil, 4, 2).etp)
  end)

  it("must be divided by the GPUs that share them, and these divide those that they fold over", function()
    local function fails(given, message)
      given.system, given.gpus, given.global_batch = "h100-sxm", 32, 64
      local ok, text = pcall(tperf.train, given)
      assert.is_false(ok)
      assert.truthy(text:find(message, 1, true), text)
    end
    local few = tperf.model(MODEL):with { experts = { count = 4, top_k = 2 } }
    fails({ model = few, tp = 2, ep = 8, etp = 1 }, "ep = 8 does not divide the 4 experts")
    fails({ model = MODEL, tp = 2, pp = 2, ep = 16 },
      "ep = 16 (x 2 of the axes before it) does not divide tp x dp = 16; "
      .. "try 8")
    fails({ model = MODEL, tp = 2, etp = 5 }, "etp = 5 does not divide an expert's width of 768")
    fails({ model = "llama-3.1-8b", tp = 2, ep = 2 }, "has no experts to spread")
  end)
end)

-- Bytes by hand, from the shapes of qwen3-30b-a3b: 48 layers, hidden 2048, 32 heads and 4 key-value heads of 128, 128
-- experts of width 768 with three matrices, vocabulary 151,936, embedding and head apart. arXiv 2504.14960 folds
-- (tp, cp, dp) into (etp, ep, edp): parameters of attention are sharded by tp, replicated over cp x dp; those of
-- experts by etp x ep, replicated over edp = tp cp dp / (etp ep).
describe("memory of folded layouts", function()
  local HIDDEN <const>, LAYERS <const>, VOCAB <const> = 2048, 48, 151936
  local EXPERTS <const> = LAYERS * 128 * 3 * 768 * HIDDEN
  local ATTENTION <const> = LAYERS * (HIDDEN * (32 + 2 * 4) * 128 + 32 * 128 * HIDDEN)
  local ENDS <const> = 2 * VOCAB * HIDDEN
  local WHOLE <const> = LAYERS * (2 * HIDDEN + 2 * 128 + 128 * HIDDEN) + HIDDEN -- norms and routers: on every GPU of tp

  for _, sizes in ipairs {
    { tp = 4, cp = 2, dp = 8, ep = 64, etp = 1 }, { tp = 2, cp = 4, dp = 4, ep = 8, etp = 1 },
    { tp = 2, cp = 1, dp = 16, ep = 16, etp = 2 }, { tp = 1, cp = 8, dp = 4, ep = 32, etp = 1 },
    { tp = 4, cp = 1, dp = 4, ep = 2, etp = 4 }, { tp = 1, cp = 4, dp = 2, ep = 4, etp = 2 },
  } do
    local name = ("tp %d, cp %d, dp %d, ep %d, etp %d"):format(sizes.tp, sizes.cp, sizes.dp, sizes.ep, sizes.etp)
    it("is right by hand: " .. name, function()
      local gpus = sizes.tp * sizes.cp * sizes.dp
      local c = tperf.train {
        model = MODEL, system = "h100-sxm", strategy = "context", tp = sizes.tp, cp = sizes.cp, dp = sizes.dp,
        ep = sizes.ep, etp = sizes.etp, global_batch = gpus, zero = 1, software = "none",
      }
      local dense = (ATTENTION + ENDS) / sizes.tp + WHOLE
      local experts = EXPERTS / (sizes.ep * sizes.etp)
      local replicas, expert_replicas = sizes.cp * sizes.dp, gpus / (sizes.ep * sizes.etp)
      assert.near(2 * (dense + experts), c.memory.weights, 1)
      assert.near(4 * (dense + experts), c.memory.gradients, 1)
      -- Master copies and two moments in 32 bits, sharded over the replicas of each (ZeRO 1).
      assert.near(12 * (dense / replicas + experts / expert_replicas), c.memory.optimizer, 1)
    end)
  end
end)

describe("ranks of folded axes", function()
  it("fall into groups of neighbours, each rank into one", function()
    local ranks = require "tperf.timeline.ranks"
    local grid = ranks.of { strategy = "context", tp = 2, cp = 2, dp = 4, pp = 2, etp = 2, ep = 4 }
    for axis, size in pairs { etp = 2, ep = 4 } do
      local seen = {}
      for rank = 0, 31 do
        local group = grid:group(rank, axis)
        assert.equal(size, #group)
        local text, has = table.concat(group, " "), false
        for _, member in ipairs(group) do
          has = has or member == rank
          assert.is_true(seen[member] == nil or seen[member] == text)
          seen[member] = text
        end
        assert.is_true(has)
      end
    end
    -- Megatron's order: 16 GPUs of a stage as (edp, ep, etp) = (2, 4, 2).
    assert.same({ 0, 1 }, grid:group(0, "etp"))
    assert.same({ 0, 2, 4, 6 }, grid:group(0, "ep"))
    assert.same({ 25, 27, 29, 31 }, grid:group(27, "ep"))
  end)
end)
