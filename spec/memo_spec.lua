-- Caching of blocks: the same ops as without it, for every share, without building them again for each.
local architecture = require "tperf.describe.arch.plan"
local axes = require "tperf.describe.strategy.axes"
local catalogue = require "tperf.base.catalogue"
local cases = require "cases"
local check = require "tperf.base.check"
local core = require "tperf.core"
local forms = require "tperf.describe.layout.forms"
local memo = require "tperf.describe.layout.memo"
local precision = require "tperf.describe.precision"
local recall = require "tperf.describe.arch.recall"
local sections = require "tperf.describe.layout.sections"
local program = require "program"
local strategy = require "tperf.describe.strategy"
local sets = require "tperf.describe.rules.sets"
local tperf = require "tperf"
local tuning = require "tperf.describe.tuning"

local model_of, system_of = catalogue.shared(require "tperf.describe.model"),
  catalogue.shared(require "tperf.describe.system")
local rules, s = sets.of "default", strategy.of "context"

local function each_share(visit)
  for _, recompute in ipairs { "none", "full" } do
    for _, parallel in ipairs { true, false } do
      for _, kind in ipairs { "all_gather", "ring", "all_to_all" } do
        for _, sizes in ipairs { { 1, 1, 1, 1, 1, 0 }, { 4, 1, 1, 4, 1, 0 }, { 4, 1, 1, 1, 8, 0 }, { 4, 2, 1, 1, 8, 0 },
          { 4, 2, 1, 4, 2, 0 }, { 2, 2, 2, 1, 4, 0 }, { 2, 2, 2, 1, 4, 2 } } do
          for _, micro_batch in ipairs { 1, 3 } do
            visit(function(model)
              return strategy.share(s, model, micro_batch, sizes, rules,
                { recompute = recompute, sequence_parallel = parallel, cp_kind = kind, attention = "flash" })
            end)
          end
        end
      end
    end
  end
end

local function counts(ok, ops)
  if not ok then return tostring(ops):gsub("^.-: ", "") end
  local list = { name = ops.name }
  for i, one in ipairs(ops) do list[i] = one:counts() end
  return list
end

