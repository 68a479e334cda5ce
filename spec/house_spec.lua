-- The order of the house: who may include whom, what the core may touch, when a file or a function is two.
local program = require "program"

local C_LINES, LUA_LINES, FUNCTION_LINES = 500, 300, 60

local function found(command)
  local list = {}
  for path in program.shell(command).out:gmatch "%S+" do list[#list + 1] = path end
  assert(#list > 5, command)
  return list
end

local c_files = found "find include src -name '*.[ch]' | sort"
local lua_files = found "find lua scripts -name '*.lua' | sort"

-- The lines of a file; those of Lua's long strings are blank, for they may hold other languages.
local function lines_of(path)
  local list, text = {}, program.slurp(path)
  if path:find "%.lua$" then
    text = text:gsub("%[(=*)%[(.-)%]%1%]", function(_, long) return (long:gsub("[^\n]", "")) end)
  end
  for line in text:gmatch "([^\n]*)\n" do list[#list + 1] = line end
  return list
end

-- Fails with all that is wrong at once.
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
  page = { "bind", "cli", "io" },
  tools = { "base", "event", "io", "serve" },
}
local CORE = {
  base = true, machine = true, grid = true, op = true, price = true, plan = true, schedule = true, step = true,
  search = true, event = true, serve = true,
}

local WORLDLY = { "printf", "fprintf", "puts", "fputs", "fopen", "open", "getenv", "exit", "abort", "time", "rand",
  "strtok" }

-- The folder that implements each public header.
local OWNER = {
  error = "base", heap = "base", pool = "base", sha256 = "base", units = "base",
  collective = "machine", efficiency = "machine", system = "machine", rules = "machine",
  grid = "grid", op = "op", price = "price", network = "plan", plan = "plan", inference = "plan", schedule = "schedule",
  step = "step", search = "search", event = "event", serve = "serve",
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

describe("the C files", function()
  it("include what lies below them only", function()
    local wrong = {}
    for _, path in ipairs(c_files) do
      local layer = layer_of(path)
      for included in program.slurp(path):gmatch '#include "([^"]+)"' do
        if not may_use(layer, layer_of(included)) then wrong[#wrong + 1] = path .. " includes " .. included end
      end
    end
    none(wrong)
  end)

  it("see Lua in src/bind, src/cli and src/page only, YAML in src/io only, SQLite there and in its binding", function()
    local wrong, lua = {}, { bind = true, cli = true, page = true }
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
      if CORE[layer_of(path)] then
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

  it("are of a size to be read", function()
    local wrong = {}
    for _, path in ipairs(c_files) do
      local lines, start = lines_of(path), nil
      if #lines > C_LINES then wrong[#wrong + 1] = ("%s has %d lines"):format(path, #lines) end
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

-- Of the library, what describes (docs/architecture.md: questions use it, not the other way round) and what asks.
local DESCRIBES = { "arch/", "strategy/", "schedule/", "model%.lua$", "system%.lua$", "rules%.lua$", "op%.lua$",
  "block%.lua$", "check%.lua$" }
local ASKS = { search = true, search_inference = true, train = true, infer = true, sweep = true, problem = true,
  space = true, shortage = true, layer = true, serving = true, cost = true, calibrate = true, validate = true,
  measured = true, serve = true }

local function describes(path)
  for _, pattern in ipairs(DESCRIBES) do
    if path:find("^lua/tperf/" .. pattern) then return true end
  end
  return false
end

describe("the Lua files", function()
  it("that describe models and machines require no question", function()
    local wrong, seen = {}, 0
    for _, path in ipairs(lua_files) do
      if describes(path) then
        seen = seen + 1
        for module in program.slurp(path):gmatch 'require%s*%(?%s*"tperf%.(%w+)' do
          -- tperf.schedule takes the arguments of tperf.train for the times of its passes
          local shared = path == "lua/tperf/describe/schedule/init.lua" and module == "train"
          if ASKS[module] and not shared then wrong[#wrong + 1] = path .. " requires " .. module end
        end
      end
    end
    assert.is_true(seen > 30)
    none(wrong)
  end)

  it("are of a size to be read", function()
    local wrong = {}
    for _, path in ipairs(lua_files) do
      local lines, open = lines_of(path), {}
      if #lines > LUA_LINES then wrong[#wrong + 1] = ("%s has %d lines"):format(path, #lines) end
      for number, line in ipairs(lines) do -- a function ends at its own indentation; inner ones count for themselves
        local indent = #line:match "^ *"
        line = line:gsub('"[^"]*"', '""'):gsub("'[^']*'", "''"):gsub("%-%-.*$", "")
        if line:find "%f[%w]function%f[%W]" and not line:find "%f[%w]end%f[%W]" then
          open[#open + 1] = { indent = indent, number = number, inner = 0 }
        end
        local last = open[#open]
        if last and last.number < number and indent == last.indent and line:find "^ *end%f[%W]" then
          local length = number - last.number + 1
          if length - last.inner > FUNCTION_LINES then
            wrong[#wrong + 1] = ("%s:%d: %d lines"):format(path, last.number, length - last.inner)
          end
          open[#open] = nil
          if open[#open] then open[#open].inner = open[#open].inner + length end
        end
      end
      assert.equal(0, #open, path)
    end
    none(wrong)
  end)

  -- Strategies name their axes; others ask what an axis cuts. tp1 and tp2 are words of the published SUMMA layer, and
  -- what reads or writes other stacks' files, or tables, speaks of these stacks' axes.
  it("know no axis by its name but in strategies", function()
    local tperf, names, wrong, seen = require "tperf", {}, {}, 0
    for _, s in ipairs(tperf.strategy.all()) do
      for _, name in ipairs(s.built_in and s.axis_names or {}) do names[name] = true end
    end
    names.shard = nil -- a word of products, too
    local foreign = { import = true, export = true, compat = true, measured = true, strategy = true }
    local summa = { ["lua/tperf/describe/arch/layer/attention.lua"] = true, ["lua/tperf/describe/arch/layer/gpt.lua"] = true,
      ["lua/tperf/cli/ask/from.lua"] = true, ["lua/tperf/cli/command/question/serve.lua"] = true }
    for _, path in ipairs(lua_files) do
      local inside = path:match "^lua/tperf/([%w_]+)"
      if inside and not foreign[inside] and not summa[path] then
        seen = seen + 1
        for number, line in ipairs(lines_of(path)) do
          local code = line:gsub("^%s*%-%-.*", ""):gsub(" %-%- .*", "")
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

  it("require what lies below them only", function()
    -- Reports read results: the questions and what they ask do not know them. The writers of files are anybody's, and
    -- so is the style of pages. A web page stands beside the command line, whose options its forms are.
    local anybody = { ["tperf.report.number"] = true, ["tperf.report.output"] = true, ["tperf.report.json"] = true,
      ["tperf.report.sheet"] = true, ["tperf.report.hover"] = true }
    local wrong = {}
    for _, path in ipairs(lua_files) do
      local own = path:match "^lua/tperf/(%w+)/"
      for module in program.slurp(path):gmatch 'require%s*%(?%s*"(tperf%.[%w_.]+)"' do
        local part = module:match "^tperf%.(%w+)"
        local above = part == "cli" or part == "report" or part == "compat"
        local inside = path:find "^lua/tperf/init%.lua$" or path:find "^scripts/" or own == "cli" or own == part
          or own == "plot" or own == "page"
        -- tperf.args reads the options of scripts as the command line reads its own
        local shared = anybody[module] or path == "lua/tperf/base/args.lua" and module == "tperf.cli.options"
        if above and not inside and not shared then wrong[#wrong + 1] = path .. " requires " .. module end
      end
    end
    none(wrong)
  end)
end)
