--- What became of the fields of config.json files: read, assumed where the file says nothing, or ignored, each for a
--- reason; and the fields that somebody asks to ignore although they are not understood.
local check = require "tperf.base.check"

local account = {}

local FORCED <const> = "not in the prediction: --ignore"

local forced = {} -- names of --ignore: as fields -> as given
local tensors = {} -- path -> a function that counts a checkpoint's tensors
local records = {} -- path -> { read, assumed, ignored }
local subjects = setmetatable({}, { __mode = "k" }) -- of account.assume -> its model's name
local named, generation = {}, 0 -- what names of models made assume since account.ignore; how often that changed either

local function text_of(names) return table.concat(check.names(names), " ") end

--- Ignores fields of these names in the files that are read from now on, whatever they mean.
---@param names string[]?  "expert_interval"; "model.expert_interval" is the same
function account.ignore(names)
  local fields = {}
  for _, name in ipairs(names or {}) do fields[name:gsub("^model%.", "")] = name end
  if #named > 0 or text_of(fields) ~= text_of(forced) then generation = generation + 1 end
  forced, named = fields, {}
end

--- A text that differs for other fields to be ignored: what was read before is read anew.
---@return string
function account.key() return tostring(generation) end

--- Raises if none of these files had a field that was to be ignored.
---@param paths string[]
function account.check(paths)
  local met = {}
  for _, path in ipairs(paths) do
    for _, one in ipairs(records[path] and records[path].ignored or {}) do
      if one.forced then met[one.name:match "[^.]*$"] = true end
    end
  end
  for _, name in ipairs(check.names(forced)) do
    if not met[name] then
      check.fail("--ignore %s: no config.json of a model that was read has such a field", forced[name])
    end
  end
end

-- The maps in a file that may describe a text model.
local NESTED <const> = { "thinker_config", "text_config", "llm_config", "language_config" }

local function copy_of(fields)
  local copy = setmetatable({}, getmetatable(fields))
  for name, value in next, fields do copy[name] = value end
  return copy
end

--- A file's fields without those that are to be ignored, and the names of these.
---@param fields table
---@return table fields, string[] names
function account.without(fields)
  if not next(forced) then return fields, {} end
  local left, names = copy_of(fields), {}
  for name in next, forced do
    if left[name] ~= nil then left[name], names[#names + 1] = nil, name end
  end
  for _, key in ipairs(NESTED) do
    if type(left[key]) == "table" then
      local inner, gone = account.without(left[key])
      left[key] = inner
      for _, name in ipairs(gone) do names[#names + 1] = key .. "." .. name end
    end
  end
  table.sort(names)
  return left, names
end

--- Notes what became of a file's fields.
---@param path string
---@param record table    { read = names, assumed = { { name, value, why } … }, ignored = { { name, why } … } }
---@param names string[]  those of account.without
function account.note(path, record, names)
  for _, name in ipairs(names) do table.insert(record.ignored, { name = name, why = FORCED, forced = true }) end
  records[path] = record
end

--- Keeps how to count the tensors of the checkpoint that a file describes.
---@param path string
---@param count (fun(m: table): table[]?, table, string?)?  the rows of hf/stored/tensors.lua, the rules of sizes, and
---   what is not understood
function account.keep(path, count) tensors[path] = count end

--- Counts the tensors of the checkpoint that a model was read from; nil: no file of such says how it is stored. Of an
--- architecture's there are only the rules.
---@param m table  a model
---@return table[]? rows, table? rules, string? fault
function account.tensors(m)
  local count = m.source and tensors[m.source]
  if count then return count(m) end
end

--- Notes what a model that is called `of` made assume.
function account.assume(of, name, value, why)
  local one = { name = name, value = value, why = why }
  named[#named + 1], subjects[one] = one, of
end

--- What models of this name made assume, each once.
---@param of string
---@return table[]
function account.assumed(of)
  local list, seen = {}, {}
  for _, one in ipairs(named) do
    if subjects[one] == of and not seen[one.name] then list[#list + 1], seen[one.name] = one, true end
  end
  return list
end

--- What names of models made assume since the last account.ignore.
---@return table[]
function account.named() return named end

--- What became of the fields of the file at this path; nil: it is no config.json that was read.
---@param path string
---@return table?
function account.of(path) return records[path] end

return account
