local core = require "tperf.core"
local lazy = require "tperf.base.lazy"
local limits = require "tperf.cli.sandbox.limits"
local terminal = require "tperf.output.terminal"
local wording = require "tperf.base.wording"

-- A value on one line: fields sorted, nested tables down to a few levels.
local function show(value, depth)
  if type(value) == "string" then return wording.visible((("%q"):format(value):gsub("\\\n", "\\n"))) end
  local meta = type(value) == "table" and getmetatable(value)
  if type(value) ~= "table" or (type(meta) == "table" and meta.__tostring) then return tostring(value) end
  if next(lazy.settle(value)) == nil then return "{}" end
  if depth == 0 then return "{ ... }" end
  local parts, names = {}, {}
  for i = 1, math.min(#value, 20) do parts[i] = show(value[i], depth - 1) end
  if #value > 20 then parts[#parts + 1] = ("... (%d in all)"):format(#value) end
  for name in pairs(value) do
    if type(name) == "string" then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do parts[#parts + 1] = ("%s = %s"):format(name, (show(value[name], depth - 1))) end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

local function is_configuration(value)
  return type(value) == "table" and value.strategy ~= nil and value.micro_batch ~= nil and value.breakdown ~= nil
end

-- Configurations as the commands print them, and the names of their fields.
local function print_configurations(rows)
  local configuration, shown = require "tperf.cli.ask.configuration", require "tperf.cli.answer.shown"
  require "tperf.cli.answer.fitted".print({}, rows, shown.columns(rows, configuration.columns))
  local names = {}
  for name in pairs(rows[1]) do names[#names + 1] = name end
  table.sort(names)
  terminal.say("fields: " .. table.concat(names, ", "))
end

local function print_results(...)
  local first = ...
  if select("#", ...) >= 1 and type(first) == "table" then
    if is_configuration(first) then return print_configurations { first } end
    if is_configuration(first[1]) then return print_configurations(first) end
  end
  local parts = {}
  for i = 1, select("#", ...) do parts[i] = (show((select(i, ...)), 3)) end
  if #parts > 0 then print(table.concat(parts, "\t")) end
end

-- Prints what a chunk returned, or its error. A value's own __tostring and __pairs may raise.
local function answer(ok, ...)
  local what, problem = "", (...)
  if ok then
    local shown, why = pcall(print_results, ...)
    if shown then return end
    what, problem = "a result cannot be shown: ", why
  end
  local readable, text = pcall(tostring, problem)
  local words = readable and text:gsub("^lua/tperf/[^:]*:%d+: ", "") or "an error that cannot be shown"
  io.stderr:write("tperf: ", what, wording.lines(words), "\n")
end

local HELP <const> = [[
Type an expression to see its value, or statements. For example:
  c = tperf.train { model = "gpt2", system = "h100-sxm", global_batch = 64, dp = 8 }
  c.memory
  tperf.search { model = "gpt2", system = "h100-sxm", gpus = 8, global_batch = 64 }
`help mfu` explains a term, `help does it fit` finds a command. Functions are in
docs/scripting.md and docs/api.md. `exit` or Ctrl-D ends.
]]

-- What a line says that is no Lua: "help", "help mfu", "exit". Returns whether it was such a line, and whether to end.
local function order(line, env)
  local word, rest = line:match "^%s*(%a+)%s*(.-)%s*$"
  if not word or rawget(env, word) ~= nil then return false end
  if (word == "exit" or word == "quit") and (rest == "" or rest == "()") then return true, true end
  if word ~= "help" or rest:find "^[=.:,]" then return false end
  rest = rest:gsub("^%((.-)%)$", "%1")
  io.stdout:write(rest == "" and HELP or require "tperf.cli.guide.find".find(rest)
    or ("nothing is known of '%s'\n"):format(wording.visible(rest)))
  return true
end

-- Reads lines until they form a chunk: an expression or statements. Returns nil at the end of the input.
local function read_chunk(read, env, interrupted) -- nil: the end
  local text = ""
  while true do
    local line = read(text == "" and "> " or ">> ")
    if not line then
      if not interrupted() then return nil end
      text, line = "", "\n"
    end
    local ordered, ends = false, false
    if text == "" then ordered, ends = order(line, env) end
    if ends then return nil, true end
    text = ordered and "" or text .. line
    local chunk = load("return " .. text, "=input", "t", env)
    local message
    if not chunk then chunk, message = load(text, "=input", "t", env) end
    if chunk then return chunk end
    if not message:find "<eof>$" then return function() error(message, 0) end end
  end
end

-- Reads a line with libedit: arrow keys, history, Tab. Returns nil if it is not installed.
local function edited(host, env)
  local read = host.line()
  if not read then return nil end
  local names = {}
  for _, kind in ipairs { "models", "systems", "software" } do
    local list = require "tperf.base.catalogue".list(kind)
    table.move(list, 1, #list, #names + 1, names)
  end
  local complete = require "tperf.cli.words"(env, names)
  return function(prompt)
    local line = read(prompt, complete)
    return line and line .. "\n"
  end
end

return {
  summary = "an interactive prompt",
  details = [[
Prints the values of expressions; the library is loaded as `tperf`. `help` says what to type, `help mfu`
explains a term, `exit` or Ctrl-D ends it.
On a terminal, if libedit is installed, lines can be edited, the arrow keys bring back
earlier ones, and Tab completes fields and the names of models and systems.]],
  options = limits.options,
  run = function(values, arguments, host)
    if arguments[1] then return false, "repl takes no arguments" end
    local ok, message = limits.apply(values, host)
    if not ok then return false, message end
    local script = values.trust and _G or require "tperf.cli.sandbox".environment(host, package.path)
    local env = setmetatable({ tperf = script.require "tperf" }, { __index = script }) -- globals need no declaration
    local at_terminal = core.is_terminal(0)
    local function prompt(text)
      if at_terminal then io.stderr:write(text) end
    end
    local function plain(text)
      prompt(text)
      return io.stdin:read "L"
    end
    local read = at_terminal and core.is_terminal(2) and edited(host, env) or plain
    while true do
      local chunk, left = read_chunk(read, env, host.limits.interactive)
      if left then return end
      if not chunk then break end
      host.limits.interactive()
      answer(pcall(chunk))
    end
    prompt "\n"
  end,
}
