--- Links into the page (src/page/state.js): a view, and the options of its command by long name.
local check = require "tperf.base.check"
local core = require "tperf.core"
local roots = require "tperf.base.roots"
local commands = require "tperf.cli.commands"
local number = require "tperf.output.number"
local numbers = require "tperf.input.numbers"
local options = require "tperf.input.options"

local link = {}

-- command -> the view that answers it.
local VIEWS <const> = { search = "plan", infer = "compare", schedule = "schedules", serve = "serve",
  rl = "rl", run = "script" }

--- The commands that have a view.
---@return string[]
function link.commands() return check.names(VIEWS) end

local function escaped(text)
  return (text:gsub("[^%w%-_.~/:,=]", function(c) return ("%%%02X"):format(c:byte()) end))
end

--- The file: URL of a path; relative paths start at the shell's current folder.
---@param path string
---@return string
function link.file_url(path)
  if path:sub(1, 1) ~= "/" then path = (os.getenv "PWD" or "") .. "/" .. path:gsub("^%./", "") end
  return "file://" .. path:gsub("[^%w%-_.~/]", function(c) return ("%%%02X"):format(c:byte()) end)
end

local DIGITS <const> = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

local function base64url(bytes)
  return (bytes:gsub("..?.?", function(group)
    local a, b, c = group:byte(1, 3)
    local bits, out = a << 16 | (b or 0) << 8 | (c or 0), {}
    for i = 1, #group + 1 do
      local digit = bits >> 24 - 6 * i & 63
      out[i] = DIGITS:sub(digit + 1, digit + 1)
    end
    return table.concat(out)
  end))
end

