--- Queries about a strategy's axes.
local check = require "tperf.base.check"
local order = require "tperf.describe.strategy.order"
local strategy = require "tperf.describe.strategy"

local axes = {}

local words, counted = nil, 0 -- { names of axes, names of options } of so many strategies
local all, strangers = {}, {} -- these strategies; strategy -> see axes.strangers
local every = {} -- true: of those that serve -> see axes.every

--- The names of all strategies' axes, and of their options, each once; do not change the lists.
---@return string[] axes, string[] options
function axes.words()
  if #order ~= counted then
    all, strangers, every = strategy.all(), {}, {}
    local own, options = {}, {}
    for _, s in ipairs(all) do
      for _, name in ipairs(s.axis_names) do own[name] = true end
      for _, name in ipairs(s.option_names) do options[name] = true end
    end
    words, counted = { check.names(own), check.names(options) }, #all
  end
  return words[1], words[2]
end

local function lacking(names, has)
  local list = {}
  for _, name in ipairs(names) do
    if not has[name] then list[#list + 1] = name end
  end
  return list
end

--- The names of other strategies' axes and options that a strategy does not have; do not change the lists.
---@return string[] axes, string[] options
function axes.strangers(s)
  local own, options = axes.words()
  local known = strangers[s]
  if not known then
    known = { lacking(own, s.index), lacking(options, s.options) }
    strangers[s] = known
  end
  return known[1], known[2]
end

-- Whether arguments have one of these names.
local function has_any(given, names)
  for i = 1, #names do
    if given[names[i]] ~= nil then return true end
  end
  return false
end

--- Whether arguments name an axis or an option that a strategy does not have.
function axes.names_strangers(given, s)
  local own, options = axes.strangers(s)
  return has_any(given, own) or has_any(given, options)
end

--- The strategy that arguments ask for: by name, or the first that has all the axes that they name.
---@param given table  arguments
---@param serves boolean?  true: only strategies that serve
function axes.asked(given, serves)
  if type(given) ~= "table" then return strategy.of "tensor" end
  if given.strategy ~= nil then return strategy.of(given.strategy) end
  axes.words()
  for _, s in ipairs(all) do
    if (s.serves or not serves) and not has_any(given, (axes.strangers(s))) then return strategy.of(s) end
  end
  return strategy.of "tensor"
end

-- Adds an axis or option once, with the names of the strategies that have it.
local function add(list, known, s, name, entry)
  if not known[name] then
    known[name] = entry
    entry.name, entry.strategies = name, {}
    list[#list + 1] = entry
  end
  table.insert(known[name].strategies, s.name)
end

local function list_every(serves)
  local plain, options, folded, known = {}, {}, {}, {}
  for _, s in ipairs(all) do
    if serves and not s.serves then goto next end
    for _, axis in ipairs(s.axes) do add(axis.folds and folded or plain, known, s, axis.name, { axis = axis }) end
    for _, name in ipairs(s.option_names) do add(options, known, s, name, { option = s.options[name] }) end
    ::next::
  end
  table.move(options, 1, #options, #plain + 1, plain)
  return table.move(folded, 1, #folded, #plain + 1, plain)
end

--- All axes and options of all strategies, each once: axes that multiply GPUs, then options, then folded axes; do not
--- change the list.
---@param serves boolean?  true: only strategies that serve
---@return table[] list  of { name =, axis = or option =, strategies = names }
function axes.every(serves)
  axes.words()
  serves = serves == true
  every[serves] = every[serves] or list_every(serves)
  return every[serves]
end

--- The GPUs that sizes of axes multiply to, those left out being 1.
---@param sizes table     name -> size
---@param folded boolean? true: with axes that fold over others, which multiply no GPUs but the shards of some weights
---@return integer
function axes.product(sizes, folded)
  local product = 1
  for _, entry in ipairs(axes.every()) do
    if entry.axis and (folded or not entry.axis.folds) then product = product * (sizes[entry.name] or 1) end
  end
  return product
end

--- The names of all axes, including those that every configuration has.
---@return string[]
function axes.names()
  local names = {}
  for _, entry in ipairs(axes.every()) do names[#names + 1] = entry.axis and entry.name or nil end
  names[#names + 1], names[#names + 2] = "pp", "dp"
  return names
end

--- Whether an axis cuts `what`: "tokens", "batch", "state" …
---@return boolean
function axes.cuts(axis, what)
  local cuts = axis.cuts
  return cuts[1] == what or cuts[2] == what or cuts[3] == what or cuts[4] == what or cuts[5] == what or cuts[6] == what
end

--- Whether an axis cuts only experts, with groups folded over other axes.
---@return boolean
function axes.spreads(axis) return axis.folds ~= nil and axes.cuts(axis, "experts") end

--- The default size of an axis. share: the sizes of the axes before it.
---@return integer  0: an axis that shards state does so over all replicas
function axes.default(axis, model, share, rules)
  if axis.default then return axis.default(model, share, rules) end
  return axes.cuts(axis, "state") and 0 or 1
end

--- Whether an axis of this size is worth showing; an axis that shards state over all replicas is not.
---@return boolean
function axes.shows(axis, size)
  return axis.cuts[1] ~= "state" or size ~= nil and size > 0
end

--- Writes the choices of a strategy's options into a configuration.
---@param c table       changed in place
---@param asked table   option -> choice
function axes.tell_options(c, s, asked)
  for name, option in pairs(s.options) do
    c[name] = asked[name] or not option.quiet and option.choices[1] or nil
  end
end

--- Whether an axis matters to a model: axes that only experts use do so only if there are experts.
---@return boolean
function axes.matters(axis, model)
  return model.experts ~= nil or not axes.spreads(axis)
end

return axes
