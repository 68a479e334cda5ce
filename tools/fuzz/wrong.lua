--- Detects findings: errors that do not point at the caller, numbers that are not finite; and keeps the current input.
local wrong = {}

local current -- inputs are written to this path before they are tried, so a crash leaves its cause

function wrong.keep_inputs(path) current = path end

--- Records the input of the current case.
---@param text string
function wrong.input(text)
  wrong.last = text
  if not current then return end
  local file = assert(io.open(current, "wb"))
  file:write(text)
  file:close()
end

-- The path of a number that is not finite in a result, or nil.
local function infinite(value, path, seen)
  if math.type(value) == "float" and value - value ~= 0 then return path end
  if type(value) ~= "table" or seen[value] then return nil end
  seen[value] = true
  for key, item in next, value do
    local found = infinite(item, path .. "." .. tostring(key), seen)
    if found then return found end
  end
end

local HERE <const> = debug.getinfo(1, "S").short_src
local CALL <const> = debug.getinfo(1, "l").currentline + 2

local function call(f, ...) local result = f(...) return result end

--- Calls f, which must return finite numbers or raise a message of reasonable length at this call's line.
function wrong.attempt(f, ...)
  local ok, answer = pcall(call, f, ...)
  if ok then
    local path = infinite(answer, "result", {})
    assert(not path, path and path .. " is not finite")
    return answer
  end
  assert(type(answer) == "string", "no message is raised")
  local where = ("%s:%d: "):format(HERE, CALL)
  assert(answer:sub(1, #where) == where, "not at the caller's line: " .. answer)
  assert(#answer < 2000 and not answer:find "[%z\1-\9\11-\31]", ("a message of %d bytes: %q"):format(#answer, answer))
end

return wrong
