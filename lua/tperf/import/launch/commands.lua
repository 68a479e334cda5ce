--- Finds the command of a script that is the launch.
local check = require "tperf.base.check"
local roots = require "tperf.base.roots"
local marker = require "tperf.import.launch.shell.marker"
local tables = require "tperf.import.launch.tables"

local commands = {}

-- If the words from i on match a pattern of one or more words, returns the index of the last; else nil.
local function fits_at(words, i, pattern)
  for one in pattern:gmatch "%S+" do
    local name = words[i] and roots.last(words[i])
    if not name or not name:find(one) then return nil end
    i = i + 1
  end
  return i - 1
end

--- The index of the last word of the table's program in a command (the first pattern that matches), or nil.
function commands.program(words, t)
  for _, pattern in ipairs(t.programs or {}) do
    for i = 1, #words do
      local last = fits_at(words, i, pattern)
      if last then return last end
    end
  end
end

-- The number of a command's options that a table has.
local function known_options(words, t)
  local count = 0
  for _, word in ipairs(words) do
    local name = word:match "^(%-%-?[%a][^=%s]*)" or word:match "^%+*([%a][%w_.]*)="
    if name and t.by_name[tables.plain(name)] then count = count + 1 end
  end
  return count
end

local LEAST <const> = 3 -- known options that make a command a candidate if its program is unknown

local function candidates(list, t)
  local found, others = {}, {}
  for _, command in ipairs(list) do
    local at = commands.program(command.words, t)
    local count = known_options(command.words, t)
    if at then
      found[#found + 1] = { command = command, at = at, count = count }
    elseif count >= LEAST then
      others[#others + 1] = { command = command, at = 0, count = count }
    end
  end
  return #found > 0 and found or others
end

local ORDINALS <const> = { first = 1, second = 2, third = 3, fourth = 4, fifth = 5, sixth = 6, seventh = 7, eighth = 8,
  ninth = 9, tenth = 10, last = -1 }

local function labelled(found, wanted)
  local word = wanted:lower():match "^(%a+)%s+command$" or wanted:lower()
  local number = ORDINALS[word] or math.tointeger(tonumber(wanted))
  if number then return found[number < 0 and #found or number] end
  local match
  for _, one in ipairs(found) do
    local label = " " .. one.command.label:lower():gsub("[^%w]+", " ") .. " "
    if label:find(" " .. wanted:lower():gsub("[^%w]+", " ") .. " ", 1, true) then
      if match then return nil end
      match = one
    end
  end
  return match
end

local function described(found)
  local lines = {}
  for i, one in ipairs(found) do
    local label = one.command.label:match "^.*\n(.*)$" or one.command.label
    lines[i] = ("%d: line %d%s"):format(i, one.command.line, label ~= "" and " (" .. label .. ")" or "")
  end
  return table.concat(lines, "; ")
end

-- Options that say where a copy of a server listens, or which node of a launch it is.
local PLACES <const> = { ["--port"] = true, ["--host"] = true, ["--served-model-name"] = true, ["--node-rank"] = true,
  ["--node_rank"] = true, ["--api-key"] = true, ["--nccl-port"] = true }

local function without_place(words)
  local list, i = {}, 1
  while i <= #words do
    local name = words[i]:match "^(%-%-[^=]*)" or ""
    if not PLACES[name] then
      list[#list + 1] = words[i]
    elseif words[i] == name then
      i = i + 1 -- its value
    end
    i = i + 1
  end
  return table.concat(list, "\0")
end

local function same(a, b) return without_place(a.command.words) == without_place(b.command.words) end

--- The launch among a script's commands: { command, at }, with `at` the index of its program's word (0 if unknown); nil
--- if there is none.
---@param list table[]     of shell.commands
---@param t table          the stack's table
---@param wanted string?   "first command", "2", or words of the comment above it
---@param where string
---@param note fun(text: string)?  of a manifest, whose containers are servers beside one another: says that the first
---  one is taken
function commands.pick(list, t, wanted, where, note)
  local found = candidates(list, t)
  if #found == 0 then return nil end
  if wanted then
    return labelled(found, tostring(wanted)) or check.fail(
      "%s: no one command is called %s; there are %s", where, check.show(wanted), described(found))
  end
  for i = #found, 2, -1 do
    if same(found[i], found[1]) and found[i].command.doubt == found[1].command.doubt then table.remove(found, i) end
  end
  if #found > 1 and note then
    note(("of %d servers the first one is predicted (--set command=2 asks for the second): %s"):format(#found,
      described(found)))
  elseif #found > 1 then
    check.fail("%s starts %d commands; say which with 'command' (--set command=2): %s", where, #found, described(found))
  end
  if found[1].command.doubt then
    check.fail("%s:%d: whether this is started depends on %s, which the file does not say: --set %s=…", where,
      found[1].command.line, found[1].command.doubt, found[1].command.doubt)
  end
  return found[1]
end

--- The words as shown in messages.
function commands.shown(words) return marker.shown(table.concat(words, " ")) end

-- Whether a command has an option of a table that the table it extends does not have.
local function has_own(words, t)
  local base = tables.load(t.extends)
  for _, word in ipairs(words) do
    local name = word:match "^(%-%-?[%a][^=%s]*)"
    name = name and tables.plain(name)
    if name and t.by_name[name] and not base.by_name[name] then return true end
  end
  return false
end

--- How well a table fits a script: by whether one of its programs is started, then by the number of known options.
function commands.fit(list, t)
  local best = 0
  for _, one in ipairs(candidates(list, t)) do
    local less = t.extends and not has_own(one.command.words, t) and 1 or 0
    best = math.max(best, one.count - less + (one.at > 0 and 1000 or 0))
  end
  return best
end

return commands
