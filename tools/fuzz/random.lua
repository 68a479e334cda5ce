--- Seeded random choices for the fuzzers: the same seed gives the same input on every machine.
local random = {}
random.__index = random

---@param seed integer
function random.new(seed) return setmetatable({ state = seed * 0x2545F4914F6CDD1D + 1 }, random) end

--- An integer from 1 to n.
function random:upto(n)
  self.state = self.state * 6364136223846793005 + 1442695040888963407 -- Knuth's, modulo 2^64
  return (self.state >> 33) % n + 1
end

--- True once in n cases.
function random:once_in(n) return self:upto(n) == 1 end

function random:choice(list) return list[self:upto(#list)] end

--- Tokens that break parsers: extreme numbers, bytes with a meaning, meaningless bytes.
random.tokens = {
  "0", "-1", "1e400", "-1e400", "1e-400", "1e99999999999", "0x10", "1.5.2", "9223372036854775808", "nan", "inf", ".inf",
  ".nan", "null", "true", "~", "", " ", "\n", "\r\n", "\r", "\t", "\0", "\xFF", "\xEF\xBB\xBF", "\xFF\xFE", "\u{2028}",
  "\u{1F600}", "\\ud83d\\ude00", "\\ud83d", "\\u0000", "\\", "\"", "\"\"", "'", ",", ",,", ":", ": ", "#", "[", "]",
  "{", "}", "&a", "*a", "!!x", "---\n", "? ", "- ", "|\n", "%", "1 GB", "1e400 GB/s", "-5 us", "64", "bf16", "fp8",
}

--- The text with a few mistakes: tokens inserted, numbers replaced, pieces left out, repeated or cut off.
---@param text string
---@return string
function random:spoil(text)
  for _ = 1, self:upto(3) do
    local at = self:upto(#text + 1)
    local kind = self:upto(7)
    if kind == 1 then
      text = text:sub(1, at - 1) .. self:choice(self.tokens) .. text:sub(at)
    elseif kind == 2 then
      text = text:sub(1, at - 1) .. string.char(self:upto(256) - 1) .. text:sub(at + 1)
    elseif kind == 3 then
      text = text:sub(1, at - 1) .. text:sub(at + self:upto(20))
    elseif kind == 4 then
      local piece = text:sub(at, at + self:upto(40))
      text = text:sub(1, at - 1) .. piece:rep(self:upto(5)) .. text:sub(at)
    elseif kind == 5 and self:once_in(3) then
      text = text:sub(1, at - 1)
    else -- a word or number from there on becomes something else
      local first, last = text:find("[%w.+-]+", at)
      if first then text = text:sub(1, first - 1) .. self:choice(self.tokens) .. text:sub(last + 1) end
    end
  end
  return text
end

return random
