--- Turns settings into a neutral reading: the context of a stack's module, and lists of what was read.
local check = require "tperf.base.check"
local roots = require "tperf.base.roots"
local files = require "tperf.import.launch.files"
local marker = require "tperf.import.launch.shell.marker"
local settings = require "tperf.import.launch.settings"
local tables = require "tperf.import.launch.tables"
local understood = require "tperf.import.launch.understood"

local reading = {}

local MODULES <const> = {
  megatron = true, megatron_deepspeed = true, megatron_swift = true, bridge = true, deepspeed = true,
  accelerate = true, nanotron = true, torchtitan = true, mlperf = true, vllm = true, sglang = true, tensorrt_llm = true,
  trainer = true,
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

--- Creates the context of a stack's module; see stack/common.lua.
function reading.context(o, where)
  local context = { given = o.given, path = where, assumed = {}, refused = {}, sourced = {} }
  context.gpus = o.given.gpus ~= nil and math.tointeger(tonumber(o.given.gpus)) or nil
  if o.given.gpus ~= nil and (not context.gpus or context.gpus < 1) then
    check.fail("tperf.import.launch: 'given.gpus' must be an integer from 1 on, got %s", check.show(o.given.gpus))
  end
  context.gpus_otherwise, context.guessed = o.gpus, not (o.stack or o.options)
  function context.fail(format, ...) check.fail("%s: %s", where, format:format(...)) end
  function context.need(name, what) ask(where, name, what) end
  function context.assume(format, ...) context.assumed[#context.assumed + 1] = format:format(...) end
  function context.refuse(option, value) -- what is neither in the file nor to be assumed
    context.refused[#context.refused + 1] = understood.unread(option, value, where)
  end
  function context.null() return false end
  return context
end

--- Reads settings with their stack's module.
---@param s table
---@param context table
---@param where string
function reading.of(s, context, where)
  ask_all(where, s.asked)
  local server = s.table.kind == "serving" and s.words[1] ~= nil -- of a model, with all defaults
  if not s.seen and not context.config and not server then
    if context.guessed then
      check.fail("%s: of no stack that is known; %s is nearest, but none of its options that matter is set", where,
        s.table.stack)
    end
    check.fail("%s sets no option of %s %s: is it of another stack?", where, s.table.stack, s.table.version)
  end
  local r = module_of(s.table).read(s, context)
  r.stack, r.version, r.kind, r.software = s.table.stack, s.table.version, s.table.kind, s.table.software
  for _, name in ipairs(check.names(s.abbreviations)) do
    context.assume("%s is taken for %s, as Python's argparse takes what begins one option alone", name,
      s.abbreviations[name])
  end
  r.assumed = context.assumed
  local all = { s }
  if context.config and context.config.list ~= s.list then all[#all + 1] = context.config end
  if context.launcher then all[#all + 1] = context.launcher end
  r.understood, r.refused = understood.of(all)
  for i, word in ipairs(s.words) do -- a variable in whose place there may be further options
    local name = not (server and i == 1) and marker.is_in(word) and marker.names(word)[1]
    if name then context.refuse("$" .. name, ("(unset: --set %s=… says it)"):format(name)) end
    -- of another syntax than the stack's: a file of options, an override of another stack
    if not name and not server and word:find "^[@%a+~][%w_.]*[=/.]" then context.refuse(word) end
  end
  for _, one in ipairs(context.refused) do r.refused[#r.refused + 1] = one end
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

-- The text of a file that an option names: written by the script, given by the caller, beside the script, or in a
-- folder above it, from which scripts of examples are started.
local function config_text(name, c)
  if c.sh and c.sh.files[name] then return c.sh.files[name], name end
  local base = roots.last(name)
  for _, one in ipairs(c.all) do
    if one.name == base and one ~= c.script then return one.text, one.path end
  end
  return files.above(c.script.folder, name), name
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
    if type(name) == "string" and not text and s.table.config_by_name then
      s:set(row.option) -- the stack's module reads its name
    elseif type(name) == "string" and not text and s.table.config and s:has "zero" then
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
      under:set(row.option)
      return under
    end
  end
  return s
end

--- Adds the settings of the file that a tree's option names.
---@param s table
---@param file table    of files.open
---@param all table[]   the files of the launch
function reading.with_named(s, file, all, context)
  return with_config(s, { script = file, all = all }, context)
end

-- The configuration that `accelerate launch --config_file FILE` names, before the program's own words.
local function with_launcher(c, context)
  local name
  for i, word in ipairs(c.before or {}) do
    name = word:match "^%-%-config_file=(.+)$" or word == "--config_file" and c.before[i + 1] or name
  end
  if not name then return end
  local text, path = config_text(name, c)
  context.launcher_name = name
  if not text then return end
  local content, at = files.tree(text, path)
  context.launcher = settings.new(tables.load "accelerate-2026-07")
  context.launcher:read_tree(content, at)
end

--- Reads a launch that is a command line. c: { argv, gpus, missing, sh, script, all, usual, line }.
function reading.command(o, t, c)
  local context = reading.context(o, c.script.path)
  context.sourced = c.sh.sourced
  context.gpus = context.gpus or c.gpus
  context.devices, context.program = c.devices, c.program
  local s = with_config(words_of(t, c.argv, c), c, context)
  if t.module == "trainer" then with_launcher(c, context) end
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
