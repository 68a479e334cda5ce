--- The commands that the small shell (shell/init.lua) runs itself; it only records the others.
local roots = require "tperf.base.roots"
local arithmetic = require "tperf.import.launch.shell.arithmetic"
local expand = require "tperf.import.launch.shell.expand"
local launcher = require "tperf.import.launch.launcher"
local marker = require "tperf.import.launch.shell.marker"
local test = require "tperf.import.launch.shell.test"

local builtins = {}

builtins.declares = { export = true, declare = true, typeset = true, ["local"] = true, readonly = true }

-- Commands whose output is known here, so that $(…) may use them.
builtins.prints = { echo = true, printf = true, pwd = true, basename = true, dirname = true, cat = true, seq = true,
  expr = true, [":"] = true, cd = true, realpath = true, readlink = true }

--- Runs export, declare and local: assignments, -A for maps, -n for name references.
function builtins.declare(self, fields, assigns)
  local flags = table.concat(fields, " ", 2):match "%-%a+" or ""
  for _, one in ipairs(assigns) do
    if flags:find "n" and fields[1] ~= "export" then
      self.refs[one.name] = expand.text(self, one.word)
    else
      if one.array then one.map = flags:find "A" ~= nil end
      self:set(one)
    end
  end
  for i = 2, #fields do
    local name, value = fields[i]:match "^([%a_][%w_]*)=(.*)$" -- export "$name=$value"
    if name then self:assign(name, value) end
    if flags:find "A" and fields[i]:find "^[%a_]" then self:assign(fields[i], { items = {}, keys = {}, map = true }) end
  end
  return true
end

