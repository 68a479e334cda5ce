--- Writes python/tperf/questions.py: a function for each question, with its arguments and their documentation from the
--- registry.
local check = require "tperf.base.check"
local rows_of = require "tperf.question.rows"
local schema = require "tperf.question.schema"

local PATH <const> = "python/tperf/questions.py"
local WIDTH <const> = 108 -- columns of a docstring's lines

local ABOUT <const> = {
  train = "Time and memory of training a model with one parallel layout.",
  search = "The fastest layouts to train a model; `rows` are ranked, best first.",
  infer = "Latency, throughput and memory of serving a fixed batch.",
  serve = "A simulation of a serving engine under a load.",
  rl = "One step of reinforcement learning: its time, phases and memory.",
}

local RESERVED <const> = { ["lambda"] = true, from = true, import = true, global = true, async = true, with = true,
  ["in"] = true, is = true, class = true, pass = true, yield = true }

local function wrapped(text, indent)
  local lines, line = {}, indent
  for word in text:gmatch "%S+" do
    if #line + 1 + #word > WIDTH and line:find "%S" then
      lines[#lines + 1] = line
      line = indent .. "    "
    end
    line = line .. (line:find "%S$" and " " or "") .. word
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

local function has(list, name)
  for _, other in ipairs(list or {}) do
    if other == name then return true end
  end
end

local SIMPLE <const> = { integer = "int", number = "float", string = "str", boolean = "bool",
  object = "Mapping[str, Any]" }

-- What a type checker reads of an argument: "int | str".
local function type_of(property)
  if property.enum then
    local list = {}
    for i, value in ipairs(property.enum) do
      list[i] = type(value) == "string" and ("%q"):format(value) or tostring(value)
    end
    return "Literal[" .. table.concat(list, ", ") .. "]"
  end
  if property.type == "array" then return ("Sequence[%s]"):format(type_of(property.items or {})) end
  local list, known = {}, {}
  for _, one in ipairs(property.anyOf or {}) do
    local text = type_of(one)
    if text == "Any" then return text end
    if not known[text] then list[#list + 1], known[text] = text, true end
  end
  if list[1] then return table.concat(list, " | ") end
  return SIMPLE[property.type] or "Any"
end

local function write_question(put, name)
  local s = schema(name)
  local required, optional = {}, {}
  for _, argument in ipairs(check.names(s.properties)) do
    if RESERVED[argument] then error(("%s of %s is a word of Python's"):format(argument, name), 0) end
    table.insert(has(s.required, argument) and required or optional, argument)
  end
  put("\n\ndef " .. name .. "(\n    *,\n")
  for _, argument in ipairs(required) do put(("    %s: %s,\n"):format(argument, type_of(s.properties[argument]))) end
  for _, argument in ipairs(optional) do
    put(("    %s: %s | None = None,\n"):format(argument, type_of(s.properties[argument])))
  end
  put("    fields: Sequence[str] | None = None,\n    **more: Any,\n) -> Answer:\n    \"\"\"" .. ABOUT[name] .. "\n\n")
  for _, list in ipairs { required, optional } do
    for _, argument in ipairs(list) do
      local property = s.properties[argument]
      local text = property.description or ("an object of %s"):format(table.concat(
        check.names(property.properties or {}), ", "))
      put(wrapped(argument .. ": " .. text:gsub("\\", "\\\\"):gsub('"""', '""'), "    ") .. "\n")
    end
  end
  put("    fields: the figures wanted, such as memory.total; all by default, op by op\n")
  put("    more: arguments of strategies of your own\n    \"\"\"\n")
  put(("    return _ask(%q, locals())\n"):format(name))
end

local function text_of()
  local pieces = {}
  local function put(text) pieces[#pieces + 1] = text end
  put('"""The questions, one function each. Written by tools/write_python.lua from the registry of arguments."""\n\n')
  put("from __future__ import annotations\n\nfrom typing import Any, Literal, Mapping, Sequence\n\n")
  put("from tperf.answer import Answer\nfrom tperf.engine import ask\n\n__all__ = [")
  local names = check.names(rows_of)
  for i, name in ipairs(names) do put((i > 1 and ", " or "") .. ("%q"):format(name)) end
  put("]\n\n\ndef _ask(name, given):\n    fields = given.pop(\"fields\")\n    given.update(given.pop(\"more\"))\n")
  put("    given = {key: value for key, value in given.items() if value is not None}\n")
  put("    question = {\"ask\": name, \"with\": given}\n    if fields is not None:\n")
  put("        question[\"fields\"] = list(fields)\n    return ask(question)\n")
  for _, name in ipairs(names) do write_question(put, name) end
  return table.concat(pieces)
end

if arg and arg[0] and arg[0]:find "write_python" then
  local file = assert(io.open(PATH, "w"))
  file:write(text_of())
  file:close()
end

return { path = PATH, text = text_of }
