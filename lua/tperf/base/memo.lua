--- What is remembered of work: values by a text, and the ops that a block makes by the fields of the share that it
-- reads. Attention never reads the size of the expert axis, so its ops for one size serve for the next. Which fields a
-- block reads depends only on the values read before, so there are few distinct lists of fields.
local memo = {}

local CACHED <const> = 65536 -- ops in all; each takes three quarters of a KiB
local MOST_LISTS <const> = 8 -- of fields, for one block

local cached, generation = 0, 0

--- Values that are worked out once for each text, and forgotten when there are more than `most`.
---@param most integer
---@return fun(key: string, make: fun(): any): any value  what make returned when the key was new; never nil
function memo.by_text(most)
  local values, count = {}, 0
  return function(key, make)
    local value = values[key]
    if value == nil then
      value = make()
      if count >= most then values, count = {}, 0 end
      values[key], count = value, count + 1
    end
    return value
  end
end

--- An empty memory.
function memo.new() return { generation = generation, known = {} } end

-- The lists of fields that a block has been seen to read, each with `made`: the ops by the values of the fields.
local function known_of(memory, block)
  if memory.generation ~= generation then memory.generation, memory.known = generation, {} end
  local known = memory.known[block]
  if not known then
    known = {}
    memory.known[block] = known
  end
  return known
end

-- The values of the fields as a key. Tables among them are a layer's group and the rules.
local function values_of(share, fields)
  local words = {}
  for i = 1, #fields do
    local value = share[fields[i]]
    local kind = type(value)
    if kind == "table" then value = value.key or value.name end
    words[i] = (kind == "nil" or kind == "boolean") and tostring(value) or value
  end
  return table.concat(words, " ")
end

-- A proxy of the share that records in `reads` which fields are read.
local function watched(share, reads)
  local absent = {}
  return setmetatable({}, {
    __index = function(glass, field)
      local value = share[field]
      if type(value) ~= "function" and not absent[field] then -- functions are the strategy's cuts
        reads[#reads + 1] = field
        absent[field] = value == nil
      end
      rawset(glass, field, value)
      return value
    end,
    __newindex = function(glass, field, value)
      share[field] = value
      rawset(glass, field, value)
    end,
  })
end

local function keep(known, share, reads, made)
  local name, list = table.concat(reads, " "), nil
  for _, one in ipairs(known) do
    if one.name == name then list = one end
  end
  if not list then
    if #known == MOST_LISTS then return end
    list = { name = name, fields = reads, made = {} }
    known[#known + 1] = list
  end
  list.made[values_of(share, list.fields)] = made
  if cached > CACHED then cached, generation = 0, generation + 1 end
  cached = cached + #made + 1
end

--- The ops of a block for a share.
---@param memory table  of memo.new
---@return table ops  as block:ops returns them
function memo.ops(memory, block, model, share)
  local known = known_of(memory, block)
  for _, list in ipairs(known) do
    local made = list.made[values_of(share, list.fields)]
    if made then return made end
  end
  local reads = {}
  local glass = watched(share, reads)
  rawset(glass, "ops_of", function(inner, m, p) return memo.ops(memory, inner, m, p) end)
  local made = block:ops(model, glass)
  keep(known, share, reads, made)
  return made
end

return memo