local function blocks_of(model)
  local plan, list = architecture.of(model, rules), {}
  for _, group in ipairs(plan.groups) do
    for _, block in ipairs(group.blocks) do list[#list + 1] = { block = block, group = group } end
  end
  for _, block in ipairs(plan.first) do list[#list + 1] = { block = block } end
  for _, block in ipairs(plan.last) do list[#list + 1] = { block = block } end
  return list
end

-- The ops, without recomputation, and what the core recomputes of them: by list, its place and the input it keeps.
local function ops_of(memory, block, model, share)
  local lists, later, place = memo.lists(memo.jobs(memory, block, model, share), model, share), {}, 0
  local plain = { name = lists.name }
  for i, list in ipairs(lists) do
    plain[i] = list.saved and list.of or list
    if list.saved then later[#later + 1] = { from = place + 1, to = place + #list.of, saved = list.saved } end
    place = place + #plain[i]
  end
  return forms.joint(memory.joints, plain), later
end

-- Copies of ops, with that recomputed.
local function recomputed(ops, later)
  local copies = recall.copies(ops)
  for _, one in ipairs(later) do
    for i = one.from, one.to do copies[i]:recompute(i == one.from and one.saved or 0) end
  end
  return copies
end

describe("a cached block", function()
  for _, name in ipairs { "deepseek-v3", "mixtral-8x7b", "llama-3.1-8b" } do
    it("equals a fresh one, for " .. name, function()
      local model, memory, made, asked = model_of(name), memo.new(s, rules), {}, 0
      local distinct = 0
      for _, one in ipairs(blocks_of(model)) do
        each_share(function(share_of)
          local share = share_of(model)
          share.group, share.stream = one.group, share:outer_tokens()
          local ok, ops, later = pcall(ops_of, memory, one.block, model, share)
          asked = asked + 1
          if asked % cases(3, 1) == 0 then -- sampled: every value of every option is among these
            local fresh = share_of(model)
            fresh.group = one.group
            local wanted = counts(pcall(one.block.ops, one.block, model, fresh))
            assert.same(wanted, counts(ok, ok and recomputed(ops, later) or ops))
          end
          if ok and not made[ops] then made[ops], distinct = true, distinct + 1 end
        end)
      end
      assert.truthy(distinct < asked * 2 / 3, distinct .. " of " .. asked)
    end)
  end
end)

local words = {} -- axes and options of all strategies: those that one lacks are nil in all of its shares
for _, names in ipairs { axes.words() } do
  for _, word in ipairs(names) do words[word] = true end
end

-- What a block reads of its share and of its group that is not among what its ops are remembered by.
local function unforeseen(memory, job, model, share, plain)
  local said, allowed, of_group = job.block.unmarked or job.block, {}, {}
  local function allow(set, ...)
    for _, names in ipairs { ... } do
      for _, name in ipairs(names) do set[name] = true end
    end
  end
  local f = memo.fields
  allow(allowed, f.class, f.narrow, memory.options, { "rules", "attention", "tuning", "referring", "group", "block" })
  allow(allowed, { "exchange", "boundary", "boundary_copies" }) -- functions of strategies
  if not plain then allow(allowed, f.recomputed) end
  if said.part ~= "mixer" and said.part ~= "feed" then allow(allowed, f.ends) end
  local dense = said.dense
  if type(dense) == "function" then dense = dense(share) end
  if not dense then allow(allowed, memory.experts) end
  allow(allowed, job.leaf.by_stream and { "stream" } or { "micro_batch", "tokens", "stream" })
  if not job.leaf.by_stream then allow(allowed, memory.others) end
  allow(of_group, f.layer, said.part ~= "feed" and f.mixer or {}, said.part ~= "mixer" and f.feed or {}, { "own" })
  local found = {}
  local group = job.group and setmetatable({}, { __index = function(_, field)
    if not of_group[field] then found["group." .. field] = true end
    return job.group[field]
  end })
  local proxy = setmetatable({}, {
    __index = function(_, field)
      if field == "group" then return group end
      local value = share[field]
      -- What the strategy has is the same for all shares.
      local constant = rawget(share, field) == nil and (value ~= nil or words[field])
      if field and not (allowed[field] or constant) then found[field] = true end
      return value
    end,
    __newindex = function(_, field, value) share[field] = value end,
  })
  share.group, share.block = job.group, job.block.name
  local done, message = pcall(job.block.build, model, proxy)
  return check.names(found), done, message
end

describe("a block of the library", function()
  local NAMES <const> = { "llama-3.1-8b", "deepseek-v3", "gpt-oss-20b", "jamba-v0.1", "qwen3-next-80b-a3b",
    "gemma-2-27b", "t5-11b", "falcon-40b", "vit-large-16", "dit-xl-2", "olmo-2-7b", "glm-5.2", "gpt3-175b",
    "mamba-2.8b", "falcon-h1-34b", "gemma-4-31b" }
  local SIZES <const> = { tensor = { 2, 1, 2, 0 }, context = { 2, 2, 1, 1, 2, 0 }, summa = { 2, 2 } }
  local VARIANTS <const> = {
    { recompute = "none", sequence_parallel = true }, { recompute = "none", sequence_parallel = false },
    { recompute = "selective", recompute_modules = "core_attn+moe", sequence_parallel = true },
    { recompute = "none", sequence_parallel = true, overlap_shared_experts = true, moe_dispatcher = "deepep" },
    { recompute = "none", sequence_parallel = true, row_multiple = 32, row_padding = "sort", fused_experts = true },
    { recompute = "none", sequence_parallel = true, eager = true, norms = "pytorch", expert_calls = 3 },
  }

  for number, name in ipairs(NAMES) do
    it("reads nothing but what its ops are remembered by, in " .. name, function()
      local model, built = model_of(name), 0
      for _, one in ipairs(blocks_of(model)) do
        for kind, sizes in pairs(SIZES) do
          for v = cases(1 + number % 2, 1), #VARIANTS, cases(2, 1) do -- sampled: models take turns
            local on, variant = strategy.of(kind), { attention = "flash" }
            for field, value in pairs(VARIANTS[v]) do variant[field] = value end
            local share = setmetatable(strategy.share(on, model, 2, sizes, rules, variant), on.own_metatable)
            share.group, share.stream = one.group, share:outer_tokens()
            local memory = memo.new(on, rules)
            for _, job in ipairs(memo.jobs(memory, one.block, model, share)) do
              local found, done = unforeseen(memory, job, model, share, variant.recompute ~= "selective")
              assert.same({}, found, ("%s, %s, variant %d"):format(job.block.name, kind, v))
              built = built + (done and 1 or 0)
            end
          end
        end
      end
      assert.truthy(built > 0)
    end)
  end
end)

describe("a workload of cached blocks", function()
  local SIZES <const> = { { 4, 1, 8, 0 }, { 8, 1, 8, 0 }, { 8, 8, 4, 0 } } -- the second twice as often: as many tokens
  local VARIANTS <const> = {
    { recompute = "none" }, { recompute = "full" }, { recompute = "full", sequence_parallel = false },
    { recompute = "selective", recompute_modules = "layernorm+moe" },
    { recompute = "selective", recompute_modules = "but:input:core_attn:moe_act" },
    { recompute = "none", loss = "pytorch" },
    { recompute = "none", overlap_shared_experts = true }, { recompute = "full", cuda_graphs = "attn+moe_router" },
    { recompute = "none", cuda_graphs = "layer" }, { recompute = "none", offload_modules = "attn_norm" },
    { recompute = "none", mode = "prefill", seq = 512 },
    { recompute = "none", mode = "decode", seq = 1, context = 512 }, { recompute = "none", part = "attention" },
  }
  local tensor, blackwell = strategy.of "tensor", system_of "b200-sxm"

  -- Options in precisions, one after the other on the same model: they share what is remembered.
  local function narrowed(model)
    local p = { model = model, rules = rules, strategies = { tensor }, zero = { 1 } }
    local list = {}
    for i, o in ipairs {
      { recipe = "fp8-block", dispatch = "fp8", first_layers = 1 }, { recipe = "fp8-block", products = "experts" },
      { recipe = "fp8-block", attention_output = "e5m6", activation = "fp8" }, { recipe = "fp8-tensorwise" },
      { recipe = "mxfp8", padding = "router", attention = "fp8" }, { recipe = "nvfp4", products = "dense" },
    } do
      list[i] = { precision = precision.resolve(p, check.record("precision", o, precision.schema), { blackwell }) }
    end
    return list
  end

  local schema = {}
  for _, row in ipairs(tuning.arguments) do schema[row.name] = row.check end

  local function tuning_of(model, objective)
    local o = check.record("tuning", { objective = objective, peft = { rank = 16 } }, schema)
    return tuning.of(o, model, rules, { tensor })
  end

  local function rows_of(grid, sizes, list, boundary)
    local workload, all = core.workload(grid, sizes, boundary, list), { boundary = boundary }
    for i = 1, #list do all[i] = workload:ops(i, core.platform(blackwell, rules), { 1, 1, 1, 1, 1, 1 }) end
    return all
  end

  for number, name in ipairs { "deepseek-v3", "jamba-v0.1", "gpt-oss-20b" } do
    it("has the ops that its blocks make anew, for " .. name, function()
      local model = model_of(name)
      local options = { {}, { apart = true }, { twins = "recompute" }, { tuning = tuning_of(model, "dpo") },
        { tuning = tuning_of(model, "next_token") } }
      table.move(narrowed(model), 1, 6, #options + 1, options)
      for k = cases(2 - number % 2, 1), #options, cases(2, 1) do -- sampled: models take turns
        local o = options[k]
        local remembered = sections.new(model, tensor, "flash", rules, o)
        for _, variant in ipairs(next(o) and { VARIANTS[1], VARIANTS[3], VARIANTS[4] } or VARIANTS) do
          for i = 1, cases(2, #SIZES) do
            local sizes, kept = SIZES[i], {}
            remembered:blocks(sizes, 5, variant, kept)
            for micro_batch = cases(i, 1), cases(i, 2) do -- sampled: both change at once
              local anew = rows_of(tensor.grid, sizes, remembered:ops(sizes, micro_batch, variant))
              local known = rows_of(tensor.grid, sizes, remembered:blocks(sizes, micro_batch, variant, kept))
              if core.codec.encode(anew) ~= core.codec.encode(known) then assert.same(anew, known) end
            end
          end
        end
      end
    end)
  end

  it("shares experts among sizes that give a GPU as many tokens", function()
    local all = sections.new(model_of "deepseek-v3":with {}, tensor, "flash", rules, {})
    local function experts_of(tp, micro_batch)
      local list = all:blocks({ tp, 1, 8, 0 }, micro_batch, { recompute = "none" })
      for i, kind in ipairs(all.kinds) do
        for k, block in ipairs(kind.blocks) do
          if block.name == "moe" then return list[i][k][2], list[i][k][3] end -- experts, and the shared ones
        end
      end
    end
    local experts, shared = experts_of(4, 1)
    local others, also_shared = experts_of(8, 2)
    assert.equal(experts, others)
    assert.is_false(shared == also_shared)
    assert.is_false(experts == experts_of(8, 1))
  end)

  it("shares blocks among groups of layers that agree in what these read", function()
    local function first_blocks(name)
      local all = sections.new(model_of(name), tensor, "flash", rules, {})
      local list = all:blocks({ 4, 1, 1, 0 }, 1, { recompute = "none" })
      assert.equal(2, #all.kinds)
      return list[1][1], list[2][1]
    end
    local dense, sparse = first_blocks "deepseek-v3"
    assert.equal(dense, sparse)
    local windowed, whole = first_blocks "gemma-2-27b"
    assert.is_false(windowed == whole)
  end)

  it("refuses a block that is joined to other sizes", function()
    local model = model_of "mixtral-8x7b"
    local all = sections.new(model, tensor, "flash", rules, {})
    local list = all:blocks({ 8, 1, 1, 0 }, 1, { recompute = "none" })
    assert.error_matches(function() core.workload(tensor.grid, { 4, 1, 1, 0 }, 1, list) end, "another size along 'tp'")
    assert.error_matches(function() core.workload(s.grid, { 8, 1, 1, 1, 1, 0 }, 1, list) end, "another strategy")
  end)
end)

describe("the cache of a search's shapes", function()
  -- The answers of a process that is asked nothing but these, the last one first.
  local function apart(questions)
    local result = program.script(("local questions = { %s }\n"):format(table.concat(questions, ", ")) .. [[
      local texts = {}
      for i = #questions, 1, -1 do
        local found = require "tperf".search(questions[i])
        found.seconds = nil
        for _, one in ipairs(found) do one.seconds = nil end
        texts[i] = require "tperf".report.json(found)
      end
      io.write(table.concat(texts, "\0"))
    ]])
    program.remove(result.folder)
    assert.equal("", result.err)
    local answers = {}
    for text in result.out:gmatch "%Z+" do answers[#answers + 1] = text end
    return answers
  end

  -- Sampled: of a process that was asked the others in another order.
  it("gives the answer of a fresh process, whatever was asked before", function()
    local sames = { 'gpus = 16', 'gpus = 16, global_batch = 32', 'gpus = 16, tp = 8', 'gpus = 16, zero = 3',
      'gpus = 16, infeasible = true', 'gpus = 16, keep = "all", tp = 8, pp = 2', 'gpus = 16, prune = false',
      'gpus = 16, optimizer = "sgd"', 'gpus = 16, recompute = "full"', 'gpus = 16, fast = { tp = 2 }',
      'gpus = 16, reserve = 0.5', 'gpus = 16, seq = 4096', 'gpus = 16, dp = 2', 'gpus = { 8, 16 }',
      'gpus = 16, system = "a100-sxm-40gb"', 'gpus = 16, software = "none"', 'gpus = 16, precision = "fp8-current"',
      'gpus = 16, sequence_parallel = false', 'gpus = 1, tp = 2', 'gpus = 16, strategy = "context"' }
    local questions = {}
    for i, text in ipairs(sames) do
      questions[i] = ('{ model = "llama-3.1-8b", system = "h100-sxm", global_batch = 16, threads = 1, %s }')
        :format(text)
    end
    local first = cases(apart(questions), {})
    assert.equal(cases(#questions, 0), #first)
    for round = 1, cases(1, 2) do
      for i, text in ipairs(sames) do
        local found = tperf.search(load("return " .. questions[i])())
        found.seconds = nil
        for _, one in ipairs(found) do one.seconds = nil end
        local said = tperf.report.json(found)
        first[i] = first[i] or apart { questions[i] }[1]
        assert.truthy(first[i] == said, text .. ", round " .. round)
      end
    end
  end)

  -- Where memory is tight, it decides which shapes are laid out at all.
  it("gives the same answer after another one of what fits", function()
    local function answer(changes)
      local question = {
        model = "llama-3.1-70b", system = "h100-sxm", gpus = 32, global_batch = 32, seq = 4096, top = 5, threads = 1,
      }
      for name, value in pairs(changes) do question[name] = value end
      local rows = {}
      for i, c in ipairs(tperf.search(question)) do
        rows[i] = ("%d %d %d %d %d %s %.17g"):format(c.tp, c.pp, c.dp, c.zero, c.micro_batch, c.recompute,
          c.memory.total)
      end
      return table.concat(rows, "\n")
    end
    local questions = { {}, { zero = 3 }, { zero = 0, optimizer = "sgd" }, { reserve = 0.5 }, { keep = "all" },
      { infeasible = true, top = 50 } }
    local first = {}
    for i, changes in ipairs(questions) do
      memo.forget()
      first[i] = answer(changes)
    end
    for before = 1, #questions do
      memo.forget()
      answer(questions[before])
      for i = 1 + before % cases(3, 1), #questions, cases(3, 1) do -- sampled: each after two others
        local changes = questions[i]
        assert.truthy(first[i] == answer(changes), ("question %d after question %d"):format(i, before))
      end
    end
  end)
end)
