--- Loads Lua files as loadfile does, but from their text, so that each file is read once.
local source = {}

--- Compiles a text; nil and a message if it is not valid.
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

--- Reads an open file and closes it; nil and a message if that fails.
function source.read(path, file, message)
  if not file then return nil, "cannot open " .. message end
  local text, problem = file:read "a"
  file:close()
  if not text then return nil, ("cannot read %s: %s"):format(path, problem) end
  return text
end

return source
