--- What becomes of each option of a launch file: it is read, something is assumed in its place, it is ignored for a
-- reason that its stack's table gives, or it is refused.
local check = require "tperf.base.check"
local tables = require "tperf.import.launch.tables"

local understood = {}

local UNKNOWN <const>, UNREAD <const> = "not known, and it may matter", "known, but not in the prediction"
local FORM <const> = "a value that is not read"

-- The option of a table from which a name differs by only one or two letters; nil if there is none.
local function meant(name, t)
  local plain, near = tables.plain(name), nil
  for other, row in pairs(t.by_name) do
    if math.abs(#other - #plain) <= 2 and #plain > 8 and not row.harmless then
      local first, last = 0, 0
      while first < #plain and plain:byte(first + 1) == other:byte(first + 1) do first = first + 1 end
      while last < #plain - first and plain:byte(-last - 1) == other:byte(-last - 1) do last = last + 1 end
      local close = first + last >= math.max(#plain, #other) - 2
      if close and (not near or row.option < near) then near = row.option end
    end
  end
  return near
end

--- An entry for something that a launch says and that is in no prediction.
function understood.unread(option, value, place)
  return { option = option, value = value, place = place, why = UNREAD }
end

-- Whether an option that another one (row.with) gives its effect has none, because that one is absent or off.
local function idle(s, row)
  local value = row.with and s:get(row.with)
  return row.with ~= nil and (value == nil or value == false or value == 0 or value == "none"
    or type(value) == "table" and next(value) == nil)
end

-- The list that an option belongs to, and why.
local function fate(s, entry)
  local row = entry.row
  if row.harmless then return "ignored", row.harmless end
  if entry.read then return "read" end
  if entry.value == row.default then return "ignored", "it is the default" end
  if row.assumed then return "assumed", row.assumed end
  if idle(s, row) then return "ignored", ("without %s it does nothing"):format(row.with) end
  return "refused", UNREAD
end

--- Sorts the options of settings, once their stack's module has read them.
---@param all table[]    of settings.new
---@return table record  { read, assumed, ignored }: lists of { option, value, why, place }
---@return table[] refused  likewise, with `near`, the option that may be meant
function understood.of(all)
  local lists = { read = {}, assumed = {}, ignored = {}, refused = {} }
  for _, s in ipairs(all) do
    for _, entry in ipairs(s.list) do
      if s.by_option[entry.option] == entry then -- else given again later
        local list, why = fate(s, entry)
        local value = type(entry.value) == "table" and entry.value.expression or entry.value
        table.insert(lists[list], { option = entry.option, value = value, why = why, place = entry.place })
      end
    end
    for _, one in ipairs(s.open) do
      table.insert(lists.ignored, { option = one.row.option, value = one.value, place = one.place,
        why = one.row.harmless or "what it names is not in the file" })
    end
    for _, one in ipairs(s.unread) do
      table.insert(lists.refused, { option = one.option, value = one.value, place = one.place, why = FORM })
    end
    for _, one in ipairs(s.unknown) do
      table.insert(lists.refused, { option = one.option, value = one.value, place = one.place,
        why = UNKNOWN, near = meant(one.option, s.table) })
    end
  end
  local refused = lists.refused
  lists.refused = nil
  return lists, refused
end

-- The name of an option, or of a variable ($NAME), as --ignore has it.
local function plain(name) return tables.plain((name:gsub("^%$", ""))) end

local function plain_names(list)
  local names = {}
  for _, name in ipairs(list or {}) do
    if type(name) ~= "string" then
      check.fail("tperf.import.arguments: 'ignore' has names, got %s", check.show(name))
    end
    names[plain(name)] = name
  end
  return names
end

local function shown(one)
  local near = one.near and (" (did you mean '%s'?)"):format(one.near) or ""
  local value = one.value
  if type(value) == "table" then value = #value .. " values" end
  local text = (value == true or value == "true" or value == nil) and "" or " " .. tostring(value)
  return ("%s%s%s"):format(one.option, #text < 60 and text or text:sub(1, 56) .. "…", near)
end

-- Raises an error that lists refused options by why they are.
local function raise(list)
  local groups, names = {}, {}
  for i, one in ipairs(list) do
    groups[one.why] = groups[one.why] or {}
    table.insert(groups[one.why], shown(one))
    names[i] = one.option:gsub("^[-$]+", "")
  end
  local parts = {}
  for _, why in ipairs { UNKNOWN, UNREAD, FORM } do
    if groups[why] then parts[#parts + 1] = ("%s: %s"):format(why, table.concat(groups[why], ", ")) end
  end
  check.fail("%s: %s; --ignore %s leaves %s out", list[1].place, table.concat(parts, "; "), table.concat(names, ","),
    list[2] and "them" or "it")
end

--- Raises an error for the options of a launch that are neither understood nor among `ignore`; those in `ignore` are
--- moved to launch.understood.ignored.
---@param launch table
---@param ignore string[]?  names, with or without dashes
---@return string[] left_out  the options that `ignore` leaves out
function understood.refuse(launch, ignore)
  local names, rest, seen, left_out = plain_names(ignore), {}, {}, {}
  for _, one in ipairs(launch.refused or {}) do
    local own = plain(one.option)
    if names[own] then
      left_out[#left_out + 1] = shown { option = one.option, value = one.value }
    elseif not seen[own] then
      rest[#rest + 1] = one
    end
    seen[own] = true
  end
  if rest[1] then raise(rest) end
  for own, name in pairs(names) do
    if not seen[own] then check.fail("--ignore %s: the launch has no such option that is not understood", name) end
  end
  return left_out
end

return understood
