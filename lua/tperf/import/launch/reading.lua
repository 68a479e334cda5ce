--- Turns settings into a neutral reading: the context of a stack's module, and lists of what was read.
local check = require "tperf.base.check"
local roots = require "tperf.base.roots"
local files = require "tperf.import.launch.files"
local ignored = require "tperf.import.launch.ignored"
local marker = require "tperf.import.launch.shell.marker"
local settings = require "tperf.import.launch.settings"
local tables = require "tperf.import.launch.tables"

local reading = {}

local MODULES <const> = {
  megatron = true, megatron_deepspeed = true, bridge = true, deepspeed = true, accelerate = true, nanotron = true,
  torchtitan = true, mlperf = true, vllm = true, sglang = true, tensorrt_llm = true,
}

local function module_of(t)
  if not t.module then return require "tperf.import.launch.stack.generic" end
  if not MODULES[t.module] then check.fail("%s: no module '%s'", t.name, t.module) end
  return require("tperf.import.launch.stack." .. t.module)
end

-- Raises "FILE does not say WHAT: give it as NAME (OPTION)".
local function ask(where, name, what)
  local option = name == "gpus" and "--gpus N" or ("--set %s=…"):format(name)
  check.fail("%s does not say %s: give it as %s (%s)", where, what, name, option)
end

local function ask_all(where, asked)
  local names, seen = {}, {}
  for _, one in ipairs(asked) do
    if not seen[one.name] then
      seen[one.name] = true
      local plain = one.name:find "^[%w_]+$"
      names[#names + 1] = ("%s (for %s)"):format(plain and one.name or marker.shown("\1" .. one.name .. "\2"),
        one.option)
    end
  end
  if not names[1] then return end
  local first = asked[1].name:find "^[%w_]+$" and asked[1].name or "NAME"
  check.fail("%s does not say %s: --set %s=… says it", where, table.concat(names, ", "), first)
end