-- Text as uncompressed DEFLATE: stored blocks of at most 65535 bytes (RFC 1951, 3.2.4).
local function stored(text)
  local out, first = {}, 1
  repeat
    local block = text:sub(first, first + 65534)
    first = first + #block
    out[#out + 1] = string.pack("<BI2I2", first > #text and 1 or 0, #block, ~#block & 0xFFFF) .. block
  until first > #text
  return table.concat(out)
end

local MOST_BYTES <const> = 1 << 20 -- per file in a link: browsers accept URLs of 2 MB

local function text_of(path)
  local file <close> = core.file.open(path, true)
  local text = file and core.file.rest(file, MOST_BYTES) or nil
  if not text then error(("cannot open %s"):format(check.show(path)), 0) end
  if #text > MOST_BYTES then error(("%s is too large for a link"):format(check.show(path)), 0) end
  return text
end

-- Spells an option's value as on the command line.
local function words_of(option, value)
  if option.kind == "pairs" then
    local parts = {}
    for _, name in ipairs(check.names(value)) do parts[#parts + 1] = name .. "=" .. number.text(value[name]) end
    return table.concat(parts, ",")
  end
  if option.kind == "integers" then return numbers.spelled(value) end
  if type(value) == "table" then
    local parts = {}
    for i, item in ipairs(value) do parts[i] = type(item) == "number" and number.text(item) or item end
    return table.concat(parts, ",")
  end
  if type(value) ~= "number" then return tostring(value) end
  local plain = option.kind == "integer" or option.kind == "number" or option.kind == "bytes"
  return number.text(value) .. (plain and "" or option.kind)
end

local SCRIPT <const> = "script.lua"

-- The file name under which the page keeps a pasted file, by form field.
local PASTED <const> = { model = "config.json", system = "system.yaml", script = SCRIPT }

-- The options of a command as one text, which the page splits at spaces; model: the one of its words that is left out.
local function spelled(name, words, model)
  local list, seen = {}, false
  for i = 2, #words do
    local word = words[i]
    if word == model and not seen then
      seen = true
    elseif word == "" or word:find "%s" then
      error(("the page's script view splits options at spaces, so it cannot have %s"):format(check.show(word)), 0)
    elseif word:find "%.ya?ml$" or word:find "%.json$" or word:find "%.csv$" then
      error(("the page's script view has one file, the model's, and not %s: `tperf %s` answers here")
        :format(check.show(word), name), 0)
    else
      list[#list + 1] = word
    end
  end
  return list[1] and table.concat(list, " ")
end

-- The script view asks a command about the model that a Lua file returns.
local function about_script(name, words, model)
  return { command = name, script = roots.last(model), arguments = spelled(name, words, model) },
    { [SCRIPT] = text_of(model) }
end

-- The fields of a form, and the texts of the files that they name.
local function fields_of(name, values, arguments)
  local fields, texts = {}, {}
  local function choose(field, value)
    local is_file = field == "script" or value:find "%.json$" or value:find "%.ya?ml$"
    if is_file then texts[PASTED[field]] = text_of(value) end
    fields[field] = is_file and PASTED[field] or value
  end
  for _, option in ipairs(options.of(commands.find(name))) do
    local value = values[option.long:gsub("-", "_")]
    if option.long == "system" and value then choose("system", value)
    elseif value ~= nil then fields[option.long] = words_of(option, value) end
  end
  if name == "schedule" then
    fields.names = table.concat(arguments, ",")
  elseif name == "run" then
    choose("script", arguments[1])
    fields.script = roots.last(arguments[1])
    if arguments[2] then fields.arguments = table.concat(arguments, " ", 2) end
  elseif arguments[1] then
    choose("model", arguments[1])
  end
  return fields, texts
end

-- The Compare view takes several systems, for training as for serving.
local function compare_serving(fields)
  fields["for"], fields.systems, fields.system = "serving", fields.system, nil
end

-- The form of schedules has a field for each time.
local function spread_times(fields)
  for name, per in pairs { times = "", ["times-per-stage"] = "stage" } do
    for pass, text in (fields[name] or ""):gmatch "(%a+)=([^,]+)" do fields[pass], fields.per = text, per end
    fields[name] = nil
  end
end

--- The commands that take a model, and so what a Lua file returns.
---@return string[]
function link.model_commands()
  local list = {}
  for _, name in ipairs(commands.names()) do
    local arguments = commands.find(name).arguments
    if arguments == "MODEL" or arguments == "[MODEL]" then list[#list + 1] = name end
  end
  return list
end

local function asks_script(name, arguments)
  if type(arguments[1]) ~= "string" or not arguments[1]:find "%.lua$" then return false end
  for _, one in ipairs(link.model_commands()) do
    if one == name then return true end
  end
  return false
end

--- "#plan?model=…": the view of a command with its question; nil and a message if it has none.
---@param words string[]  a command's name and arguments; empty: the page without a question
---@return string? fragment
---@return string? message
function link.fragment(words)
  local name = words[1]
  if not name then return "" end
  local command = commands.find(name)
  local values, arguments, view = nil, nil, VIEWS[name]
  if command then values, arguments = options.parse(command, words, 2) end
  local of_script = values and asks_script(name, arguments)
  if not view and not of_script then
    return nil, ("the page has no view for '%s'%s; it has: %s"):format(name, check.suggest(name, link.commands()),
      table.concat(link.commands(), ", "))
  end
  if not values then return nil, arguments end
  if name == "run" and not arguments[1] then return nil, "SCRIPT is missing" end
  local fields, texts
  if of_script then
    view, fields, texts = VIEWS.run, about_script(name, words, arguments[1])
  else
    fields, texts = fields_of(name, values, arguments)
    if name == "infer" then compare_serving(fields) else spread_times(fields) end
  end
  local parts = {}
  for _, field in ipairs(check.names(fields)) do parts[#parts + 1] = field .. "=" .. escaped(fields[field]) end
  for _, file in ipairs(check.names(texts)) do
    parts[#parts + 1] = "file." .. file .. "=" .. base64url(stored(texts[file]))
  end
  return "#" .. view .. (parts[1] and "?" .. table.concat(parts, "&") or "")
end

return link
