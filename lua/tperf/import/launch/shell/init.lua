--- A small shell that runs a launch script without starting anything. It records commands with their words, keeps files
-- that the script writes in memory, and puts a marker (marker.lua) for what only the machine knows.
local builtins = require "tperf.import.launch.shell.builtins"
local expand = require "tperf.import.launch.shell.expand"
local marker = require "tperf.import.launch.shell.marker"
local parse = require "tperf.import.launch.shell.parse"
local pattern = require "tperf.import.launch.shell.pattern"
local test = require "tperf.import.launch.shell.test"

local shell = {}
shell.__index = shell

local MAX_STEPS <const>, MAX_DEPTH <const> = 100000, 40
local run_list, run_node

for name, method in pairs(require "tperf.import.launch.shell.variables") do shell[name] = method end

--- The output of a command, for $(…).
function shell:output(text)
  local outer = self.printed
  self.printed = {}
  local list = parse(text, self.where)
  local known = self:runs_here(list)
  if known then run_list(self, list) end
  local printed = table.concat(self.printed):match "^.*[^\n]" or ""
  self.printed = outer
  return known and printed or marker.of("$(" .. text .. ")")
end

local QUIET <const> = { tee = true, cat = true }

-- Whether all parts of a command only print what is known here.
function shell:runs_here(list)
  for _, node in ipairs(list) do
    if node.type == "pipeline" then
      if not self:runs_here { node.parts[1] } then return false end
      for i = 2, #node.parts do
        if not QUIET[node.parts[i].words and node.parts[i].words[1]] then return false end
      end
    elseif node.type == "andor" then
      if not self:runs_here { node.left, node.right } then return false end
    elseif node.type == "command" and node.words[1] then
      local name = node.words[1]
      if not (builtins.prints[name] or builtins[name] or self.functions[name]) then return false end
    end
  end
  return true
end

--- Runs another text in this shell, as part of file `where`.
function shell:run_text(text, where)
  self.depth = self.depth + 1
  if self.depth > MAX_DEPTH then self.fail("more than %d scripts within each other", MAX_DEPTH) end
  local outer = self.where
  self.where = where or outer
  local list = parse(text, self.where)
  run_list(self, list)
  self.where, self.depth = outer, self.depth - 1
end

--- Calls f, which may exit by the signal `name` (return, break …); returns whether it did.
local function guarded(name, f)
  local ok, problem = pcall(f)
  if ok then return false end
  if type(problem) == "table" and problem.signal == name then return true end
  error(problem, 0)
end

local function call(self, body, arguments)
  local positional, keys, refs = self.positional, self.positional_keys, self.refs
  self:set_positional(arguments)
  self.refs = setmetatable({}, { __index = refs })
  self.depth, self.calls = self.depth + 1, self.calls + 1
  if self.depth > MAX_DEPTH then self.fail("functions call each other more than %d deep", MAX_DEPTH) end
  guarded("return", function() run_list(self, body) end)
  self.depth, self.calls = self.depth - 1, self.calls - 1
  self.positional, self.positional_keys, self.refs = positional, keys, refs
end

function shell:set_positional(list)
  self.positional, self.positional_keys = list, {}
  for i = 1, #list do self.positional_keys[i] = i end
end

--- Marks everything that a branch sets as in doubt, because its condition is unknown.
local function doubt(self, node, names)
  if type(node) ~= "table" then return end
  for _, one in ipairs(node.assigns or {}) do
    if self.given[one.name] == nil then self.vars[one.name] = marker.of(names[1]) end
  end
  for _, key in ipairs { "body", "parts", "branches", "otherwise", "arms", "left", "right", "cond" } do
    local inner = node[key]
    if type(inner) == "table" then
      doubt(self, inner, names)
      for _, one in ipairs(inner) do doubt(self, one, names) end
    end
  end
end

-- Runs a condition; returns its status and the names of the variables that it lacked.
local function condition(self, list)
  local outer = self.lacking
  self.lacking = {}
  local ok = run_list(self, list)
  local lacking = self.lacking
  self.lacking = outer
  return ok, lacking
end

-- Runs body; its commands are in doubt if `names` is not empty.
local function run_doubtful(self, body, names)
  local outer = self.doubt
  if names[1] then self.doubt = names[1] end
  local ok = run_list(self, body)
  self.doubt = outer
  return ok
end

local kinds = {}

