--- The classes declared in the library's comments ("---@class tperf.x"), with their fields and methods.
local comments = require "apidoc.comments"

local records = {}

-- Classes that scripts never see.
local INTERNAL = { ["tperf.Braille"] = true, ["tperf.Canvas"] = true }

local function files()
  local pipe = assert(io.popen "find lua/tperf -name '*.lua' | LC_ALL=C sort")
  local list = {}
  for path in pipe:lines() do list[#list + 1] = path end
  pipe:close()
  return list
end

-- The methods of a class: functions of the table below its comment.
local function methods_of(path, table_name)
  local list = {}
  for _, block in ipairs(comments.of(path)) do
    local owner, separator, name = (block.name or ""):match "^([%w_]+)([:.])([%w_]+)$"
    if owner == table_name and block.code:find "^function" and (separator == ":" or block.code:find "%(object") then
      local parameters = {}
      for _, tag in ipairs(block.tags) do
        if tag.tag == "param" then parameters[#parameters + 1] = tag.name:gsub("%?$", "") end
      end
      list[#list + 1] = { name = name, separator = ":", parameters = parameters, text = block.text, tags = block.tags }
    end
  end
  return list
end

local OBJECTS = { ["tperf.Report"] = "report", ["tperf.Plot"] = "plot" }

--- All classes, by name.
function records.all()
  local list = {}
  for _, path in ipairs(files()) do
    for _, block in ipairs(comments.of(path)) do
      local class = block.tags[1]
      if class and class.tag == "class" and not INTERNAL[class.name] then
        local summary = table.concat(block.text, " ") .. " " .. class.type .. " " .. table.concat(class.lines, " ")
        summary = summary:gsub("^%s+", ""):gsub("%s+$", "")
        summary = summary:sub(1, 1):upper() .. summary:sub(2) .. (summary:find "[%a)]$" and "." or "")
        local one = { name = class.name, summary = summary, fields = {}, methods = {}, path = path }
        for _, tag in ipairs(block.tags) do
          if tag.tag == "field" then
            tag.optional = tag.name:find "%?$" ~= nil
            local name = tag.name:gsub("%?$", "")
            one.fields[#one.fields + 1] = { name = name, type = tag.type, optional = tag.optional, lines = tag.lines }
          end
        end
        if block.code and block.code:find "^local [%w_]+ = {" then one.methods = methods_of(path, block.name) end
        for _, method in ipairs(one.methods) do
          method.object = OBJECTS[one.name] or one.name:match "[^.]*$"
        end
        list[#list + 1] = one
      end
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

return records
