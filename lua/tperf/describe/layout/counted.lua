--- What a custom architecture's ops count: parameters, and the FLOPs by which MFU is computed. Nothing of the
--- description (heads, ffn …) is read, except by blocks that do.
local captured = require "tperf.describe.captured"
local narrowed = require "tperf.describe.arch.narrowed"
local rules = require "tperf.describe.rules.sets"
local sections = require "tperf.describe.layout.sections"
local strategy = require "tperf.describe.strategy"

local counted = {}

-- The sections of a model on one GPU, by the first strategy whose cuts its blocks can use. Raises as the first one
-- does.
local function uncut(model)
  local message
  for _, s in ipairs(strategy.all()) do
    local sizes = {}
    for i, axis in ipairs(s.axes) do sizes[i] = axis.cuts[1] == "state" and 0 or 1 end
    local done, all, list = pcall(function()
      local laid = sections.new(model, s, "flash", rules.of(), {})
      return laid, (laid:ops(sizes, 1, { recompute = "none", sequence_parallel = true }))
    end)
    if done then return all, list end
    message = message or all
  end
  error(message, 0)
end

-- How often a model has each section: layers of each kind; once its ends, and what sections share.
local function times_of(all, list)
  local times = {}
  for i = 1, #list do times[i] = i <= #all.kinds and 0 or 1 end
  for _, run in ipairs(all.runs) do times[run[1]] = times[run[1]] + run[2] end
  return times
end

-- The part of an op's parameters that one of `tokens` uses: those of the experts that it is sent to.
local function active_part(one, tokens)
  local product = one:product()
  if not (product and product.expert) then return 1 end
  local each = product.n_in * product.n_out
  local experts = product.weights % each == 0 and product.weights / each or product.weights // (each + product.n_out)
  return math.min(product.rows / (tokens * experts), 1)
end

local ENDS <const> = { table = "embedding", positions = "positions", norm = "norms" } -- ops of the usual ends

-- The component that an op's parameters belong to: its block, or the part of the usual ends.
local function component_of(block, name, is_end)
  return is_end and (block == "embedding" or block == "head") and ENDS[name] or block
end

-- Adds an op's products' weights to those of the part of a layer that they are stored as.
local function add_stored(stored, block, one, component, is_end)
  local shape = not is_end and one:product()
  local part = shape and shape.weights > 0 and narrowed.part_of(block, one, shape)
  if not part then return end
  stored[component] = stored[component] or {}
  stored[component][part] = (stored[component][part] or 0) + shape.weights
end

-- Adds one section's counts: parameters by component, those that a token uses, those of modules that predict further
-- tokens.
local function parameters_of(section, tokens, is_end, tied)
  local sum = {
    parts = {}, used = {}, stored = {}, total = 0.0, active = 0.0, active_experts = 0.0, mtp = 0.0,
  }
  for _, block in ipairs(section) do
    for _, one in ipairs(block) do
      local c = one:counts()
      local own = tied and c.tied and 0 or c.parameters
      if block.name == "mtp" then
        sum.mtp = sum.mtp + own
      elseif own > 0 then
        local used = own * active_part(one, tokens)
        local part = component_of(block.name, c.name, is_end)
        sum.parts[part] = (sum.parts[part] or 0) + own
        sum.used[part] = (sum.used[part] or 0) + used
        add_stored(sum.stored, block.name, one, part, is_end)
        sum.total, sum.active = sum.total + own, sum.active + used
        if c.expert then sum.active_experts = sum.active_experts + used end
      end
    end
  end
  return sum
end

local function integer(n) return math.tointeger(n) or n end

local function integers(parts)
  for name, n in pairs(parts) do parts[name] = integer(n) end
  return parts
end