kinds["if"] = function(self, node)
  local names = {}
  for _, branch in ipairs(node.branches) do
    local ok, lacking = condition(self, branch.cond)
    table.move(lacking, 1, #lacking, #names + 1, names)
    if ok then
      run_doubtful(self, branch.body, names)
      if names[1] then doubt(self, node, names) end
      return true
    end
  end
  if node.otherwise then run_doubtful(self, node.otherwise, names) end
  if names[1] then doubt(self, node, names) end
  return true
end

kinds["for"] = function(self, node)
  local values = {}
  for _, word in ipairs(node.words) do
    for _, one in ipairs(expand.fields(self, word)) do values[#values + 1] = one end
  end
  guarded("break", function()
    for _, value in ipairs(values) do
      self:assign(node.name, value)
      guarded("continue", function() run_list(self, node.body) end)
    end
  end)
  return true
end

kinds["while"] = function(self, node)
  guarded("break", function()
    while true do
      local ok, lacking = condition(self, node.cond)
      if lacking[1] or ok == (node.until_true or false) then return end
      guarded("continue", function() run_list(self, node.body) end)
      if #node.body == 0 then return end
    end
  end)
  return true
end

kinds["case"] = function(self, node)
  local value, names = expand.text(self, node.word), {}
  if marker.is_in(value) then names = marker.names(value) end
  for _, arm in ipairs(node.arms) do
    for _, glob in ipairs(arm.patterns) do
      local text = expand.text(self, glob)
      local literal = glob:find "[\"']" ~= nil
      if not names[1] and (literal and text == value or not literal and pattern.matches(value, text)) then
        run_list(self, arm.body)
        return true
      end
    end
  end
  if names[1] then doubt(self, node, names) end
  return true
end

kinds["function"] = function(self, node)
  self.functions[node.name] = node.body
  return true
end

kinds.group = function(self, node)
  guarded("exit_group", function() run_list(self, node.body) end)
  return true
end

kinds.test = function(self, node)
  local ok, lacking = test.double(self, node.words)
  table.move(lacking, 1, #lacking, #self.lacking + 1, self.lacking)
  return ok
end

kinds.arithmetic = function(self, node)
  local value = expand.arithmetic(self, node.text)
  if not marker.is_in(value) then return tonumber(value) ~= 0 end
  self.lacking[#self.lacking + 1] = marker.names(value)[1]
  return false
end

kinds.andor = function(self, node)
  local ok = run_node(self, node.left)
  if node.op == "&&" then return ok and run_node(self, node.right) end
  return ok or run_node(self, node.right)
end

kinds.pipeline = function(self, node)
  local ok = true
  for _, part in ipairs(node.parts) do ok = run_node(self, part) end
  if node.negated then return not ok end
  return ok
end

kinds.command = function(self, node)
  local before = {}
  local fields = {}
  for _, word in ipairs(node.words) do
    for _, one in ipairs(expand.fields(self, word)) do fields[#fields + 1] = one end
  end
  local name = fields[1]
  if not name then
    for _, one in ipairs(node.assigns) do self:set(one) end
    return true
  end
  if builtins.declares[name] then return builtins.declare(self, fields, node.assigns) end
  for i, one in ipairs(node.assigns) do -- X=1 command: for this command only
    before[i] = self.vars[one.name] or false
    self:set(one)
  end
  local ok
  if self.functions[name] then
    call(self, self.functions[name], table.move(fields, 2, #fields, 1, {}))
    ok = true
  else
    ok = builtins.run(self, node, fields)
  end
  for i = #node.assigns, 1, -1 do self.vars[node.assigns[i].name] = before[i] or nil end
  return ok
end

function run_node(self, node)
  self.steps = self.steps + 1
  if self.steps > MAX_STEPS then self.fail("more than %d commands", MAX_STEPS) end
  self.line = node.line or self.line
  return kinds[node.type](self, node)
end

function run_list(self, list)
  local ok = true
  for _, node in ipairs(list) do ok = run_node(self, node) end
  return ok
end

--- Creates a shell with variables in its environment.
---@param given table<string, string>   variables that assignments do not change
---@param environment table<string, string>  initial values of other variables
---@param find fun(name: string): string?  returns the text of a file that a script sources or runs
function shell.new(given, environment, find)
  local self = setmetatable({
    vars = {}, given = given, refs = {}, functions = {}, files = {}, commands = {}, printed = {}, lacking = {},
    steps = 0, expanded = 0, depth = 0, calls = 0, where = "", line = 0, find = find, sourced = {},
  }, shell)
  self:set_positional {}
  for name, value in pairs(environment) do self.vars[name] = value end
  for name, value in pairs(given) do self.vars[name] = value end
  self.fail = function(format, ...)
    error({ shell = ("%s:%d: %s"):format(self.where, self.line, format:format(...)) }, 0)
  end
  return self
end

--- Runs a script. Records its commands in self.commands, and the files that it writes in self.files.
---@param text string
---@param where string
function shell:run(text, where)
  self.where = where
  guarded("exit", function() guarded("return", function() self:run_text(text, where) end) end)
end

return shell
