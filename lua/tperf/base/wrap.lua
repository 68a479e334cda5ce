--- Text in lines of at most `width` characters, broken at blanks; a longer word has a line of its own.
---@param text string
---@param width integer
---@param indent? string  before every line but the first
---@return string[] lines
return function(text, width, indent)
  local lines, line, used = {}, nil, 0
  for word in text:gmatch "%S+" do
    local size = utf8.len(word) or #word
    if line and used + 1 + size > width then
      lines[#lines + 1], line = line, nil
    end
    if line then
      line, used = line .. " " .. word, used + 1 + size
    else
      line = (lines[1] and indent or "") .. word
      used = (lines[1] and indent and #indent or 0) + size
    end
  end
  lines[#lines + 1] = line or ""
  return lines
end
