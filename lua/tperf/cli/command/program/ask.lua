local core = require "tperf.core"

local LONGEST <const> = 16 << 20 -- bytes of a question

-- How many brackets a line opens more than it closes, outside of strings. A JSON string ends on its line.
local function opened(line)
  local bare = line:gsub("\\.", ""):gsub('"[^"]*"', "")
  local _, opens = bare:gsub("[{%[]", "")
  local _, closes = bare:gsub("[}%]]", "")
  return opens - closes
end

-- An iterator over the questions on standard input: a line each, or several lines up to the last bracket.
local function texts(read)
  return function()
    local lines, depth, size = {}, 0, 0
    while true do
      local line = read()
      if not line then return lines[1] and table.concat(lines, "\n") or nil end
      if line:find "%S" then
        lines[#lines + 1], depth, size = line, depth + opened(line), size + #line
        if depth <= 0 or size > LONGEST then return table.concat(lines, "\n") end
      end
    end
  end
end

return {
  summary = "answer questions in JSON, from standard input",
  details = [[
For example: echo '{"ask": "train", "with": {"model": "gpt2", "system": "h100-sxm", "gpus": 8,
"global_batch": 64}, "fields": ["time", "memory.total"]}' | tperf ask
Reads one question, or a stream of them, a line each, and answers each with a line of JSON, in
their order. `fields` chooses figures, `id` comes back with the answer. `tperf schema QUESTION`
says what `with` takes. The exit status is 1 if an answer is an error (docs/ask.md).]],
  options = {},
  run = function(_, arguments)
    if arguments[1] then
      return false, ("unexpected argument '%s': questions come from standard input"):format(arguments[1])
    end
    local ask, status, any = require "tperf.door.ask", 0, false
    for text in texts(io.stdin:lines()) do
      local question, answer = ask.read(text)
      answer = answer or ask.answer(question)
      if answer.error then status = 1 end
      any = true
      io.stdout:write(ask.line(answer), "\n")
      io.stdout:flush()
      if core.search.pending() then break end
    end
    if not any then return false, "standard input has no question" end
    return status
  end,
}
