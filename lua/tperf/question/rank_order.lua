--- The order of ranks: which GPUs are neighbours. A question gives it, else a strategy of a script, else the software.
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local lists = require "tperf.base.lists"
local refusal = require "tperf.base.refusal"

local rank_order = {}

--- Megatron-Core's default, innermost first. The meshes of torchtitan, DeepSpeed, Megatron-DeepSpeed, NeMo and nanotron
--- have their axes in this order, too.
rank_order.USUAL = "tp-cp-ep-dp-pp"

--- Inference engines': a replica's GPUs are neighbours, stage by stage.
rank_order.SERVING = "tp-cp-pp-dp"

-- The names in an order.
local function names_in(text)
  local names = {}
  for name in (text .. "-"):gmatch "([^-]*)-" do names[#names + 1] = name end
  return names
end

-- The axes that an order may name, besides those that only some strategies of scripts have: name -> true.
local function known_names()
  local known = { dp = true, pp = true }
  for _, entry in ipairs(axes.every()) do
    local axis = entry.axis
    if axis and (not axis.folds or axes.spreads(axis) and not axes.cuts(axis, "features")) then
      known[entry.name] = true
    end
  end
  return known
end

--- An argument's checker: a text of axes, innermost first, that has dp and pp.
rank_order.checker = check.string { optional = true }

--- Refuses an order that names what no axis is, twice or not at all.
---@param what string  prefix of messages, such as "tperf.train"
---@param text string?
function rank_order.check(what, text)
  if not text then return end
  local known, seen = known_names(), {}
  for _, name in ipairs(names_in(text)) do
    if not known[name] then
      check.fail("%s: 'rank_order' = %s names no axis %s%s: it lists axes from neighbours to distant GPUs, as '%s' "
        .. "does", what, check.show(text), check.show(name), check.suggest(name, check.names(known)), rank_order.USUAL)
    end
    if seen[name] then
      check.fail("%s: 'rank_order' = %s has '%s' twice", what, check.show(text), name)
    end
    seen[name] = true
  end
  for _, name in ipairs { "dp", "pp" } do
    if not seen[name] then
      check.fail("%s: 'rank_order' = %s lacks '%s': say where it lies, as '%s' does", what, check.show(text), name,
        rank_order.USUAL)
    end
  end
end

-- The strategy's axes that multiply GPUs, innermost first.
local function own_names(s)
  if s.rank_order then
    return lists.where(names_in(s.rank_order), function(name)
      local axis = s.axes[s.index[name]]
      return axis and not axis.folds
    end)
  end
  local names = {}
  for _, axis in ipairs(s.axes) do names[#names + 1] = not axis.folds and axis.name or nil end
  return names
end

local function position(list, name)
  for i, one in ipairs(list) do
    if one == name then return i end
  end
end

-- The named axes that a strategy has, with those of its own that are not named beside their neighbours among them.
local function merged(s, names, own_first)
  local own, list = own_names(s), {}
  for _, name in ipairs(names) do
    local axis = s.axes[s.index[name]]
    local left_out = not axis and name ~= "dp" and name ~= "pp" or own_first and axis and not axis.folds
    if not left_out then list[#list + 1] = name end
  end
  local last = 0 -- the position of the strategy's axis before
  for i, name in ipairs(own) do
    local at = position(list, name)
    if not at then
      at = last + 1
      for j = i + 1, #own do
        local next_at = not own_first and position(list, own[j])
        if next_at then
          at = next_at
          break
        end
      end
      table.insert(list, at, name)
    end
    last = at
  end
  return list
end

local function order_of(s, text, own_first)
  local names = merged(s, names_in(text), own_first)
  local order = { text = table.concat(names, "-"), positions = {} }
  for i, name in ipairs(names) do
    order.positions[i] = name == "dp" and 1 or name == "pp" and 2 or 2 + s.index[name]
  end
  return order
end

local known = setmetatable({}, { __mode = "k" }) -- strategy -> text -> order

--- The order of a strategy's axes.
---@param s table          a strategy
---@param asked string?    of a question, checked
---@param software string  of the software; a script's strategy has its own axes as it declares them, and a strategy
---  that says where replicas and stages lie has all of its own order
---@return { text: string, positions: integer[] } order  positions: in placements, for the core
function rank_order.of(s, asked, software)
  local whole = asked or s.rank_order and position(names_in(s.rank_order), "dp") and s.rank_order
  local own_first = not whole and not s.built_in
  local key = (own_first and "own " or "") .. (whole or software)
  local orders = known[s] or {}
  known[s] = orders
  orders[key] = orders[key] or order_of(s, whole or software, own_first)
  return orders[key]
end

--- The placement that an order implies.
---@param what string       prefix of messages, such as "tperf.train: "
---@param s table           a strategy
---@param order table       of rank_order.of
---@param sizes integer[]   of its axes
---@param dp integer        replicas
---@param pp integer        stages
---@param domain integer    GPUs of a fast domain
---@return integer[] fast  GPUs of dp, pp and the strategy's axes in a domain
function rank_order.place(what, s, order, sizes, dp, pp, domain)
  local fast = s.grid:rank(order.positions, sizes, dp, pp, domain)
  if fast then return fast end
  refusal.raise("%sthe order of ranks %s gives the experts' GPUs the same stages as all others: %s must be as many "
    .. "GPUs as the axes before pp; give other sizes, rank_order = '%s' or placement = 'best'", what, order.text,
    s.expert_features and s.expert_features .. " x " .. s.spread or s.spread or "the experts' axes", rank_order.USUAL)
end

return rank_order
