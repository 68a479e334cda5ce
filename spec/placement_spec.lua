-- Which GPUs are neighbours: the placement that an order of ranks implies (docs/model.md, section 7.3).
local cases = require "cases"
local picker = require "picker"
local program = require "program"
local tperf = require "tperf"

local MOST_RANKS <const> = 1536 -- of the grids that are numbered rank by rank
local HOST <const> = 16

-- Calls visit(rank, coordinates) for each rank of a grid; sizes: of the axes, neighbours first.
local function each_rank(sizes, visit)
  local ranks = 1
  for _, size in ipairs(sizes) do ranks = ranks * size end
  for rank = 0, ranks - 1 do
    local rest, at = rank, {}
    for i, size in ipairs(sizes) do at[i], rest = rest % size, rest // size end
    visit(rank, at)
  end
end

-- Counts the members of each group per domain of so many ranks; key(at) names the group. The fewest of any.
local function fewest(sizes, together, key)
  local count = {}
  each_rank(sizes, function(rank, at)
    local group = key(at)
    count[group] = count[group] or {}
    local domain = rank // together
    count[group][domain] = (count[group][domain] or 0) + 1
  end)
  local least = math.huge
  for _, domains in pairs(count) do
    for _, members in pairs(domains) do least = math.min(least, members) end
  end
  return least
end

local function largest_divisor(n, most)
  for part = math.min(n, most), 1, -1 do
    if n % part == 0 then return part end
  end
end

