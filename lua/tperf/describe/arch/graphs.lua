--- CUDA graphs in training: parts that the host replays with one call in each pass, in place of one for every kernel.
-- In Megatron-Core's words (--cuda-graph-modules; its transformer_config.py says what each captures):
--   attn             attention with its norm and residual sum, or what stands in its place
--   mlp              a dense MLP, likewise
--   mamba            a Mamba layer
--   moe_router       of experts: the norm, the router, and the shared experts, unless these run beside the exchanges
--   moe              all of a layer's experts, which then have fixed numbers of slots
--   layer            whole layers (--cuda-graph-impl transformer_engine without modules, or local)
--   full_iteration   everything: the host never delays the GPUs
-- The routed experts of `moe_router` stay outside: how many rows each gets is known only when it runs.
local check = require "tperf.base.check"
local refusal = require "tperf.base.refusal"

local graphs = {}

graphs.modules = { "attn", "mlp", "mamba", "moe_router", "moe", "layer", "full_iteration" }

--- Rows of tperf.question.arguments.
graphs.arguments = {
  { name = "cuda_graphs", group = "overlap", check = check.one_of(check.choice { graphs.modules, optional = true },
    check.list(check.choice { graphs.modules }, { optional = true })),
    doc = "launched as graphs: attn, mlp, mamba, moe_router, layer ...", more = "See docs/parallelism.md." },
}

local BLOCKS <const> = { attention = "attn", cross = "attn", delta = "attn", parallel = "attn", mlp = "mlp",
  mamba = "mamba", moe = "moe" }

local function set_of(text)
  local set = {}
  for name in text:gmatch "[^+]+" do set[name] = true end
  return set
end

local function routes(p, one)
  return one:belongs "moe_router" or not p.overlap_shared_experts and one:belongs "shared_experts"
end

--- Marks the ops of a block that a graph launches: the first of them makes the call.
---@param p table      the share; p.cuda_graphs: graphs.text
---@param ops table
---@param name string  the block's
function graphs.mark(p, ops, name)
  local set, called = set_of(p.cuda_graphs), false
  local whole = set.layer or set[BLOCKS[name] or ""]
  for _, one in ipairs(ops) do
    if whole or name == "moe" and set.moe_router and routes(p, one) then
      if called then one:join() else one:single() end
      called = true
    end
  end
  return ops
end

local function without_experts(m) return not m.experts and "no experts" end

local LACKS <const> = {
  moe_router = without_experts, moe = without_experts,
  mamba = function(m) return not (m.mamba or m.mamba1) and "no Mamba layers" end,
}

local function listed(value) return type(value) == "table" and value or { value } end

--- The modules within layers as one text; nil: none.
---@param asked string|string[]?
---@param model table
---@return string?
function graphs.text(asked, model)
  local set, list = {}, {}
  for _, name in ipairs(listed(asked)) do
    local lacks = LACKS[name] and LACKS[name](model)
    if lacks then refusal.raise("'cuda_graphs' has %s, but model '%s' has %s", name, model.name, lacks) end
    set[name] = true
  end
  for _, name in ipairs(graphs.modules) do
    if set[name] and name ~= "full_iteration" then list[#list + 1] = name end
  end
  return list[1] and table.concat(list, "+") or nil
end

--- The core's software terms of a question, whose host does nothing in a graph of the whole iteration.
---@param terms table?  of tperf.describe.profile
function graphs.software(asked, terms)
  for _, name in ipairs(terms and listed(asked) or {}) do
    if name == "full_iteration" then terms.host = 0 end
  end
  return terms
end

--- Writes what graphs capture into a configuration.
function graphs.describe(c, o)
  local list = o.cuda_graphs and listed(o.cuda_graphs)
  c.cuda_graphs = list and table.move(list, 1, #list, 1, {}) or nil
end

return graphs
