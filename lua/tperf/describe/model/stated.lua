--- Groups of layers, parameters and FLOPs that a custom architecture states for its model.
local argument = require "tperf.base.entry.argument"
local block = require "tperf.describe.block"
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"
local stacks = require "tperf.describe.model.stacks"

local stated = {}

local MOST_GROUPS <const> = 4096

local function is_number(value) return type(value) == "number" and value - value == 0 and value > 0 end

--- Raises if an architecture's fields are not valid.
---@param given table  its fields
function stated.check(given)
  for _, name in ipairs { "parameters", "flops_per_token" } do
    local value = given[name]
    if value ~= nil and type(value) ~= "function" and not is_number(value) then
      check.fail("tperf.architecture: '%s' must be a number above 0 or a function, got %s", name, check.show(value))
    end
  end
  if given.groups ~= nil and type(given.groups) ~= "function" and type(given.groups) ~= "table" then
    check.fail("tperf.architecture: 'groups' must be a list or a function, got %s", check.show(given.groups))
  end
  if not given.layer and not given.groups then check.fail "tperf.architecture: 'layer' is missing: a list of blocks" end
  if given.layer and #given.layer == 0 then
    check.fail "tperf.architecture: 'layer' must be a list of at least one block"
  end
end

local function wrong(given, i, field, what, value)
  check.fail("tperf.architecture '%s': group %d: '%s' must be %s, got %s", given.name, i, field, what,
    check.show(value))
end

local COUNTED <const> = { count = true, key = true, first = true } -- not properties of a layer

local DEEPEST <const> = 8 -- levels of nested tables that are compared by content

