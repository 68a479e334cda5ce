--- Parses the compound commands of a shell script: if, for, while, case, [[ ]], ( ) and { }. Each is a function(parser)
-- that returns its node; see parse.lua.

local function if_clause(self)
  local node = { type = "if", branches = {}, line = self:line_at() }
  local word
  repeat
    self:take_word()
    local cond = self:list_until({ ["then"] = true })
    self:expect("then")
    local body = self:list_until({ ["elif"] = true, ["else"] = true, fi = true })
    node.branches[#node.branches + 1] = { cond = cond, body = body }
    word = self:peek()
  until word ~= "elif"
  if word == "else" then
    self:take_word()
    node.otherwise = self:list_until({ fi = true })
  end
  self:expect("fi")
  return node
end

local function loop_body(self)
  self:expect("do")
  local body = self:list_until({ done = true })
  self:expect("done")
  return body
end

local function for_clause(self)
  self:take_word()
  self:skip_blank()
  if self.s:sub(self.i, self.i + 1) == "((" then self:fail "for ((…)) is not read" end
  local node = { type = "for", name = self:take_word(), words = {} }
  self:skip_blank(true)
  if self:peek() == "in" then
    self:take_word()
    while self:peek() ~= "" do node.words[#node.words + 1] = self:take_word() end
  end
  self:skip_blank()
  if self.s:sub(self.i, self.i) == ";" then self.i = self.i + 1 end
  node.body = loop_body(self)
  return node
end

local function while_clause(self)
  local word = self:take_word()
  local cond = self:list_until({ ["do"] = true })
  return { type = "while", cond = cond, until_true = word == "until", body = loop_body(self) }
end

local function case_clause(self)
  self:take_word()
  local node = { type = "case", word = self:take_word(), arms = {}, line = self:line_at() }
  self:expect("in")
  while true do
    self:skip_blank(true)
    if self:peek() == "esac" or self.i > #self.s then break end
    if self.s:sub(self.i, self.i) == "(" then self.i = self.i + 1 end
    local patterns = {}
    repeat
      patterns[#patterns + 1] = self:take_word()
      self:skip_blank()
      local c = self.s:sub(self.i, self.i)
      self.i = self.i + 1
      if c ~= "|" and c ~= ")" then self:fail "a pattern of 'case' does not end" end
    until c == ")"
    node.arms[#node.arms + 1] = { patterns = patterns, body = self:list_until({ esac = true }) }
    self:skip_blank(true)
    local _, stop = self.s:find("^;;&?", self.i)
    if stop then self.i = stop + 1 end
  end
  self:expect("esac")
  return node
end

-- [[ … ]]: its words and operators as written.
local function test_clause(self)
  local node = { type = "test", words = {}, line = self:line_at() }
  self:take_word()
  while true do
    self:skip_blank(true)
    local operator = self.s:match("^&&", self.i) or self.s:match("^||", self.i) or self.s:match("^[()<>]", self.i)
    local word = operator or self:peek()
    if word == "]]" then break end
    if self.i > #self.s or word == "" then self:fail "']]' is missing" end
    if node.words[#node.words] == "=~" then -- a regular expression may hold brackets and bars
      word = self.s:match("^%S+", self.i)
    end
    self.i = self.i + #word
    node.words[#node.words + 1] = word
  end
  self:take_word()
  return node
end

local function group(self)
  local closing = self.s:sub(self.i, self.i) == "(" and ")" or "}"
  self.i = self.i + 1
  local body = self:list_until({ [closing] = true })
  self:skip_blank(true)
  if self.s:sub(self.i, self.i) ~= closing then self:fail("'%s' is missing", closing) end
  self.i = self.i + 1
  local node = { type = "group", body = body, redirects = {} }
  self:skip_blank()
  local one = self:redirect()
  while one do
    node.redirects[#node.redirects + 1] = one
    self:skip_blank()
    one = self:redirect()
  end
  return node
end

return { ["if"] = if_clause, ["for"] = for_clause, ["while"] = while_clause, ["until"] = while_clause,
  ["case"] = case_clause, ["[["] = test_clause, ["()"] = group }