local function print_out(self, text) self.printed[#self.printed + 1] = text end

function builtins.echo(self, fields)
  local from, newline = 2, "\n"
  while fields[from] and fields[from]:find "^%-[neE]+$" do
    if fields[from]:find "n" then newline = "" end
    from = from + 1
  end
  print_out(self, table.concat(fields, " ", from) .. newline)
end

function builtins.printf(self, fields)
  local i = 2
  local text = (fields[2] or ""):gsub("\\n", "\n"):gsub("%%([-%d.]*)([%%sdif])", function(_, kind)
    if kind == "%" then return "%" end
    i = i + 1
    return fields[i] or ""
  end)
  print_out(self, text)
end

function builtins.pwd(self) print_out(self, ".\n") end

function builtins.basename(self, fields)
  local name = roots.last((fields[2] or ""):match "^.*[^/]" or "")
  local suffix = fields[3]
  if suffix and name:sub(-#suffix) == suffix then name = name:sub(1, -#suffix - 1) end
  print_out(self, name .. "\n")
end

function builtins.dirname(self, fields) print_out(self, ((fields[2] or ""):match "^(.*)/[^/]*$" or ".") .. "\n") end

local function last_word(self, fields) print_out(self, (fields[#fields] or "") .. "\n") end
builtins.readlink, builtins.realpath = last_word, last_word

function builtins.seq(self, fields)
  local first, last = tonumber(#fields > 2 and fields[2] or 1), tonumber(fields[#fields])
  if not first or not last then return print_out(self, marker.of "$(seq)") end
  for number = first, math.min(last, first + 10000) do print_out(self, math.tointeger(number) .. "\n") end
end

-- expr A OP B …: arithmetic of its operands.
function builtins.expr(self, fields)
  local text = table.concat(fields, " ", 2)
  local plain = not marker.is_in(text) and not text:find "[^%d%s+*/%%()-]"
  local ok, value = pcall(arithmetic, plain and text or "?", error, error, error)
  print_out(self, ok and ("%d\n"):format(value) or marker.of(marker.shown("$(expr " .. text .. ")")))
end

function builtins.unset(self, fields)
  for i = 2, #fields do
    if self.given[fields[i]] == nil then self.vars[fields[i]] = nil end
  end
end

function builtins.shift(self, fields)
  local count = math.tointeger(tonumber(fields[2] or 1)) or 1
  self:set_positional(table.move(self.positional, count + 1, #self.positional, 1, {}))
end

function builtins.eval(self, fields) self:run_text(table.concat(fields, " ", 2)) end

local function source(self, fields)
  local text = self.files[fields[2] or ""] or self.find(fields[2] or "")
  self.sourced[#self.sourced + 1] = { name = fields[2] or "", found = text ~= nil }
  if text then self:run_text(text, fields[2]) end
end
builtins.source, builtins["."] = source, source

local function leave(name)
  return function() error({ signal = name }, 0) end
end
builtins.exit, builtins["return"], builtins["break"] = leave "exit", leave "return", leave "break"
builtins.continue = leave "continue"

builtins["true"] = function() return true end
builtins["false"] = function() return false end
builtins[":"], builtins.set, builtins.cd, builtins.trap = builtins["true"], builtins["true"], builtins["true"],
  builtins["true"]
builtins.read, builtins.getopts = builtins["false"], builtins["false"] -- there is no input to read

builtins["["] = function(self, fields)
  local words = table.move(fields, 2, fields[#fields] == "]" and #fields - 1 or #fields, 1, {})
  local ok, lacking = test.single(self, words)
  table.move(lacking, 1, #lacking, #self.lacking + 1, self.lacking)
  return ok
end
builtins.test = builtins["["]

local SHELLS <const> = { bash = true, sh = true, zsh = true, dash = true }

-- The script that sbatch submits, among its words from `at` on: its text, its name and its place. What its directives
-- and the words say of nodes is kept.
local function submitted(self, fields, at)
  for i = at, #fields do
    local text = not fields[i]:find "^%-" and (self.files[fields[i]] or self.find(fields[i]))
    if text then
      self.submitted = launcher.submitted(fields, i - 1, text)
      return text, fields[i], i
    end
  end
end

-- The script of `… bash -x -c "text"` or `… bash script.sh` anywhere in a command: its text and its name.
local function inner_script(self, fields)
  for i, word in ipairs(fields) do
    if roots.last(word) == "sbatch" and fields[i + 1] then
      local text, name, at = submitted(self, fields, i + 1)
      if text then return text, name, at end
    end
    if SHELLS[roots.last(word)] then
      local at = i + 1
      while fields[at] and fields[at]:find "^%-" do
        if fields[at]:find "^%-%a*c$" then return fields[at + 1] or "", self.where, at + 1 end
        at = at + 1
      end
      local text = fields[at] and (self.files[fields[at]] or self.find(fields[at]))
      if text then return text, fields[at], at end
    end
  end
end

local SUBMITS <const> = { sbatch = true, bash = true, sh = true, salloc = true, ["qsub"] = true }

-- The input of a command: a here-document, expanded unless its delimiter is quoted, or a file.
local function document_of(self, node)
  for _, one in ipairs(node.redirects) do
    if one.text then return one.literal and one.text or expand.text(self, one.text, true) end
    if one.op == "<<<" then return expand.text(self, one.word) .. "\n" end
    if one.op == "<" then return self.files[expand.text(self, one.word)] end
  end
end

function builtins.cat(self, fields, node)
  local text = document_of(self, node)
  if text then return print_out(self, text) end
  for i = 2, #fields do print_out(self, self.files[fields[i]] or self.find(fields[i]) or marker.of "$(cat)") end
end

local function record(self, node, fields)
  local environment = {}
  for name, value in pairs(self.vars) do environment[name] = value end
  self.commands[#self.commands + 1] = { words = fields, line = node.line, label = node.label, where = self.where,
    environment = environment, doubt = self.doubt }
end

local function start(self, node, fields)
  local text, where, at = inner_script(self, fields)
  local document = SUBMITS[fields[1]] and document_of(self, node)
  if text then
    local positional = self.positional
    if where ~= self.where then self:set_positional(table.move(fields, at + 1, #fields, 1, {})) end
    local outer = self.launcher
    self.launcher = table.move(fields, 1, at - 1, 1, {})
    self:run_text(text, where)
    self.launcher = outer
    self:set_positional(positional)
  elseif document then
    self:run_text(document)
  else
    record(self, node, self.launcher and table.move(fields, 1, #fields, #self.launcher + 1,
      table.move(self.launcher, 1, #self.launcher, 1, {})) or fields)
  end
  return true
end

-- The file to which a command's output goes, if any, and whether it is appended.
local function target(self, node)
  for _, one in ipairs(node.redirects) do
    if (one.op == ">" or one.op == ">>") and (one.fd == "" or one.fd == "1") then
      return expand.text(self, one.word), one.op == ">>"
    end
  end
end

--- Runs a command with expanded words.
---@return boolean status
function builtins.run(self, node, fields)
  local name = fields[1]
  if name == "exec" or name == "time" or name == "nohup" or name == "command" then
    if not fields[2] then return true end
    table.remove(fields, 1)
    return builtins.run(self, node, fields)
  end
  local known = name ~= "run" and name ~= "declare" and name ~= "declares" and name ~= "prints" and builtins[name]
  if not known then return start(self, node, fields) end
  local file, append = target(self, node)
  local outer = self.printed
  if file then self.printed = {} end
  local ok = known(self, fields, node)
  if file then
    self.files[file] = (append and self.files[file] or "") .. table.concat(self.printed)
    self.printed = outer
  end
  return ok ~= false
end

return builtins
