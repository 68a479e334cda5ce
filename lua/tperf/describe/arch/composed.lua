--- Architectures that a reader of a model's file composes of the library's blocks, layer by layer, where layers differ
--- in more than a description says. A layer is a record as of tperf.architecture's groups, and as model:groups() has
--- them: `blocks` in order, `norms` of all of them, and what blocks of the library read of a group:
--    window    keys that a query sees
--    own       fields of attention that differ from the model's: kv_heads, head_dim … (model/windowed.lua)
--    borrows   true: keys and values are those of an earlier layer
--    ffn       width of its MLP
local architecture = require "tperf.describe.arch"
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"

local composed = {}

local made = setmetatable({}, { __mode = "k" }) -- the architectures of composed.of

-- A name of a layer that is the same for equal ones: all its numbers and words, and the addresses of its blocks.
local function named(layer)
  local words = {}
  for _, field in ipairs(check.names(layer)) do
    local value = layer[field]
    if field == "blocks" then
      for _, one in ipairs(value) do words[#words + 1] = ("%s%p"):format(one.name, one) end
    elseif type(value) == "table" then
      for _, name in ipairs(check.names(value)) do words[#words + 1] = ("%s.%s=%s"):format(field, name, value[name]) end
    else
      words[#words + 1] = ("%s=%s"):format(field, value)
    end
  end
  return table.concat(words, " ")
end

-- What the key of a group says to people.
local function shown(layer, known)
  local words = {}
  for i, one in ipairs(layer.blocks) do words[i] = one.name end
  return ("%s %d"):format(table.concat(words, "/"), known)
end

--- The architecture of a list of layers, each made by a function so that equal ones share their blocks.
---@param name string
---@param layers table[]  in order
---@param first table[]?  blocks before them; default: the usual embedding
---@param last table[]?   blocks after them; default: the usual head
---@return table architecture
function composed.of(name, layers, first, last)
  local groups, keys, kinds = {}, {}, 0
  for _, layer in ipairs(layers) do
    local id, before = named(layer), groups[#groups]
    if not keys[id] then
      kinds = kinds + 1
      keys[id] = shown(layer, kinds)
    end
    if before and before.key == keys[id] then
      before.count = before.count + 1
    else
      local group = { count = 1, key = keys[id] }
      for field, value in next, layer do group[field] = value end
      groups[#groups + 1] = group
    end
  end
  local one = architecture { name = name, groups = groups, first = first, last = last }
  made[frozen.plain(one)] = true
  return one
end

--- Whether an architecture was composed by a reader: then the description's other fields do not say its layers.
function composed.is(one) return made[frozen.plain(one)] == true end

return composed
