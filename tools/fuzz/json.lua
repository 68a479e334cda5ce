--- Fuzzes readers of JSON: values written in any way that JSON allows must read back unchanged; files of models,
--- systems and software with mistakes must be answered or refused at the caller's line.
local core = require "tperf.core"
local encode = require "tperf.output.json".encode
local program = require "program" -- spec/program.lua
local tperf = require "tperf"
local wrong = require "fuzz.wrong"

local json = {}

local SIMPLE <const> = { ['"'] = '\\"', ["\\"] = "\\\\", ["/"] = "\\/", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n",
  ["\r"] = "\\r", ["\t"] = "\\t" }
local CHARACTERS <const> = { 1, 9, 10, 13, 31, 32, 34, 39, 47, 48, 58, 65, 92, 122, 0xE9, 0x7FF, 0x800, 0x20AC, 0xD7FF,
  0xE000, 0xFFFD, 0x10000, 0x1F600, 0x10FFFF }
local NUMBERS <const> = { "0", "-0", "1", "-17", "1.5", "-0.25", "1e5", "1E+5", "2.5e-3", "9007199254740993",
  "9223372036854775807", "-9223372036854775808", "9223372036854775808", "12345678901234567890123", "1e308", "5e-324",
  "0.1000000000000000055511151231257827", "1e-400", "1E400" }

local function escaped(code)
  if code < 0x10000 then return ("\\u%04x"):format(code) end
  code = code - 0x10000
  return ("\\u%04X\\u%04x"):format(0xD800 | code >> 10, 0xDC00 | code & 0x3FF)
end

-- A random string, and one way to write it.
local function text_of(random)
  local value, written = {}, {}
  for i = 1, random:upto(6) - 1 do
    local code = random:once_in(2) and random:choice(CHARACTERS) or random:upto(94) + 32
    local c = utf8.char(code)
    value[i] = c
    local simple = SIMPLE[c]
    if code < 32 or code == 34 or code == 92 or random:once_in(4) then
      written[i] = simple and not random:once_in(3) and simple or escaped(code)
    else
      written[i] = c
    end
  end
  return table.concat(value), '"' .. table.concat(written) .. '"'
end

local function blank(random) return random:choice { "", "", "", " ", "\n", "\r\n", "\t", " \n  " } end

local value_of

local function items(random, depth)
  local value, written = {}, {}
  for i = 1, random:upto(5) - 1 do
    value[i], written[i] = value_of(random, depth)
    if value[i] == nil then value[i] = false; written[i] = "false" end
    written[i] = blank(random) .. written[i] .. blank(random)
  end
  return value, "[" .. (written[1] and table.concat(written, ",") or blank(random)) .. "]"
end

-- The colon is on its key's line: YAML accepts no other place, and no JSON writer uses one.
local function members(random, depth)
  local value, written, seen = {}, {}, {}
  for i = 1, random:upto(5) - 1 do
    local key, quoted = text_of(random)
    if not seen[key] then
      local text
      seen[key] = true
      value[key], text = value_of(random, depth)
      local colon = random:choice { "", " ", "\t" } .. ":"
      written[#written + 1] = blank(random) .. quoted .. colon .. blank(random) .. text .. blank(random)
    end
    if i > 4 then break end
  end
  return value, "{" .. (written[1] and table.concat(written, ",") or blank(random)) .. "}"
end

-- A random value and one way to write it; null is nil.
function value_of(random, depth)
  local kind = random:upto(depth > 0 and 7 or 4)
  if kind == 1 then return text_of(random) end
  if kind == 2 then
    local number = random:choice(NUMBERS)
    return tonumber(number), number
  end
  if kind == 3 then
    local value = random:once_in(2)
    return value, tostring(value)
  end
  if kind == 4 then return nil, "null" end
  return (kind == 5 and items or members)(random, depth - 1)
end

-- No line outside the braces starts with a tab, which YAML forbids as indentation.
local function document(random)
  local value, written = (random:once_in(2) and items or members)(random, 4)
  local before, after = random:choice { "", " ", "\r\n" }, random:choice { "", "\n", " \r\n" }
  return value, (random:once_in(4) and "\xEF\xBB\xBF" or "") .. before .. written .. after
end

local function same(a, b, kinds)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b and (not kinds or math.type(a) == math.type(b)) end
  for key, value in next, a do
    if not same(value, b[key], kinds) then return false end
  end
  for key in next, b do
    if a[key] == nil then return false end
  end
  return true
end

local function check_text(value, text)
  local read, message = core.yaml(text, "f")
  if text:find("1E400", 1, true) then
    assert(read == nil and message:find "1E400 is beyond" or not message)
    return
  end
  assert(same(value, read, true), "another value came back: " .. tostring(message))
  local again = assert(core.yaml(encode(read), "f"))
  assert(same(read, again, false), "what report.json writes reads otherwise")
end

local function check_broken(text)
  local read, message = core.yaml(text, "f")
  assert(read ~= nil or message:find "^f:%d+:%d+: .", message)
end

-- --- files ---

local readers = { models = tperf.model, systems = tperf.system, software = tperf.software }
local files

local function list_files()
  local list = {}
  for _, pattern in ipairs { "spec/data/hf/*.json", "models/*.yaml", "systems/*.yaml", "software/*.yaml" } do
    for path in program.shell("ls " .. pattern).out:gmatch "%S+" do
      list[#list + 1] = { text = program.slurp(path), kind = path:match "^%w+", extension = path:match "%.%w+$" }
    end
  end
  return list
end

local function check_file(random, folder)
  files = files or list_files()
  local file = random:choice(files)
  local path = folder .. "/config" .. file.extension
  local text = random:spoil(file.text)
  program.write(path, text)
  wrong.input(text)
  wrong.attempt(readers[file.kind] or tperf.model, path)
end

--- One case.
---@param random table
---@param folder string  where files may be written
function json.step(random, folder)
  local kind = random:upto(4)
  if kind == 1 then return check_file(random, folder) end
  local value, text = document(random)
  if kind == 2 then text = random:spoil(text) end
  wrong.input(text)
  if kind == 2 then check_broken(text) else check_text(value, text) end
end

return json