-- Refuses unknown options that look like sizes: the reading would be wrong without notice.
local function refuse_sizes(where, s)
  local names = {}
  for _, one in ipairs(s.unknown) do
    if ignored.is_size(tables.plain(one.option), one.value) then
      names[#names + 1] = ("%s %s"):format(one.option, one.value)
    end
  end
  if names[1] then
    check.fail("%s: %s: not an option of %s %s that is known, and it may decide sizes", where, table.concat(names,
      ", "),
      s.table.stack, s.table.version)
  end
end

--- Creates the context of a stack's module; see stack/common.lua.
function reading.context(o, where)
  local context = { given = o.given, path = where, assumed = {}, sourced = {} }
  context.gpus = o.given.gpus ~= nil and math.tointeger(tonumber(o.given.gpus)) or nil
  if o.given.gpus ~= nil and (not context.gpus or context.gpus < 1) then
    check.fail("tperf.import.launch: 'given.gpus' must be an integer from 1 on, got %s", check.show(o.given.gpus))
  end
  context.gpus_otherwise = o.gpus
  function context.fail(format, ...) check.fail("%s: %s", where, format:format(...)) end
  function context.need(name, what) ask(where, name, what) end
  function context.assume(format, ...) context.assumed[#context.assumed + 1] = format:format(...) end
  function context.null() return false end
  return context
end

-- The option that matters from which a name differs by only one or two letters; nil if there is none.
local function meant(plain, t)
  local near
  for name, row in pairs(t.by_name) do
    if math.abs(#name - #plain) <= 2 and #plain > 8 and not ignored.concept(row.concept) then
      local first, last = 0, 0
      while first < #plain and plain:byte(first + 1) == name:byte(first + 1) do first = first + 1 end
      while last < #plain - first and plain:byte(-last - 1) == name:byte(-last - 1) do last = last + 1 end
      local close = first + last >= math.max(#plain, #name) - 2
      if close and (not near or row.option < near) then near = row.option end
    end
  end
  return near
end

--- Reads settings with their stack's module.
---@param s table
---@param context table
---@param where string
function reading.of(s, context, where)
  ask_all(where, s.asked)
  local server = s.table.kind == "serving" and s.words[1] ~= nil -- of a model, with all defaults
  if not s.seen and not context.config and not server then
    check.fail("%s sets no option of %s %s: is it of another stack?", where, s.table.stack, s.table.version)
  end
  refuse_sizes(where, s)
  local r = module_of(s.table).read(s, context)
  r.stack, r.version, r.kind = s.table.stack, s.table.version, s.table.kind
  r.understood, r.unused, r.ignored, r.unknown, r.assumed = {}, {}, s.ignored, {}, context.assumed
  for _, entry in ipairs(s.list) do
    if not ignored.concept(entry.concept) then
      local one = { option = entry.option, value = entry.value, concept = entry.concept, place = entry.place }
      r.understood[#r.understood + 1] = one
      if not entry.read and entry.value ~= entry.row.default then r.unused[#r.unused + 1] = one end
    end
  end
  r.refused = {}
  for _, one in ipairs(s.unknown) do
    local plain = tables.plain(one.option)
    one.near = meant(plain, s.table)
    local list = (one.near or ignored.matters(plain)) and r.refused or r.unknown
    list[#list + 1] = one
  end
  return r
end

--- Reads a launch that is made of environment variables (MLPerf).
function reading.environment(o, t, sh, script)
  local s = settings.new(t)
  for _, row in ipairs(t.options) do
    for _, name in ipairs { row.option, table.unpack(row.aliases or {}) } do
      local value = sh.vars[name]
      if type(value) == "string" and value ~= "" then
        s:put(row, value, script.path)
        break
      end
    end
  end
  local context = reading.context(o, script.path)
  context.sourced = sh.sourced
  return reading.of(s, context, script.path)
end

-- The text of a file that an option names: written by the script, given by the caller, or beside the script.
local function config_text(name, c)
  if c.sh.files[name] then return c.sh.files[name], name end
  local base = roots.last(name)
  for _, one in ipairs(c.all) do
    if one.name == base then return one.text, one.path end
  end
  return files.beside(c.script.folder, name), name
end

local function words_of(t, argv, c)
  local s = settings.new(t)
  s:read_words(argv, 1, ("%s:%d"):format(c.script.path, c.line))
  return s
end

-- Adds the settings of the file that the command names. The command's settings take precedence, except for stacks whose
-- own form is a file; DeepSpeed's are kept apart.
local function with_config(s, c, context)
  for _, row in ipairs(s.table.by_concept["stack.config"] or {}) do
    local name = s:set(row.option)
    local text, path
    if type(name) == "string" then text, path = config_text(name, c) end
    if type(name) == "string" and not text and s.table.config and s:has "zero" then
      context.assume("%s is not at hand: the flags alone are read", marker.shown(name))
    elseif type(name) == "string" and not text then
      check.fail("%s names %s, which is not there: give it among the files", c.script.path, marker.shown(name))
    end
    if text then
      local content, at, null = files.tree(text, path)
      local t = s.table.config and tables.load(s.table.config)
      if t then
        context.config = settings.new(t)
        context.config:read_tree(content, at)
        return s
      end
      if s.table.form ~= "argv" then -- the file takes precedence
        s:read_tree(content, at)
        context.null = null
        return s
      end
      local under = settings.new(s.table)
      under:read_tree(content, at)
      context.null = null
      under:read_words(c.argv, 1, ("%s:%d"):format(c.script.path, c.line))
      return under
    end
  end
  return s
end

--- Reads a launch that is a command line. c: { argv, gpus, missing, sh, script, all, usual, line }.
function reading.command(o, t, c)
  local context = reading.context(o, c.script.path)
  context.sourced = c.sh.sourced
  context.gpus = context.gpus or c.gpus
  local s = with_config(words_of(t, c.argv, c), c, context)
  if c.missing and not (context.gpus or context.gpus_otherwise) then
    s.asked[#s.asked + 1] = { name = c.missing, option = "the launcher" }
  end
  if c.usual then
    for _, name in ipairs(check.names(c.usual.variables)) do
      if o.given[name] == nil and c.script.text:find(name, 1, true) then
        context.assume("%s is not said: %s, as %s has it", name, c.usual.variables[name], c.usual.name)
      end
    end
  end
  return reading.of(s, context, c.script.path)
end

return reading
