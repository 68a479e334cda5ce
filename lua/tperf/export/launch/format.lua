--- Formats launch files: a shell command with comments above it, YAML.
local format = {}

--- Writes notes as comments. Control characters are replaced: a line end in a name would start a line that a shell
--- runs.
function format.notes(notes, mark)
  local lines = {}
  for i, note in ipairs(notes) do lines[i] = (mark or "#") .. " " .. note:gsub("%c+", " ") .. "\n" end
  return table.concat(lines)
end

local function quoted(value)
  local text = tostring(value)
  return text:find "[^%w_./:=,+-]" and "'" .. text:gsub("'", "'\\''") .. "'" or text
end

--- Formats "command \\\n    --option value \\\n …".
function format.command(words, list)
  local lines = { words }
  for _, one in ipairs(list) do
    local list_of, parts = type(one.value) == "table" and one.value or { one.value }, { one.option }
    for i, value in ipairs(list_of) do parts[i + 1] = quoted(value) end
    lines[#lines + 1] = one.value == true and one.option or table.concat(parts, " ")
  end
  return table.concat(lines, " \\\n    ") .. "\n"
end

--- The nodes and GPUs per node for torchrun: nodes of 8 GPUs, or smaller ones.
function format.nodes(gpus, w)
  if gpus % 8 == 0 then
    if gpus > 8 then w.note("%d nodes of 8 GPUs", gpus // 8) end
    return gpus // 8, 8
  end
  for size = 7, 2, -1 do
    if gpus % size == 0 and gpus > size then
      w.note("%d nodes of %d GPUs", gpus // size, size)
      return gpus // size, size
    end
  end
  return 1, gpus
end

local function yaml_value(value)
  if type(value) ~= "string" then return tostring(value) end
  return value:find "^[%a][%w_./-]*$" and value or ('"%s"'):format(value:gsub('["\\]', "\\%0"))
end

--- Groups options by section, in the order in which sections first appear: a file contains each section once.
---@param list table[]
---@param pattern string  matches the section in an option's name
function format.grouped(list, pattern)
  local groups, names, out = {}, {}, {}
  for _, one in ipairs(list) do
    local name = one.option:match(pattern)
    if not groups[name] then
      groups[name] = {}
      names[#names + 1] = name
    end
    table.insert(groups[name], one)
  end
  for _, name in ipairs(names) do table.move(groups[name], 1, #groups[name], #out + 1, out) end
  return out
end

--- Formats dotted options as YAML, as nested maps in the same order.
function format.yaml(list)
  local lines, open = {}, {}
  for _, one in ipairs(format.grouped(list, "^[^.]*")) do
    local parts = {}
    for part in one.option:gmatch "[^.]+" do parts[#parts + 1] = part end
    local shared = 0
    while shared < #parts - 1 and open[shared + 1] == parts[shared + 1] do shared = shared + 1 end
    for i = shared + 1, #parts - 1 do lines[#lines + 1] = ("  "):rep(i - 1) .. parts[i] .. ":" end
    lines[#lines + 1] = ("%s%s: %s"):format(("  "):rep(#parts - 1), parts[#parts], yaml_value(one.value))
    open = parts
  end
  return table.concat(lines, "\n") .. "\n"
end

return format