-- A value as text, the same for equal content; functions, blocks and deeper tables compare by identity.
local function text(value, depth)
  if type(value) ~= "table" or block.is(value) or depth == 0 then return tostring(value) end
  local words = {}
  for field, inner in next, value do words[#words + 1] = tostring(field) .. " " .. text(inner, depth - 1) end
  table.sort(words)
  return table.concat(words, " ")
end

-- The first field in which two groups differ; nil: they are alike.
local function difference(a, b)
  for _, group in ipairs { a, b } do
    for _, field in ipairs(check.names(group)) do
      local differs = not COUNTED[field] and text(a[field], DEEPEST) ~= text(b[field], DEEPEST)
      if differs then return field end
    end
  end
end

-- A name for a group without a key, made of its number, text and boolean fields.
local function named(group)
  local words = {}
  for _, field in ipairs(check.names(group)) do
    local value = group[field]
    local tells = not COUNTED[field] and type(value) ~= "table" and type(value) ~= "function"
    if tells then words[#words + 1] = ("%s %s"):format(field, tostring(value)) end
  end
  return words[1] and table.concat(words, ", ") or "layer"
end

-- Gives every group a key. Layers with the same key are laid out once, so different groups need different keys; those
-- given without keys are distinguished by their fields.
local function tell_apart(given, groups)
  local known = {}
  for i, group in ipairs(groups) do
    local name, number = group.key or named(group), 1
    while known[name] and difference(groups[known[name]], group) do
      if group.key then
        check.fail("tperf.architecture '%s': groups %d and %d have the key '%s' and differ in '%s': give them two "
          .. "keys, or none", given.name, known[name], i, name, difference(groups[known[name]], group))
      end
      number = number + 1
      name = ("%s (%d)"):format(named(group), number)
    end
    group.key, known[name] = name, known[name] or i
  end
end

-- Fields that the library sets itself.
local RESERVED <const> = { "frozen", "group", "in_16_bits", "stopped" }

local function is_size(value)
  return type(value) == "number" and math.tointeger(value) ~= nil and value >= 1 and value <= 1 << 31
end

local function is_flag(value) return type(value) == "boolean" end

-- Fields that the library reads besides count, key, seq and blocks: what each must be.
local READ <const> = {
  rate = { function(value) return is_number(value) and value < math.huge end,
    "a number above 0: tokens of its sequence for each of the model's" },
  width = { is_size, "an integer of at least 1: features of the stream" },
  window = { is_size, "an integer of at least 1: keys that a query sees" },
  carries = { function(value) return type(value) == "number" and value >= 0 and value < math.huge end,
    "a number of at least 0: elements of a sequence that travel beside the stream" },
  keeps = { function(value) return type(value) == "table" or type(value) == "function" end,
    "a table { token =, sequence =, window = } or a function that returns one" },
  causal = { is_flag, "true or false" },
  padded = { is_flag, "true or false: whether its sequence is padded to what the GPUs that share it divide" },
}

local OWN <const> = { "count", "key", "seq", "blocks" } -- that every group may have, besides READ

--- Fields of a group that are spelt nearly as one that the library reads, each with the suggestion; nil: none.
---@param group table  of stated.groups, or made of such
---@return table<string, string>?
function stated.near(group)
  local names, near = table.move(OWN, 1, #OWN, #check.names(READ) + 1, check.names(READ)), nil
  local known = { first = true }
  for _, name in ipairs(names) do known[name] = true end
  for _, name in ipairs(RESERVED) do known[name] = true end
  for field in next, group do
    local suggestion = type(field) == "string" and not known[field] and check.suggest(field, names) or ""
    if suggestion ~= "" then
      near = near or {}
      near[field] = suggestion
    end
  end
  return near
end

local function check_fields(given, i, group)
  for _, field in ipairs(RESERVED) do
    if group[field] ~= nil then
      check.fail("tperf.architecture '%s': group %d: '%s' is set by the library: give the field another name; reserved "
        .. "are %s", given.name, i, field, table.concat(RESERVED, ", "))
    end
  end
  for _, field in ipairs(check.names(READ)) do
    local test, what = table.unpack(READ[field])
    if group[field] ~= nil and not test(group[field]) then wrong(given, i, field, what, group[field]) end
  end
end

local function checked_group(given, i, group, model)
  if type(group) ~= "table" then wrong(given, i, "group", "a table", group) end
  check_fields(given, i, group)
  local copy = {}
  for field, value in next, group do copy[field] = value end
  local count, seq = math.tointeger(copy.count), copy.seq
  if not count or count < 1 then wrong(given, i, "count", "an integer of at least 1", copy.count) end
  if copy.key ~= nil and type(copy.key) ~= "string" then
    wrong(given, i, "key", "a name, equal for equal layers", copy.key)
  end
  if seq ~= nil and not (math.tointeger(seq) and seq >= 1 and seq <= 1 << 31) then
    wrong(given, i, "seq", "an integer of at least 1", seq)
  end
  if copy.blocks == nil and not given.layer then wrong(given, i, "blocks", "a list of blocks", nil) end
  if copy.blocks ~= nil then
    local blocks = {}
    for at, one in next, type(copy.blocks) == "table" and copy.blocks or {} do
      if math.type(at) ~= "integer" or not block.is(one) then wrong(given, i, "blocks", "a list of blocks", one) end
      blocks[at] = frozen.plain(one)
    end
    argument.list(("tperf.architecture '%s': group %d"):format(given.name, i), "blocks", blocks)
    if #blocks == 0 then wrong(given, i, "blocks", "a list of blocks", copy.blocks) end
    copy.blocks = blocks
  end
  if seq ~= nil and copy.rate ~= nil then
    check.fail("tperf.architecture '%s': group %d: 'rate' says how long its sequence is: leave out 'seq'", given.name,
      i)
  end
  if copy.padded and not (seq or copy.rate) then
    check.fail("tperf.architecture '%s': group %d: 'padded' is of a sequence of the group's own: give its 'seq'",
      given.name, i)
  end
  if copy.rate then seq = math.max(math.floor(copy.rate * model.seq), 1) end
  copy.count, copy.seq = count, math.tointeger(seq)
  return copy
end

local MOST_KINDS <const> = 64 -- TPERF_KINDS_MAX of include/tperf/workload.h

local function check_kinds(given, groups)
  local known, kinds = {}, 0
  for i, group in ipairs(groups) do
    kinds = kinds + (known[group.key] and 0 or 1)
    known[group.key] = true
    if kinds > MOST_KINDS then
      check.fail("tperf.architecture '%s': group %d ('%s') is the %dth kind of layer, and a model has at most %d: give "
        .. "equal layers the same fields or key, or put several layers into one", given.name, i, group.key, kinds,
        MOST_KINDS)
    end
  end
end

--- The groups that an architecture states, checked.
---@return table[] groups  copies, each with `first`
function stated.groups(given, model)
  local list = given.groups
  if type(list) == "function" then list = list(frozen.show(model)) end
  local what = ("tperf.architecture '%s'"):format(given.name)
  local length = type(list) == "table" and argument.list(what, "groups", list) or 0
  if length < 1 or length > MOST_GROUPS then
    check.fail("tperf.architecture '%s': 'groups' must be a list of 1 to %d groups, got %s", given.name, MOST_GROUPS,
      check.show(list))
  end
  local groups, first = {}, 1
  for i = 1, length do
    groups[i] = checked_group(given, i, rawget(list, i), model)
    groups[i].first, first = first, first + groups[i].count
  end
  tell_apart(given, groups)
  check_kinds(given, groups)
  if first - 1 ~= model.layers then
    check.fail("tperf.architecture '%s': the groups have %d layers, the model %d", given.name, first - 1, model.layers)
  end
  return groups
end

--- The lengths of a model's sequences: its own, and those of groups with other lengths.
---@param model table
---@param unpadded boolean?  true: only those that the GPUs which share them must divide
---@return integer[]
function stated.sequences(model, unpadded)
  local list, given = { model.seq }, model.architecture
  if model.encoder_stack and not given then list[2] = stacks.seq(model) end
  for _, group in ipairs(given and given.groups and stated.groups(given, model) or {}) do
    list[#list + 1] = not (unpadded and group.padded) and group.seq or nil
  end
  return list
end

local function number_of(given, name, model, ...)
  local value = given[name]
  if type(value) ~= "function" then return value, nil end
  local first, second = value(frozen.show(model), ...)
  if not is_number(first) or second ~= nil and not is_number(second) then
    check.fail("tperf.architecture '%s': '%s' returned %s, where a number above 0 must be", given.name, name,
      check.show(is_number(first) and second or first))
  end
  return first, second
end

--- The number of replicas, if the blocks of a model's architecture know it; else nil.
---@param model table
---@param dp integer?  (1)
---@return integer?
function stated.replicas(model, dp)
  local given = rawget(model, "architecture")
  return given and given.replicas and (dp or 1) or nil
end

--- Whether a model's architecture admits a layout, by its own function.
---@param model table
---@param s table      the strategy
---@param share table  with the sizes of its axes
---@return boolean admitted
---@return string? reason
function stated.admits(model, s, share)
  local given = model.architecture
  if not (given and given.admits) then return true end
  local layout = { strategy = s.name, sequence_parallel = share.sequence_parallel }
  for _, name in ipairs(s.axis_names) do layout[name] = math.max(share[name] or 1, 1) end
  local admitted, reason = given.admits(frozen.show(model), layout)
  local is_text = reason == nil or type(reason) == "string"
  if type(admitted) ~= "boolean" or not admitted and not is_text then
    check.fail("tperf.architecture '%s': 'admits' must return true, or false and a reason, got %s", given.name,
      check.show(type(admitted) == "boolean" and reason or admitted))
  end
  if admitted then return true end
  local words = {}
  for _, name in ipairs(s.axis_names) do
    words[#words + 1] = layout[name] > 1 and ("%s = %d"):format(name, layout[name]) or nil
  end
  return false, ("%s: architecture '%s' %s"):format(#words > 0 and table.concat(words, ", ") or "one GPU a stage",
    given.name, reason or "does not admit it")
end

--- The parameters that a model's architecture states; nil: none.
---@return number|nil total, number|nil active
function stated.parameters(model)
  local given = model.architecture
  if not (given and given.parameters) then return nil end
  local total, active = number_of(given, "parameters", model)
  return total, active or total
end

--- The FLOPs per token that a model's architecture states; nil: none.
---@return number|nil
function stated.flops_per_token(model, options)
  local given = model.architecture
  if not (given and given.flops_per_token) then return nil end
  return (number_of(given, "flops_per_token", model, options))
end

return stated
