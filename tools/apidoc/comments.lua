--- Parses the library's comments: every block that starts with "---", with the code that follows it.
local comments = {}

local function slurp(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

-- One line of a comment without its dashes; nil if it is not one. A block starts with "---"; further lines may use
-- "--".
local function stripped(line, inside)
  local text = line:match "^%-%-%- ?(.*)$" or line:match "^%-%-%-(@.*)$"
  if text then return text end
  return inside and line:match "^%-%- ?(.*)$" or nil
end

-- "@param given table  text" -> { tag = "param", name = "given", type = "table", text = { "text", … } }
local function tag_of(line)
  local tag, rest = line:match "^@(%a+)%s*(.*)$"
  local entry = { tag = tag, lines = {} }
  if tag == "param" or tag == "field" then
    entry.name, rest = rest:match "^(%S+)%s*(.*)$"
  elseif tag == "class" then
    entry.name, rest = rest:match "^([^%s:]+):?%s*(.*)$"
  end
  -- A type ends at the first blank outside brackets that does not follow a colon or a comma.
  local depth, stop = 0, #rest
  for i = 1, #rest do
    local c = rest:sub(i, i)
    if c:find "[<{(%[]" then depth = depth + 1 elseif c:find "[>})%]]" then depth = depth - 1 end
    if c == " " and depth <= 0 and not rest:sub(i - 1, i - 1):find "[,:|]" then stop = i - 1 break end
  end
  entry.type = rest:sub(1, stop)
  local text = rest:sub(stop + 1):gsub("^%s*#?%s*", "")
  if text ~= "" then entry.lines[1] = text end
  return entry
end

-- The name defined by the code after a block: "search.run", "methods:groups", "layer_of" …
local function defined(code)
  return code:match "^local function ([%w_]+)" or code:match "^function ([%w_.:]+)" or code:match "^local ([%w_]+)"
    or code:match "^([%w_.]+)[%w_., ]* ="
end

local cache = {}

--- The blocks of a file: { text = lines before any tag, tags = list, code = the next line, line = its number,
--- name = the name it defines }.
function comments.of(path)
  if cache[path] then return cache[path] end
  local blocks, block, number = {}, nil, 0
  for line in (slurp(path) .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    local text = stripped(line, block ~= nil)
    if text then
      if not block then
        block = { text = {}, tags = {}, path = path, first = number }
        blocks[#blocks + 1] = block
      end
      if text:sub(1, 1) == "@" then
        table.insert(block.tags, tag_of(text))
      else
        local tag = block.tags[#block.tags]
        table.insert(tag and tag.lines or block.text, text)
      end
    elseif block then
      block.code, block.line, block.name = line, number, defined(line)
      block = nil
    end
  end
  cache[path] = blocks
  return blocks
end

--- The first block of a file for which test(block) is true.
function comments.find(path, test)
  for _, block in ipairs(comments.of(path)) do
    if test(block) then return block end
  end
end

--- Parses lists of fields, one or several names per line: "  gpus, dp   meaning", further lines indented more.
---@return table[] list  { name, text }, also indexed by name
function comments.fields(lines)
  local list, last, indent = {}, nil, nil
  for _, line in ipairs(lines) do
    local blank, names, text = line:match "^( +)(%S.-)%s%s+(%S.*)$"
    if last and line:find("^" .. (" "):rep(indent + 1)) then
      for _, field in ipairs(last) do field.text = field.text .. " " .. line:gsub("^%s+", "") end
    elseif names and not names:find "[^%w_,|%s]" then
      last, indent = {}, #blank
      for name in names:gmatch "[%w_]+" do
        local field = { name = name, text = text }
        last[#last + 1], list[#list + 1], list[name] = field, field, field
      end
    else
      last = nil
    end
  end
  return list
end

return comments
