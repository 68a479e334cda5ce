-- Rules of the code base: include and require directions, the core's dependencies, sizes of functions.
local program = require "program"

local FUNCTION_LINES <const> = 60

local function found(command)
  local list = {}
  for path in program.shell(command).out:gmatch "%S+" do list[#list + 1] = path end
  assert(#list > 5, command)
  return list
end

local c_files = found "find include src -name '*.[ch]' | sort"
local lua_files = found "find lua scripts -name '*.lua' | sort"

-- The lines of a file. Lua's long strings become blank lines, since they may hold other languages.
local function lines_of(path)
  local list, text = {}, program.slurp(path)
  if path:find "%.lua$" then
    text = text:gsub("%[(=*)%[(.-)%]%1%]", function(_, long) return (long:gsub("[^\n]", "")) end)
  end
  for line in text:gmatch "([^\n]*)\n" do list[#list + 1] = line end
  return list
end

-- Fails with the whole list of faults.
local function none(wrong) assert.equal("", table.concat(wrong, "\n")) end

-- What each folder of src may use of the others (docs/architecture.md: dependencies run one way).
local MAY_USE = {
  base = {},
  machine = { "base" },
  grid = { "base", "machine" },
  op = { "base", "machine", "grid" },
  price = { "base", "machine", "grid", "op" },
  plan = { "base", "machine", "grid", "op", "price" },
  schedule = { "base", "machine", "grid", "op", "price", "plan" },
  step = { "base", "machine", "grid", "op", "price", "plan", "schedule" },
  search = { "base", "machine", "grid", "op", "price", "plan" },
  event = { "base" },
  serve = { "base", "event" },
  io = { "base" },
  bind = { "base", "machine", "grid", "op", "price", "plan", "schedule", "step", "search", "serve", "io" },
  cli = { "base", "bind", "io" },
  door = { "base", "bind" },
  page = { "bind", "cli", "io" },
  tools = { "base", "event", "io", "plan", "serve" },
}
local CORE = {
  base = true, machine = true, grid = true, op = true, price = true, plan = true, schedule = true, step = true,
  search = true, event = true, serve = true,
}

local WORLDLY = { "printf", "fprintf", "puts", "fputs", "fopen", "open", "getenv", "exit", "abort", "time", "rand",
  "strtok" }

-- The folder that implements each public header.
local OWNER = {
  error = "base", heap = "base", pool = "base", record = "base", units = "base",
  collective = "machine", efficiency = "machine", system = "machine", rules = "machine",
  grid = "grid", op = "op", price = "price", workload = "plan", plan = "plan", inference = "plan", build = "plan",
  transformer = "plan",
  schedule = "schedule", step = "step", search = "search", event = "event", serve = "serve",
  ask = "door",
}

local function layer_of(path)
  local header = path:match "^include/tperf/(%w+)%.h$" or path:match "^tperf/(%w+)%.h$"
  if header then return OWNER[header] or error("no folder is known for the header " .. header) end
  return (path:match "^src/(%w+)/" or path:match "^(%w+)/")
end

local function may_use(layer, other)
  if layer == other then return true end
  for _, name in ipairs(MAY_USE[layer]) do
    if name == other then return true end
  end
  return false
end

-- The circles among files, found depth first along the path so far. uses: file -> list of the files that it uses.
local function circles(uses)
  local done, way, closed = {}, {}, {}
  local function visit(module)
    if way[module] then closed[#closed + 1] = table.concat(way, " -> ", way[module]) .. " -> " .. module end
    if done[module] or way[module] then return end
    way[#way + 1] = module
    way[module] = #way
    for _, name in ipairs(uses[module] or {}) do visit(name) end
    way[module], way[#way], done[module] = nil, nil, true
  end
  local modules = {}
  for module in pairs(uses) do modules[#modules + 1] = module end
  table.sort(modules)
  for _, module in ipairs(modules) do visit(module) end
  return closed
end

-- The objects of the program that runs this.
local build = io.popen("readlink -f " .. program.quote(program.absolute())):read("l"):match "^(.*)/"

-- The source of an object; nil: there is none any more, or it was generated.
local function source_of(object)
  local path = "src" .. object:sub(#build + 1):gsub("%.o$", ".c")
  local file = io.open(path)
  return file and file:close() and path
end

-- The files of a room, each with those whose functions and variables it uses, by the symbols of their objects.
local function uses_of(room)
  local owner, uses, wants = {}, {}, {}
  local command = ("find %s/%s -name '*.o' 2> /dev/null | xargs -r nm -A"):format(build, room)
  for object, kind, symbol in program.shell(command).out:gmatch "([^:\n]+):[^\n]- (%a) (%S+)\n" do
    local source = source_of(object)
    if source and ("TDRBC"):find(kind) then owner[symbol] = source end
    if source and kind == "U" then wants[#wants + 1] = { source, symbol } end
  end
  for _, want in ipairs(wants) do
    local source, other = want[1], owner[want[2]]
    uses[source] = uses[source] or {}
    if other and other ~= source then table.insert(uses[source], other) end
  end
  return uses
end

describe("the C files", function()
  it("include only files of folders below them", function()
    local wrong = {}
    for _, path in ipairs(c_files) do
      local layer = layer_of(path)
      for included in program.slurp(path):gmatch '#include "([^"]+)"' do
        if not may_use(layer, layer_of(included)) then wrong[#wrong + 1] = path .. " includes " .. included end
      end
    end
    none(wrong)
  end)

  -- src/cli has a circle still, of its limits, output and end.
  it("of a room use each other one way", function()
    local wrong = {}
    for room in pairs(MAY_USE) do
      if room ~= "cli" then table.move(circles(uses_of(room)), 1, 1, #wrong + 1, wrong) end
    end
    none(wrong)
  end)

  it("see Lua in src/bind and above it only, YAML in src/io only, SQLite there and in its binding", function()
    local wrong, lua = {}, { bind = true, cli = true, door = true, page = true }
    local compiler = "src/tools/embed.c" -- of the library's Lua
    for _, path in ipairs(c_files) do
      local text, layer = program.slurp(path), layer_of(path)
      local sees_lua = text:find "#include <l[ua][ux]%w*%.h>"
      if sees_lua and not lua[layer] and path ~= compiler then wrong[#wrong + 1] = path end
      if text:find "#include <yaml%.h>" and layer ~= "io" then wrong[#wrong + 1] = path end
      if text:find "#include <sqlite3%.h>" and path ~= "src/io/store.h" then wrong[#wrong + 1] = path end
    end
    none(wrong)
  end)

  it("of the core print nothing, open nothing and keep no globals", function()
    local wrong = {}
    for _, path in ipairs(c_files) do
      if CORE[layer_of(path)] and not path:find "/test/" then
        for number, line in ipairs(lines_of(path)) do
          local code = line:gsub("//.*$", ""):gsub('"[^"]*"', '""')
          for _, name in ipairs(WORLDLY) do
            if code:find("%f[%w_]" .. name .. "%s*%(") then
              wrong[#wrong + 1] = ("%s:%d calls %s"):format(path, number, name)
            end
          end
          local variable = code:find "^static [^()]*[=;]" or code:find "^%s+static "
          if variable and not code:find "^%s*static const " and not code:find "%*const " then
            wrong[#wrong + 1] = ("%s:%d keeps a variable: %s"):format(path, number, line)
          end
        end
      end
    end
    none(wrong)
  end)

  it("have functions of readable size", function()
    local wrong = {}
    for _, path in ipairs(c_files) do
      local lines, start = lines_of(path), nil
      for number, line in ipairs(lines) do -- a definition ends with a brace in the first column
        if line:find "^[%a].*[(,]" and not line:find ";$" and not start then start = number end
        if line:find "^%S.*;$" then start = nil end
        if line == "}" and start then
          local length = number - start + 1
          if length > FUNCTION_LINES then wrong[#wrong + 1] = ("%s:%d: %d lines"):format(path, start, length) end
          start = nil
        end
      end
    end
    none(wrong)
  end)
end)

-- The rooms of the library, bottom up; "" is its public face. A file requires only its own room and those below it,
-- wherever in the file it does so.
local FLOORS = { "core", "base", "input", "output", "describe", "import", "plot", "timeline", "question", "measured",
  "export", "report", "compat", "door", "", "cli", "page" }
local floor = {}
for i, room in ipairs(FLOORS) do floor[room] = i end

local function room_of(module) return module == "tperf" and "" or module:match "^tperf%.(%w+)" end

local library = {} -- module -> the modules that its file requires
for _, path in ipairs(lua_files) do
  local module = path:match "^lua/(tperf.*)%.lua$"
  if module then
    local required, text = {}, program.slurp(path):gsub("%-%-[^\n]*", "")
    for _, how in ipairs { "require%s*%(?", "lazy%.module%s*%(?", "= {" } do -- "= {": places for lazy.from
      for name in text:gmatch(how .. '%s*"(tperf[%w_.]*[%w_])"') do required[#required + 1] = name end
    end
    library[module:gsub("/init$", ""):gsub("/", ".")] = required
  end
end

describe("the Lua files", function()
  it("require only their own room or rooms below it", function()
    local wrong, seen = {}, 0
    for module, required in pairs(library) do
      local own = assert(floor[room_of(module)], module .. " lies in no room")
      for _, name in ipairs(required) do
        seen = seen + 1
        local other = floor[room_of(name)]
        if not other or other > own then wrong[#wrong + 1] = module .. " requires " .. name end
      end
    end
    assert.is_true(seen > 1000)
    none(wrong)
  end)

  it("have no circular requires", function() none(circles(library)) end)

  it("have functions of readable size", function()
    local wrong = {}
    for _, path in ipairs(lua_files) do
      local lines, open = lines_of(path), {}
      for number, line in ipairs(lines) do -- a function ends at its own indentation; closures are part of it
        local indent = #line:match "^ *"
        line = line:gsub('"[^"]*"', '""'):gsub("'[^']*'", "''"):gsub("%-%-.*$", "")
        if line:find "%f[%w]function%f[%W]" and not line:find "%f[%w]end%f[%W]" then
          open[#open + 1] = { indent = indent, number = number }
        end
        local last = open[#open]
        if last and last.number < number and indent == last.indent and line:find "^ *end%f[%W]" then
          local length = number - last.number + 1
          if length > FUNCTION_LINES then
            wrong[#wrong + 1] = ("%s:%d: %d lines"):format(path, last.number, length)
          end
          open[#open] = nil
        end
      end
      assert.equal(0, #open, path)
    end
    none(wrong)
  end)

  -- Strategies name their axes; others ask what an axis cuts. tp1 and tp2 are names of the published SUMMA layer, and
  -- files that read or write other stacks' files, or tables, use those stacks' axes. What explains axes to people names
  -- them, as do the lists of options that short helps have.
  it("name axes only in strategies", function()
    local tperf, names, wrong, seen = require "tperf", {}, {}, 0
    for _, s in ipairs(tperf.strategy.all()) do
      for _, name in ipairs(s.built_in and s.axis_names or {}) do names[name] = true end
    end
    names.shard = nil -- a word of products, too
    local foreign = { import = true, export = true, compat = true, measured = true }
    local summa = { ["lua/tperf/describe/arch/layer/attention.lua"] = true,
      ["lua/tperf/describe/arch/layer/gpt.lua"] = true, ["lua/tperf/cli/ask/from.lua"] = true,
      ["lua/tperf/cli/command/question/serve.lua"] = true }
    for _, path in ipairs(lua_files) do
      local inside = path:match "^lua/tperf/([%w_]+)"
      local names_axes = path:find "/describe/strategy/" or path:find "/cli/guide/" or summa[path]
      if inside and not foreign[inside] and not names_axes then
        seen = seen + 1
        for number, line in ipairs(lines_of(path)) do
          local code = line:gsub("^%s*%-%-.*", ""):gsub(" %-%- .*", ""):gsub("^  quick = {.*", "")
          for word in code:gmatch '["%.]([%a][%w]*)%f[^%w_]' do
            local quoted = code:find('"' .. word .. '"', 1, true) or code:find("[%w%])]%." .. word .. "%f[^%w_]")
            if names[word] and quoted then wrong[#wrong + 1] = ("%s:%d: %s"):format(path, number, line) end
          end
        end
      end
    end
    assert.is_true(seen > 150)
    none(wrong)
  end)
end)

