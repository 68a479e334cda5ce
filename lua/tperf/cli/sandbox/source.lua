--- Lua files as chunks: as the standard loadfile, but from their text, so that each is read once.
local source = {}

--- The chunk of a file's text; nil and a message when it is none.
---@param text string
---@param name string  as messages show it: "@FILE", or "=stdin"
---@param mode string  "t", or "bt"
---@param env table
function source.chunk(text, name, mode, env)
  if text:sub(1, 3) == "\xEF\xBB\xBF" then text = text:sub(4) end
  if text:sub(1, 1) == "#" then -- "#!…": an empty line before text, nothing before a binary chunk
    text = text:gsub("^[^\n]*", "", 1):gsub("^\n\27", "\27", 1)
  end
  return load(text, name, mode, env)
end

--- The text of an open file, which is closed; nil and a message.
function source.read(path, file, message)
  if not file then return nil, "cannot open " .. message end
  local text, problem = file:read "a"
  file:close()
  if not text then return nil, ("cannot read %s: %s"):format(path, problem) end
  return text
end

return source