-- The ranks that share a domain: all of a host's GPUs if the ranks fill hosts, else whole groups.
local function ranks_of(sizes, domain)
  local ranks, together = 1, 1
  for _, size in ipairs(sizes) do ranks = ranks * size end
  if ranks <= domain then return ranks end
  if domain <= HOST and ranks % domain == 0 then return domain end
  for _, size in ipairs(sizes) do
    local part = largest_divisor(size, domain // together)
    together = together * part
    if part < size then break end
  end
  return together
end

local function without(at, axes)
  local list = {}
  for i, one in ipairs(at) do list[#list + 1] = not axes[i] and one or "" end
  return table.concat(list, " ")
end

-- A strategy of four axes that multiply GPUs, and one that folds over three of them and the replicas.
local function yes() return true end
local tensor = tperf.strategy.of "tensor"
tperf.strategy.define { name = "placed", extends = "tensor", axes = {
  { name = "pa", cuts = { "batch" }, admits = yes }, { name = "pb", cuts = { "batch" }, admits = yes },
  table.unpack(tensor.axes),
} }
local GRID <const> = require "tperf.describe.strategy".of "placed".grid
-- Positions in a placement: dp 1, pp 2, pa 3, pb 4, tp 5, etp 6, ep 7.
local AXES <const> = { 1, 2, 3, 4, 5 }
local ETP <const>, EP <const> = 6, 7

local function shuffled(pick, list)
  local left, order = { table.unpack(list) }, {}
  while left[1] do
    local one = pick(left)
    order[#order + 1] = one
    for i, other in ipairs(left) do
      if other == one then table.remove(left, i) end
    end
  end
  return order
end

-- A random grid: order of ranks, sizes by position, the same in the order, domain.
local function grid(pick)
  local order, sizes = shuffled(pick, AXES), {}
  local ranks = 1
  for _, axis in ipairs(AXES) do
    sizes[axis] = pick { 1, 1, 2, 2, 3, 4, 5, 6, 8, 12 }
    if ranks * sizes[axis] > MOST_RANKS then sizes[axis] = 1 end
    ranks = ranks * sizes[axis]
  end
  local ordered = {}
  for i, axis in ipairs(order) do ordered[i] = sizes[axis] end
  return order, sizes, ordered, pick { 1, 2, 3, 4, 4, 8, 8, 8, 16, 36, 72 }
end

local function rank(order, sizes, domain, etp, ep)
  return GRID:rank(order, { sizes[3], sizes[4], sizes[5], etp or 1, ep or 1, 0 }, sizes[1], sizes[2], domain)
end

-- Colossal-AI's groups (legacy/context/process_group_initializer of 0.5.0): rows of the grid, among which activations
-- travel, are j q + k for k of q; columns k + j q for j of q; then stages, then replicas.
describe("SUMMA's grid", function()
  it("lies as Colossal-AI places it", function()
    local asked = { model = "gpt3-175b", system = "h100-sxm", strategy = "summa", global_batch = 64, micro_batch = 1 }
    local function fast(tp1, tp2, pp, dp)
      asked.tp1, asked.tp2, asked.pp, asked.dp, asked.gpus = tp1, tp2, pp, dp, tp1 * tp2 * pp * dp
      local c = tperf.train(asked)
      assert.equal("tp1-tp2-pp-dp", c.rank_order)
      return { c.fast.tp1, c.fast.tp2, c.fast.pp, c.fast.dp }
    end
    assert.same({ 4, 2, 1, 1 }, fast(4, 4, 8, 4)) -- two rows in a host of eight
    assert.same({ 2, 2, 2, 1 }, fast(2, 2, 4, 4)) -- stages before replicas
    assert.same({ 8, 1, 1, 1 }, fast(8, 2, 1, 4))
    asked.rank_order = "tp2-tp1-dp-pp" -- what a question says counts
    assert.equal("tp2-tp1-dp-pp", tperf.train(asked).rank_order)
  end)
end)

describe("the placement that an order of ranks implies", function()
  it("is what counting the ranks of every group in every domain gives", function()
    local pick = picker(20261128)
    for _ = 1, cases(250, 5000) do
      local order, sizes, ordered, domain = grid(pick)
      local fast, together = rank(order, sizes, domain), ranks_of(ordered, domain)
      local what = ("%s of %s, domains of %d"):format(table.concat(ordered, " x "), table.concat(order, " "), domain)
      for i, axis in ipairs(order) do
        local count = fewest(ordered, together, function(at) return without(at, { [i] = true }) end)
        assert.equal(largest_divisor(sizes[axis], count), fast[axis], what)
      end
    end
  end)

  it("never puts more GPUs of several axes together than there are", function()
    local pick = picker(47)
    for _ = 1, cases(150, 3000) do
      local order, sizes, ordered, domain = grid(pick)
      local fast, together, axes, product = rank(order, sizes, domain), ranks_of(ordered, domain), {}, 1
      for i, axis in ipairs(order) do
        if pick { true, false } then axes[i], product = true, product * fast[axis] end
      end
      assert.is_true(product <= fewest(ordered, together, function(at) return without(at, axes) end))
    end
  end)

  -- Megatron-Core's RankGenerator: the experts' grid has etp, ep and the rest in place of tp and dp; pa and pb, which
  -- experts do not fold over, are 1.
  it("numbers experts in a grid of their own", function()
    local pick, exact = picker(48), 0
    for _ = 1, cases(150, 3000) do
      local tp, dp, pp = pick { 1, 2, 3, 4, 6, 8 }, pick { 1, 2, 3, 4, 6, 8, 16 }, pick { 1, 2, 3, 4 }
      local inside = pick { true, false } -- stages between tp and dp
      local etp = largest_divisor(tp * dp, pick { 1, tp })
      local ep = largest_divisor(tp * dp // etp, pick { 1, 2, 4, 8, 16 })
      if inside and pp > 1 then etp, ep = 1, tp end -- Megatron-Core asserts that experts have as many replicas
      local rest, domain = tp * dp // etp // ep, pick { 1, 2, 4, 8, 8, 8, 16, 72 }
      local sizes = { dp, pp, 1, 1, tp }
      local order = inside and { 5, 3, 4, EP, 2, 1 } or { 5, 3, 4, EP, 1, 2 }
      local fast = rank(order, sizes, domain, etp, ep)
      local dense = inside and { tp, pp, dp } or { tp, dp, pp }
      local experts = inside and { etp, ep, pp, rest } or { etp, ep, rest, pp }
      local together, what = ranks_of(dense, domain), ("tp %d dp %d pp %d etp %d ep %d, domains of %d"):format(tp, dp,
        pp, etp, ep, domain)
      local function most(axes) return fewest(experts, together, function(at) return without(at, axes) end) end
      assert.is_true(fast[ETP] <= most { true }, what)
      assert.is_true(fast[EP] <= most { false, true }, what)
      assert.is_true(fast[ETP] * fast[EP] <= most { true, true }, what)
      local copies = fast[5] * fast[1] // (fast[ETP] * fast[EP])
      assert.is_true(copies <= most(inside and { false, false, false, true } or { false, false, true }), what)
      if fast[EP] == largest_divisor(ep, most { false, true }) then exact = exact + 1 end
    end
    assert.is_true(exact >= cases(130, 2600), exact .. " exact")
  end)

  it("keeps an expert's copies together if replicas come before ep", function()
    -- 32 GPUs, 8 to a host; 4 copies of an expert beside each other, then 8 GPUs of ep: 4 x 2 on a host
    local sizes = { 32, 1, 1, 1, 1 }
    assert.equal(2, rank({ 5, 3, 4, 1, EP, 2 }, sizes, 8, 1, 8)[EP])
    assert.equal(8, rank({ 5, 3, 4, EP, 1, 2 }, sizes, 8, 1, 8)[EP])
  end)

  it("refuses experts' groups that do not have the stages of the others, as Megatron-Core does", function()
    local inside = { 5, 3, 4, EP, 2, 1 }
    assert.truthy(rank(inside, { 4, 2, 1, 1, 4 }, 8, 1, 4))
    assert.is_nil(rank(inside, { 4, 2, 1, 1, 4 }, 8, 1, 8))
    assert.truthy(rank({ 5, 3, 4, 2, 1 }, { 4, 2, 1, 1, 4 }, 8, 1, 8)) -- engines share experts over any of their GPUs
    local ok, message = pcall(tperf.train, { model = "mixtral-8x7b", system = "h100-sxm", tp = 4, pp = 2, dp = 8,
      ep = 8, etp = 1, global_batch = 64, rank_order = "tp-cp-ep-pp-dp" })
    assert.is_false(ok)
    assert.matches("tp%-ep%-pp%-dp gives the experts' GPUs the same stages as all others: etp x ep must be as many",
      message)
  end)
end)

local function train(change)
  local o = { model = "llama-3.1-8b", system = "h100-sxm", global_batch = 256, software = "none" }
  for name, value in pairs(change) do o[name] = value end
  return tperf.train(o)
end

local function parts(c)
  local list = {}
  for _, name in ipairs { "tp", "cp", "ulysses", "dp", "pp" } do list[#list + 1] = c.fast[name] end
  return list
end

describe("the stack's order of ranks", function()
  it("is the default: tp, cp, dp, pp from neighbours on", function()
    local c = train { tp = 4, dp = 8, pp = 2 }
    assert.same({ "stack", "tp-ep-dp-pp" }, { c.placement, c.rank_order })
    assert.same({ 4, 2, 1 }, parts(c))
    assert.same({ 2, 2, 1, 2, 1 }, parts(train { strategy = "context", tp = 2, cp = 2, dp = 4, pp = 2 }))
    -- ulysses lies inside cp, whatever order its axes are listed in
    assert.same({ 2, 1, 4, 1, 1 }, parts(train { strategy = "context", tp = 2, cp = 4, ulysses = 4, dp = 2 }))
  end)

  it("may have the stages inside the replicas, as under Megatron's --use-tp-pp-dp-mapping", function()
    assert.same({ 4, 1, 2 }, parts(train { tp = 4, dp = 8, pp = 2, rank_order = "tp-cp-ep-pp-dp" }))
    assert.same({ 2, 1, 4 }, parts(train { tp = 2, dp = 8, pp = 4, rank_order = "tp-cp-ep-pp-dp" }))
  end)

  it("lets groups straddle hosts that they do not divide", function()
    -- ranks 6 to 11 are a group of six: two of them on the first host, four on the second
    local change = { model = tperf.model { name = "six", layers = 12, hidden = 1536, heads = 12, seq = 1536,
      vocab = 32000 }, tp = 6, dp = 4 }
    assert.same({ 2, 1, 1 }, parts(train(change)))
    assert.same({ "best", 6 }, { train { model = change.model, tp = 6, dp = 4, placement = "best" }.placement,
      train { model = change.model, tp = 6, dp = 4, fast = { tp = 6, dp = 1, pp = 1 } }.fast.tp })
  end)

  it("splits no group over the hosts' network that stacks keep together", function()
    -- Sixteen GPUs a host would hold 2 replicas' neighbours instead, which is faster on a slow bus.
    local o = { system = "l40s", tp = 8, dp = 8, global_batch = 64 }
    local stack = train(o)
    o.placement = "best"
    local best = train(o)
    assert.equal(8, stack.fast.tp)
    assert.is_true(best.fast.tp < 8)
    assert.is_true(stack.time > 4 * best.time, stack.time / best.time)
    o.placement, o.fast = nil, { tp = 8, dp = 1, pp = 1 }
    assert.equal(stack.time, train(o).time)
  end)

  it("is every placement's best under the published rules, unless it is asked for", function()
    local o = { model = "subramanian2024/gpt3_1T", system = "subramanian2024/A100", rules = "subramanian2024", tp = 4,
      dp = 64, pp = 2, global_batch = 1024, recompute = "none" }
    assert.equal("best", tperf.train(o).placement)
    o.placement = "stack"
    assert.same({ "stack", 4 }, { tperf.train(o).placement, tperf.train(o).fast.tp })
  end)

  it("is a script's strategy's own, as it lists its axes or as it says", function()
    local c = train { strategy = "placed", pa = 2, pb = 2, tp = 2, dp = 4, global_batch = 256 }
    assert.equal("pa-pb-tp-ep-dp-pp", c.rank_order)
    assert.same({ 2, 2, 2, 1 }, { c.fast.pa, c.fast.pb, c.fast.tp, c.fast.dp })
    tperf.strategy.define { name = "placed_far", extends = "placed", rank_order = "tp-dp-pp-pb-pa" }
    c = train { strategy = "placed_far", pa = 2, pb = 2, tp = 2, dp = 4, global_batch = 256 }
    assert.equal("tp-dp-pp-pb-pa", c.rank_order)
    assert.same({ 1, 1, 2, 4 }, { c.fast.pa, c.fast.pb, c.fast.tp, c.fast.dp })
    local ok, message = pcall(tperf.strategy.define, { name = "placed_wrong", extends = "placed",
      rank_order = "pa-tp" })
    assert.is_false(ok)
    assert.matches("'rank_order' must have each of the axes pa, pb, tp once", message)
  end)

  it("is refused where it is none, or where the placement is fixed otherwise", function()
    for pattern, change in pairs {
      ["'rank_order' = \"tp%-dpp%-pp\" names no axis \"dpp\""] = { rank_order = "tp-dpp-pp" },
      ["has 'tp' twice"] = { rank_order = "tp-tp-dp-pp" }, ["lacks 'pp'"] = { rank_order = "tp-dp" },
      ["give 'placement' or fast, not both"] = { placement = "stack", fast = { tp = 1 } },
      ["give 'rank_order' or fast, not both"] = { rank_order = "tp-dp-pp", fast = { tp = 1 } },
      ["give 'rank_order' or placement = \"best\", not both"] = { rank_order = "tp-dp-pp", placement = "best" },
    } do
      local ok, message = pcall(train, change)
      assert.is_false(ok)
      assert.matches(pattern, message)
    end
  end)

  it("prices a search's candidates as tperf.train prices them", function()
    for _, order in ipairs { false, "tp-cp-ep-pp-dp" } do
      local question = { model = "mixtral-8x7b", system = "h100-sxm", gpus = 64, global_batch = 256, top = 20,
        rank_order = order or nil, software = "none", seq = 4096 }
      local found = tperf.search(question)
      assert.equal(20, #found)
      for _, c in ipairs(found) do
        local alone = tperf.train { model = question.model, system = question.system, seq = 4096, software = "none",
          tp = c.tp, pp = c.pp, dp = c.dp, ep = c.ep, etp = c.etp, global_batch = 256, micro_batch = c.micro_batch,
          schedule = c.schedule, virtual_stages = c.virtual_stages > 1 and c.virtual_stages or nil,
          recompute = c.recompute, rank_order = order or nil }
        assert.same(alone.fast, c.fast)
        assert.equal(alone.rank_order, c.rank_order)
        assert.near(alone.time, c.time, 1e-12 * alone.time)
        local again = tperf.train { model = question.model, system = question.system, seq = 4096, software = "none",
          configuration = c }
        assert.equal(c.rank_order, again.rank_order)
        assert.near(c.time, again.time, 1e-12 * c.time)
      end
    end
  end)

  it("places servers, too", function()
    local o = { model = "llama-3.1-70b", system = "h100-sxm", tp = 4, pp = 4, prompt = 512, generate = 8 }
    local r = tperf.infer(o)
    assert.same({ "stack", "tp-pp-dp", 4, 2 }, { r.placement, r.rank_order, r.fast.tp, r.fast.pp })
    o.placement = "best"
    assert.is_true(tperf.infer(o).latency <= r.latency)
    local served = tperf.serve { model = "llama-3.1-70b", system = "h100-sxm", tp = 8, load = { concurrency = 2 },
      count = 4, prompt = 100, output = 4 }
    assert.same({ "stack", "tp-pp-dp" }, { served.placement, served.rank_order })
  end)

  it("is read from Megatron's launch, and written to it", function()
    local launch = tperf.import.launch { files = { { name = "run.sh", text = "torchrun --nproc_per_node 8 --nnodes 8 "
      .. "pretrain_gpt.py --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --use-tp-pp-dp-mapping "
      .. "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 "
      .. "--micro-batch-size 1 --global-batch-size 64 --vocab-size 32000" } } }
    local asked = tperf.import.arguments(launch)
    assert.equal("tp-cp-ep-pp-dp", asked.rank_order)
    asked.system = "h100-sxm"
    local c = tperf.train(asked)
    assert.same({ 2, 1, 4 }, parts(c))
    local text = tperf.report.launch(c, "megatron", { model = asked.model, seq = 4096 })
    assert.truthy(text:find("--use-tp-pp-dp-mapping", 1, true), text)
    assert.same({}, launch.refused)
    c = train { tp = 2, dp = 8, pp = 4, rank_order = "tp-cp-ep-pp-dp" }
    local ok, message = pcall(tperf.report.launch, c, "torchtitan", { model = "llama-3.1-8b" })
    assert.is_false(ok)
    assert.matches("rank_order", message)
  end)

  it("is read from DeepSpeed's JSON, with experts or without", function()
    local function read(ep)
      local launch = tperf.import.launch { gpus = 16, given = { ep = ep }, files = { { name = "ds.json", text =
        '{ "train_micro_batch_size_per_gpu": 1, "zero_optimization": { "stage": 1 }, "bf16": { "enabled": true }, '
        .. '"use_data_before_expert_parallelism": true }' } } }
      assert.same({}, launch.refused)
      return launch.axes.rank_order
    end
    assert.same({ "tp-cp-dp-ep-pp" }, { read(4), read(1) })
  end)
end)

describe("tperf.validate", function()
  -- Rows of a table as a script would write them, and the same questions put to tperf.train by hand.
  it("predicts for random layouts what tperf.train says", function()
    local pick, rows, asked = picker(1500), {}, {}
    local head = "source,workload,gpu,gpus,gpus_per_node,model,layers,hidden,ffn,heads,kv_heads,seq,vocab,mlp,dtype,tp,"
      .. "pp,vp,cp,ep,micro_batch,global_batch,recompute,zero_fsdp,schedule,iter_s"
    local model = tperf.model { name = "m", layers = 24, hidden = 3072, ffn = 12288, heads = 24, seq = 3072,
      vocab = 32000, gated = false, norm = "layernorm", positions = "learned", tied_embeddings = true, biases = true }
    for _ = 1, cases(150, 1500) do
      local tp, pp, dp = pick { 1, 2, 3, 4, 6, 8 }, pick { 1, 2, 3, 4, 6 }, pick { 1, 2, 3, 4, 5, 6, 8, 12, 16, 24 }
      local cp = pick { 1, 1, 2, 4 }
      local micro, times, zero = pick { 1, 2 }, pick { 1, 2, 4 } * pp, pick { 0, 1 }
      local gpus, batch = tp * cp * pp * dp, dp * micro * times
      rows[#rows + 1] = ("own,pretrain,H100,%d,8,own,24,3072,12288,24,24,3072,32000,gelu,bf16,%d,%d,1,%d,1,%d,%d,none,"
        .. "%s,1f1b,1"):format(gpus, tp, pp, cp, micro, batch, zero == 1 and "ZeRO-1" or "none")
      asked[#asked + 1] = { model = model, system = "h100-sxm", tp = tp, pp = pp, dp = dp, micro_batch = micro,
        global_batch = batch, zero = zero, software = "typical", cp = cp > 1 and cp or nil,
        cp_kind = cp > 1 and "ring" or nil, sequence_parallel = false }
    end
    local path = program.folder()
    program.write(path .. "/table.csv", head .. "\n" .. table.concat(rows, "\n") .. "\n")
    local result = tperf.validate { file = path .. "/table.csv", system = "h100-sxm", software = "typical" }
    program.remove(path)
    assert.equal(#rows, result.predicted)
    for i, case in ipairs(result.cases) do
      local c = tperf.train(asked[i])
      assert.near(c.time, case.predicted, 1e-9 * c.time, rows[i])
    end
  end)

  it("is named where it admits none of the splits that there are", function()
    local found = tperf.search { model = "deepseek-v2-lite", system = "h100-sxm", gpus = 16, global_batch = 64, tp = 1,
      pp = 2, ep = 4, dp = 8, micro_batch = 1, rank_order = "tp-pp-ep-dp" }
    assert.equal(0, #found)
    assert.truthy(found.reason:find("can be placed in the order of ranks tp-pp-ep-dp", 1, true), found.reason)
  end)
end)