-- The groups of layers with the counts of one layer and of all.
local function groups_of(all, sums)
  local number, list = {}, {}
  for i, kind in ipairs(all.kinds) do number[kind.key] = i end
  for i, group in ipairs(all.plan.groups) do
    local copy, sum = {}, sums[number[group.key]]
    for name, value in pairs(group) do copy[name] = value end
    copy.layer = {}
    for name, n in pairs(sum.parts) do copy.layer[name] = integer(n) end
    copy.layer_total, copy.layer_active = integer(sum.total), integer(sum.active)
    copy.total, copy.active = integer(sum.total * group.count), integer(sum.active * group.count)
    list[i] = copy
  end
  return list
end

local laid = setmetatable({}, { __mode = "k" }) -- what stands for a model -> { all, list, times }

-- What a script's blocks capture may change between two questions: captured.lua has one model for each.
local function laid_out(model)
  local known = laid[model]
  if known then return known end
  local all, list = uncut(model)
  known = { all = all, list = list, times = times_of(all, list) }
  if captured.is_variant(model) then laid[model] = known end
  return known
end

local function tokens_of(all, model, i)
  local kind = all.kinds[i]
  return kind and kind.seq or model.seq
end

--- The parameters of a model, as model:parameters() has them: components are the blocks.
---@param model table  with an architecture
---@return tperf.parameters
function counted.parameters(model)
  local one = laid_out(model)
  local all, list, times = one.all, one.list, one.times
  local kinds, sums, parts, used, stored = #all.kinds, {}, {}, {}, {}
  local sum = { total = 0.0, active = 0.0, active_experts = 0.0, mtp = 0.0 }
  for i, section in ipairs(list) do
    local is_end = i == kinds + 1 or i == kinds + 2
    sums[i] = parameters_of(section, tokens_of(all, model, i), is_end, i == kinds + 2)
    for name, n in pairs(sums[i].parts) do parts[name] = (parts[name] or 0) + times[i] * n end
    for name, n in pairs(sums[i].used) do used[name] = (used[name] or 0) + times[i] * n end
    for name, n in pairs(sum) do sum[name] = n + times[i] * sums[i][name] end
    for name, kept in pairs(sums[i].stored) do
      stored[name] = stored[name] or {}
      for part, n in pairs(kept) do stored[name][part] = (stored[name][part] or 0) + times[i] * n end
    end
  end
  return {
    total = integer(sum.total), active = integer(sum.active), active_experts = integer(sum.active_experts),
    embedding = integer(parts.embedding or 0), head = integer(parts.head or 0), components = integers(parts),
    mtp = integer(sum.mtp), groups = groups_of(all, sums), stored = stored,
    used = integers(used),
  }
end

--- Whether an op of an architecture belongs to a module of tperf/describe/arch/recompute.lua.
---@return boolean
function counted.belongs(model, module)
  for _, section in ipairs(laid_out(model).list) do
    for _, block in ipairs(section) do
      for _, one in ipairs(block) do
        if one:belongs(module) then return true end
      end
    end
  end
  return false
end

-- Whether an op counts as attention, or as a scan, among FLOPs.
local function part_of(one)
  local _, sequence, _, keys = one:kept()
  return keys > 0 and "attention" or sequence > 0 and "scan" or "parameters"
end

--- FLOPs per token of the model's sequence, as model:flops_per_token() has them; modules that predict further tokens
--- count as Megatron-LM counts.
---@param model table  with an architecture
---@param options table  causal, backward, convention
---@return table flops  total, parameters (products), attention, scan
function counted.flops(model, options)
  local one = laid_out(model)
  local sum = { total = 0.0, parameters = 0.0, attention = 0.0, scan = 0.0 }
  for i, section in ipairs(one.list) do
    for _, block in ipairs(section) do
      local counts = block.name ~= "mtp" or options.convention == "megatron"
      for _, op in ipairs(counts and block or {}) do
        local forward, backward = op:model_flops(not options.causal)
        local flops = one.times[i] * (forward + (options.backward and backward or 0)) / model.seq
        local part = part_of(op)
        sum[part], sum.total = sum[part] + flops, sum.total + flops
      end
    end
  end
  return sum
end

return counted
