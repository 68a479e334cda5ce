--- What the functions of a script's blocks returned, by what each read of its share. A function is followed field by
--- field: what it has read so far decides what it reads next. So it is called once for each share that differs in what
--- it reads, whatever asks: candidates of a search, their warnings, recomputed layers. What it captures belongs to the
--- model (tperf/describe/captured.lua), for each of which there is one memory.
local adapters = require "tperf.describe.strategy.adapters"

local recall = {}

local MOST_OPS <const> = 16384 -- of one memory; each takes two KiB

local function empty() return setmetatable({}, { __mode = "k" }) end

--- A memory of one model in one strategy.
---@return table memory  of: what blocks made (nil: nothing is remembered); near: by key, fields of groups that may be
---  misspelt; read: those that a block read
function recall.new() return { of = empty(), ops = 0, near = {}, read = {} } end

local NIL <const> = {} -- stands for nil

-- What a field's value is looked up by; nil: it cannot be. A group is what its key says.
local function key_of(field, value)
  if value == nil then return NIL end
  if field == "group" then return ("%s %s %s"):format(value.key, value.first, value.count) end
  return value == value and value or nil
end

--- Begins to note what is read of a share.
---@return table path  for recall.noting and recall.keep
function recall.path() return { known = {} } end

--- Notes that a field was read. Methods belong to the strategy, which the memory is of.
---@return any value
function recall.note(path, field, value)
  if path.known[field] or type(value) == "function" then return value end
  local key = key_of(field, value)
  path.known[field], path.open = true, path.open or key == nil
  path[#path + 1] = { field, key }
  return value
end

--- A view of a share that notes what is read, and nothing else.
function recall.noting(path, p)
  return setmetatable({}, {
    __index = function(_, field) return recall.note(path, field, p[field]) end,
    __newindex = function(_, field, value)
      path.open = true
      p[field] = value
    end,
  })
end

--- What a block's function made for a share that agrees in what it read; nil: it is to be called.
---@return table? known  what recall.keep was given
function recall.find(memory, one, p)
  local node = memory.of[one]
  while node and node.field do
    local key = key_of(node.field, p[node.field])
    node = key ~= nil and node.by[key] or nil
  end
  return node and node.made
end

--- Remembers what a block's function made.
---@param path table  that it read
---@param made table  with `ops`, if it has any: copies, which nothing changes
function recall.keep(memory, one, path, made)
  if path.open then return end -- it changed its share, or looked at all of it
  memory.ops = memory.ops + 1 + #(made.ops or {})
  if memory.ops > MOST_OPS then memory.of, memory.ops = empty(), 1 + #(made.ops or {}) end
  local node = memory.of[one] or {}
  memory.of[one] = node
  for _, read in ipairs(path) do
    local field, key = read[1], read[2]
    if node.field ~= field then node.field, node.by = field, {} end
    node.by[key] = node.by[key] or {}
    node = node.by[key]
  end
  node.field, node.by, node.made = nil, nil, made
end

--- Copies of ops, with what adapters put beside them.
---@param ops table
---@return table
function recall.copies(ops)
  local list = { name = ops.name }
  for i = 1, #ops do list[i] = adapters.copy(ops[i]) end
  return list
end

return recall
