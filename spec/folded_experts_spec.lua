-- Experts spread over tensor, context and data axes, with their own tensor axis (arXiv 2504.14960).
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

describe("whole experts", function()
  local cut, whole = configuration(2, 4, 2), configuration(1, 8, 2)

  it("take as much memory and as many FLOPs as cut experts", function()
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
    local gathered = op_of(cut, "gather-rows")
    assert.same({ "all_gather", "etp" }, { gathered.forward.comms[1].kind, gathered.forward.comms[1].axis })
    assert.equal("reduce_scatter", gathered.backward.comms[1].kind)
    assert.same({}, op_of(cut, "fc1").forward.comms)
    assert.equal("etp", op_of(cut, "fc2").forward.comms[1].axis)
    assert.is_nil(op_of(whole, "gather-rows"))
    for _, name in ipairs { "fc1", "fc2" } do assert.same({}, op_of(whole, name).forward.comms) end
  end)

  it("equal cut experts if tp is 1", function()
    assert.equal(configuration(nil, 4, 1).time, configuration(1, 4, 1).time)
  end)

  it("are not the default, which is etp = tp, as in Megatron-Core", function()
    assert.equal(cut.time, configuration(nil, 4, 2).time)
    assert.equal(2, configuration(nil, 4, 2).etp)
  end)

  it("need an ep that divides the experts and the axes it folds over, and an etp that divides their width", function()
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
    it("matches the sum by hand: " .. name, function()
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

-- The same with dense first layers and shared experts, with the distributed optimizer and without it, and the bytes
-- that layers keep for the backward pass. s tokens of a sequence, b = 1 sequence per micro-batch, h features; T = s /
-- (tp cp) rows on a GPU between blocks, where the sequence is cut by tp, too (arXiv 2205.05198, section 4.2.2), and
-- Q = s / cp rows of products. Every count below is of 16-bit numbers unless it says bytes.
describe("all bytes of folded layouts", function()
  local H <const>, HEADS <const>, KV <const>, D <const>, SEQ <const> = 2048, 32, 4, 128, 4096
  local E <const>, K <const>, F <const> = 128, 8, 768 -- experts, experts per token, width of one
  local DENSE <const>, SHARED <const> = 6144, 1024 -- widths of the dense layers' MLP and of the shared expert

  local function model(layers, dense)
    return tperf.model(MODEL):with { layers = layers, ffn = DENSE,
      experts = { dense_layers = dense, shared = 1, shared_ffn = SHARED } }
  end

  local function trained(sizes, layers, dense, zero)
    return tperf.train {
      model = model(layers, dense), system = "h100-sxm", strategy = "context", tp = sizes.tp, cp = sizes.cp,
      dp = sizes.dp, ep = sizes.ep, etp = sizes.etp, global_batch = sizes.dp, zero = zero, software = "none",
    }
  end

  -- Attention keeps its norm's input, that of qkv, which is the norm's output, both on T rows; the norms of queries and
  -- keys their inputs; queries, keys and values; and the output projection's input, cut by heads over tp on Q rows: so
  -- 2 (2 h + (HEADS + KV) d + (HEADS + 2 KV) d + HEADS d) T bytes. Fused kernels have 4 bytes a row and head of
  -- log-sum-exp in place of 2205.05198's 5 a s^2 (section 4.1).
  local function attention(t)
    return 2 * (2 * H + (HEADS + KV) * D + (HEADS + 2 * KV) * D + HEADS * D) * t + 4 * HEADS * t
  end

  -- A gated MLP of width w: two inputs of the activation, one of the last product, on Q rows and w / tp features.
  local function mlp(width, t) return 2 * 3 * width * t end

  -- The dense layer's MLP: the norm's input, its output.
  local function dense_layer(t) return attention(t) + 2 * 2 * H * t + mlp(DENSE, t) end

  -- Experts: the norm's input and its output once, for router, dispatch and shared expert; the scores in fp32, 4 E T
  -- bytes. Each GPU sends k T rows and gets as many where tokens are spread evenly, whatever ep is. The etp GPUs of an
  -- expert gather theirs, k T etp rows: the input of the first product stays (Megatron-Core's dispatcher gathers it,
  -- see tperf/describe/arch/layer/moe.lua), 2 h k T etp bytes; activation's inputs and the last product's are f / etp
  -- wide on all of these rows, 2 x 3 f k T bytes. The shared expert is cut by tp as a dense MLP.
  local function expert_layer(t, etp)
    return attention(t) + 2 * 2 * H * t + 4 * E * t + 2 * H * K * t * etp + mlp(F, K * t) + mlp(SHARED, t)
  end

  for _, case in ipairs {
    { "ep folded over tp", { tp = 4, cp = 1, dp = 4, ep = 4, etp = 1 } },
    { "ep folded over cp and dp", { tp = 1, cp = 4, dp = 4, ep = 16, etp = 1 } },
    { "ep folded over tp, cp and dp", { tp = 4, cp = 2, dp = 8, ep = 64, etp = 1 } },
    { "etp as large as tp", { tp = 4, cp = 1, dp = 8, ep = 8, etp = 4 } },
    { "etp smaller than tp", { tp = 4, cp = 1, dp = 4, ep = 8, etp = 2 } },
    { "etp larger than tp", { tp = 1, cp = 4, dp = 2, ep = 4, etp = 2 } },
  } do
    local name, sizes = table.unpack(case)
    local gpus = sizes.tp * sizes.cp * sizes.dp
    local t = SEQ / (sizes.tp * sizes.cp)

    it("of weights, gradients and optimizer match the sum by hand: " .. name, function()
      -- Two layers, one of them dense. Cut by tp: attention (qkv and projection), the dense MLP, the shared expert's,
      -- embedding and head. Whole: norms of the layer and of heads, the router, the last norm. By etp ep: experts.
      local cut = 2 * (H * (HEADS + 2 * KV) * D + HEADS * D * H) + 3 * H * DENSE + 3 * H * SHARED + 2 * 151936 * H
      local whole = 2 * (2 * H + 2 * D) + E * H + H
      local dense, experts = cut / sizes.tp + whole, 3 * H * F * E / (sizes.ep * sizes.etp)
      local replicas, expert_replicas = sizes.cp * sizes.dp, gpus / (sizes.ep * sizes.etp)
      for zero = 0, 1 do
        local memory = trained(sizes, 2, 1, zero).memory
        assert.near(2 * (dense + experts), memory.weights, 1)
        assert.near(4 * (dense + experts), memory.gradients, 1)
        -- Master copy and two moments in 32 bits; the distributed optimizer shards those of dense weights over
        -- dp x cp, of experts over edp.
        local state = zero == 0 and dense + experts or dense / replicas + experts / expert_replicas
        assert.near(12 * state, memory.optimizer, 1)
      end
    end)

    it("of activations match the sum by hand: " .. name, function()
      local base = trained(sizes, 2, 1, 1).memory.activations
      assert.near(expert_layer(t, sizes.etp), trained(sizes, 3, 1, 1).memory.activations - base, 1)
      assert.near(dense_layer(t), trained(sizes, 3, 2, 1).memory.activations - base, 1)
    end)
  end
end)

describe("ranks of folded axes", function()
  it("form groups of neighbours, each rank in exactly one", function()
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

describe("experts on several GPUs of an engine", function()
  -- The experts with a token on the busiest GPU: the mean over batches drawn at random.
  local function drawn(count, top_k, tokens, gpus)
    local random, sum, batches = math.random, 0, 500
    for _ = 1, batches do
      local hit, most = {}, 0
      for _ = 1, tokens do
        local chosen, n = {}, 0
        while n < top_k do
          local expert = random(0, count - 1)
          if not chosen[expert] then chosen[expert], n = true, n + 1 end
        end
        for expert in pairs(chosen) do
          local gpu = expert // (count // gpus)
          hit[gpu] = hit[gpu] or {}
          hit[gpu][expert] = true
        end
      end
      for _, experts in pairs(hit) do
        local n = 0
        for _ in pairs(experts) do n = n + 1 end
        most = math.max(most, n)
      end
      sum = sum + most
    end
    return sum / batches
  end

  it("wait for the one on which most are chosen", function()
    for _, case in ipairs { { 4, 2 }, { 4, 4 }, { 16, 4 }, { 4, 8 }, { 64, 8 } } do
      local tokens, gpus = table.unpack(case)
      local r = tperf.infer { model = MODEL, system = "h100-sxm", tp = gpus, ep = gpus, etp = 1, batch = tokens,
        prompt = 1, generate = 2, ops = true }
      local read
      for _, op in ipairs(r.ops) do
        if op.phase == "decode" and op.name == "fc1" then read = op.bytes end
      end
      local expert, rows = 2 * 2048 * 1536, tokens * 8 / gpus * 2 * (2048 + 1536)
      assert.near(1, (read - rows) / expert / drawn(128, 8, tokens, gpus), 0.05)
    end
  end)
end)
