--- The files of a launch: read up to a size limit, classified by name and content.
local check = require "tperf.base.check"
local core = require "tperf.core"
local roots = require "tperf.base.roots"
local toml = require "tperf.input.toml"

local files = {}

local MAX_BYTES <const> = 4 << 20

local KINDS <const> = { sh = "shell", slurm = "shell", sbatch = "shell", bash = "shell", conf = "shell", env = "shell",
  toml = "toml", yaml = "tree", yml = "tree", json = "tree", py = "python" }

-- given: the user named it, who may give a pipe.
local function read(path, given)
  local file, message = core.file.open(path, given)
  if not file then return nil, message end
  local text, problem = core.file.rest(file, MAX_BYTES)
  file:close()
  if not text then return nil, ("%s: %s"):format(path, problem) end
  if #text > MAX_BYTES then return nil, ("%s: larger than %d MiB"):format(path, MAX_BYTES >> 20) end
  return (text:gsub("[\1\2\3]", ""):gsub("\r\n", "\n"))
end

local function kind_of(path, text)
  local kind = KINDS[path:match "%.(%w+)$" or ""]
  if kind then return kind end
  if text:find "^%s*{" then return "tree" end
  return "shell"
end

--- Opens a file: { path, name, folder, text, kind }. Raises if it cannot be read.
---@param path string|table  or { name =, text = }
function files.open(path)
  local text, message
  if type(path) == "table" then
    if type(path.name) ~= "string" or type(path.text) ~= "string" then
      check.fail "tperf.import.launch: a file in memory is { name = …, text = … }"
    end
    for _, name in ipairs(check.names(path)) do
      if name ~= "name" and name ~= "text" then
        check.fail("tperf.import.launch: a file in memory has a name and a text: unknown field %s", check.show(name))
      end
    end
    path, text = path.name, path.text:gsub("[\1\2\3]", "")
  else
    text, message = read(path, true)
    if not text then check.fail("%s", message) end
  end
  return { path = path, name = roots.last(path), folder = path:match "^(.*)/" or ".", text = text,
    kind = kind_of(path, text) }
end

--- The text of a file beside a script, by the script's name for it; nil if it does not exist, lies elsewhere or is not
--- a regular file (a pipe would block).
function files.beside(folder, name)
  name = name:gsub("^%./", "")
  if name == "" or name:find "^[/~]" or name:find "[%c*?]" or name:find("\1", 1, true) then return nil end
  local path = folder .. "/" .. name
  return core.file.is_regular(path) and read(path) or nil
end

--- As files.beside, also from the folders above: where a repository's examples are started.
function files.above(folder, name)
  local text = files.beside(folder, name)
  for _ = 1, 8 do
    if text or not folder:find("/", 1, true) then return text end
    folder = folder:match "^(.*)/"
    text = folder ~= "" and files.beside(folder, name) or nil
  end
  return text
end

-- YAML loaders take the last of two equal keys, but the reader refuses them. Blanks the first one and what is below it.
local function without_first(text, line)
  local lines, at = {}, 0
  local indent
  for one in (text .. "\n"):gmatch "(.-)\n" do
    at = at + 1
    local own = #one:match "^ *"
    if at == line then
      indent = own
      one = ""
    elseif indent and at > line and one:find "%S" then
      if own > indent then one = "" else indent = nil end
    end
    lines[#lines + 1] = one
  end
  return table.concat(lines, "\n")
end

--- The content of a YAML or JSON text, and a function that locates a path. Of equal keys the last one counts.
---@return table content
---@return fun(path: string): string
---@return fun(path: string): boolean null
function files.tree(text, name)
  local content, positions
  for _ = 1, 20 do
    content, positions = core.yaml(text, name)
    local line = content == nil and positions:match "duplicate key .* %(first on line (%d+)%)"
    if not line then break end
    text = without_first(text, tonumber(line))
  end
  if content == nil then check.fail("%s", positions) end
  if type(content) ~= "table" then check.fail("%s: a map of settings is needed", name) end
  local function at(path)
    local place = positions[path]
    return place and ("%s:%d"):format(name, place[1]) or name
  end
  local function null(path)
    if not positions[path] then return false end
    local value = content
    for key in path:gmatch "[^.]+" do value = type(value) == "table" and value[key] or nil end
    return value == nil
  end
  return content, at, null
end

--- The content of a TOML text; see files.tree.
function files.toml(text, name)
  local content, positions = toml(text, name)
  if not content then check.fail("%s", positions) end
  local starts = { 1 } -- of the lines
  for after in text:gmatch "\n()" do starts[#starts + 1] = after end
  return content, function(path)
    local offset = positions[path]
    if not offset then return name end
    local low, high = 1, #starts
    while low < high do
      local middle = (low + high + 1) // 2
      if starts[middle] <= offset then low = middle else high = middle - 1 end
    end
    return ("%s:%d"):format(name, low)
  end
end

return files
