--- Parses a shell script into a tree. Words stay as written; lua/tperf/import/launch/shell/expand.lua expands them.
-- A list is an array of nodes; a node has `type`: command { assigns, words, redirects, line, label },
-- pipeline { parts }, andor { left, op, right }, group { body }, if { branches, otherwise }, for { name, words, body },
-- while { cond, body, until_true }, case { word, arms }, function { name, body }, test { words }, arithmetic { text }.
local clauses = require "tperf.import.launch.shell.clauses"
local words = require "tperf.import.launch.shell.words"

local parser = {}
parser.__index = parser

local MAX_DEPTH <const> = 60

-- The line of a position. Positions are asked for in order, except for a few at the end.
local function line_of(self, at)
  if at < self.counted then self.counted, self.line = 1, 1 end
  local from = self.counted
  while true do
    from = self.s:find("\n", from, true)
    if not from or from >= at then break end
    self.line, from = self.line + 1, from + 1
    self.counted = from
  end
  return self.line
end

--- The current line.
function parser:line_at() return line_of(self, self.i) end

function parser:fail(format, ...)
  error({ shell = ("%s:%d: %s"):format(self.where, line_of(self, math.min(self.i, #self.s)), format:format(...)) }, 0)
end

-- Reads here-documents, which start on the line after the one with `<<`.
local function read_heredocs(self)
  for _, redirect in ipairs(self.heredocs) do
    local lines = {}
    while self.i <= #self.s do
      local stop = self.s:find("\n", self.i, true) or #self.s + 1
      local line = self.s:sub(self.i, stop - 1)
      self.i = stop + 1
      if redirect.op == "<<-" then line = line:gsub("^\t+", "") end
      if line == redirect.delimiter then break end
      lines[#lines + 1] = line .. "\n"
    end
    redirect.text = table.concat(lines)
  end
  self.heredocs = {}
end

-- Skips blanks, comments and continued lines; with `lines`, line ends, too.
function parser:skip_blank(lines)
  local s = self.s
  while true do
    local c = s:sub(self.i, self.i)
    if c == " " or c == "\t" or c == "\r" then
      self.i = self.i + 1
    elseif c == "\\" and s:sub(self.i + 1, self.i + 1) == "\n" then
      self.i = self.i + 2
    elseif c == "#" then
      local stop = s:find("\n", self.i, true) or #s + 1
      self.comments[#self.comments + 1] = s:sub(self.i, stop - 1):gsub("^#+%s*", "")
      self.i = stop
    elseif c == "\n" and lines then
      self.i = self.i + 1
      read_heredocs(self)
    else
      return
    end
  end
end

function parser:peek()
  self:skip_blank()
  return self.s:sub(self.i, words.word_end(self.s, self.i) - 1)
end

function parser:take_word()
  self:skip_blank()
  local stop = words.word_end(self.s, self.i)
  local word = self.s:sub(self.i, stop - 1)
  self.i = stop
  return word
end

function parser:expect(word)
  self:skip_blank(true)
  local got = self:peek()
  if got ~= word then self:fail("'%s' is missing", word) end
  self.i = self.i + #word
end

function parser:redirect()
  local at, stop, fd, op = self.s:find("^(%d*)([<>&][<>&]?[<>&]?[<>&]?[|-]?)", self.i)
  if not at or not op:find "[<>]" or self.s:find(words.placeholder, self.i) then return nil end
  if op == "<<<" or op == "<<" or op == "<<-" or op == "<" or op == "<>" or op:find "^&?>>?[&|]?$" or op == "<&"
    or op == ">&-" then
    self.i = stop + 1
  else
    self.i, op = at + #fd + 1, op:sub(1, 1)
  end
  local one = { fd = fd, op = op, word = op ~= ">&-" and self:take_word() or "" }
  if op == "<<" or op == "<<-" then
    one.literal = one.word:find "[\"'\\]" ~= nil
    one.delimiter = one.word:gsub("[\"'\\]", "")
    self.heredocs[#self.heredocs + 1] = one
  end
  return one
end

local ASSIGNMENT <const> = "^([%a_][%w_]*)(%b[])(%+?)="

-- Parses NAME=WORD, NAME+=WORD, NAME=(WORD…) or NAME[KEY]=WORD at the current position; nil if there is none.
local function assignment(self)
  local s = self.s
  local at, stop, name, append = s:find("^([%a_][%w_]*)(%+?)=", self.i)
  local index
  if not at then
    at, stop, name, index, append = s:find(ASSIGNMENT, self.i)
    if not at then return nil end
  end
  self.i = stop + 1
  local one = { name = name, index = index and index:sub(2, -2), append = append == "+" }
  if s:sub(self.i, self.i) == "(" then
    local closed = words.array_end(s, self.i)
    one.array = s:sub(self.i + 1, closed - 2)
    self.i = closed
  else
    local last = words.word_end(s, self.i)
    one.word = s:sub(self.i, last - 1)
    self.i = last
  end
  return one
end

local DECLARES <const> = { export = true, declare = true, typeset = true, ["local"] = true, readonly = true }

local function simple(self)
  local label = table.concat(self.comments, "\n")
  self.comments = {}
  local node = { type = "command", assigns = {}, words = {}, redirects = {}, line = self:line_at(), label = label }
  while true do
    self:skip_blank()
    local one = self:redirect()
    local assigned = not one and (not node.words[1] or DECLARES[node.words[1]]) and assignment(self)
    if one then
      node.redirects[#node.redirects + 1] = one
    elseif assigned then
      node.assigns[#node.assigns + 1] = assigned
    else
      local word = self:take_word()
      if word == "" then break end
      node.words[#node.words + 1] = word
    end
  end
  return node
end

local function definition(self, name)
  self:skip_blank(true)
  self.comments = {}
  return { type = "function", name = name, body = { self:command() } }
end

function parser:command()
  self.depth = self.depth + 1
  if self.depth > MAX_DEPTH then self:fail("nested more than %d levels deep", MAX_DEPTH) end
  self:skip_blank()
  local word = self:peek()
  local node
  local stop = select(2, self.s:find("^[%w_.:-]+%s*%(%)", self.i))
  if self.s:sub(self.i, self.i + 1) == "((" then
    local closed = words.array_end(self.s, self.i)
    node = { type = "arithmetic", text = self.s:sub(self.i + 2, closed - 3) }
    self.i = closed
  elseif self.s:sub(self.i, self.i) == "(" or word == "{" then
    node = clauses["()"](self)
  elseif stop then
    local name = self.s:match("^[%w_.:-]+", self.i)
    self.i = stop + 1
    node = definition(self, name)
  elseif word == "function" then
    self:take_word()
    local name = self:take_word()
    local _, brackets = self.s:find("^%s*%(%)", self.i)
    if brackets then self.i = brackets + 1 end
    node = definition(self, name)
  elseif clauses[word] then
    node = clauses[word](self)
    self:skip_blank()
    while self:redirect() do self:skip_blank() end
  else
    node = simple(self)
  end
  self.depth = self.depth - 1
  return node
end

local function pipeline(self)
  local node = { type = "pipeline", parts = {} }
  if self:peek() == "!" then
    self:take_word()
    node.negated = true
  end
  while true do
    node.parts[#node.parts + 1] = self:command()
    self:skip_blank()
    local _, stop = self.s:find("^|&?", self.i)
    if not stop or self.s:sub(self.i, self.i + 1) == "||" then break end
    self.i = stop + 1
    self:skip_blank(true)
  end
  return #node.parts == 1 and not node.negated and node.parts[1] or node
end

local function andor(self)
  local left = pipeline(self)
  while true do
    self:skip_blank()
    local op = self.s:match("^&&", self.i) or self.s:match("^||", self.i)
    if not op then return left end
    self.i = self.i + 2
    self:skip_blank(true)
    left = { type = "andor", left = left, op = op, right = pipeline(self) }
  end
end

--- Parses nodes up to one of the words or brackets in `stops`.
function parser:list_until(stops)
  local list = {}
  while true do
    self:skip_blank(true)
    if self.i > #self.s then return list end
    local c = self.s:sub(self.i, self.i)
    if stops[self:peek()] or stops[c] or self.s:find("^;;", self.i) then return list end
    local before = self.i
    list[#list + 1] = andor(self)
    self:skip_blank()
    c = self.s:sub(self.i, self.i)
    if c == ";" and not self.s:find("^;;", self.i) or c == "&" then
      self.i = self.i + 1
    elseif self.i == before then
      self:fail("'%s' is not expected here", c)
    end
  end
end

--- Parses a script.
---@param text string
---@param where string  its name, for messages
---@return table list
return function(text, where)
  local self = setmetatable({ s = text, i = 1, where = where, counted = 1, line = 1, heredocs = {}, comments = {},
    depth = 0 }, parser)
  local list = self:list_until({})
  return list
end
