local core = require "tperf.core"
local processes = require "tperf.cli.sandbox.processes"

local LONGEST <const> = 16 << 20 -- bytes of a question
local AT_ONCE <const> = 256 << 10 -- bytes that are read at a time, so that few answers wait
local SOON <const>, LONG <const> = 0.2, 32 -- s, and questions left: where both are passed, processes share the rest
local PART <const>, MOST_PROCESSES <const> = 16, 64 -- questions sent at a time

-- How many brackets a line opens more than it closes, outside of strings. A JSON string ends on its line.
local function opened(line)
  local bare = line:gsub("\\.", ""):gsub('"[^"]*"', "")
  local _, opens = bare:gsub("[{%[]", "")
  local _, closes = bare:gsub("[}%]]", "")
  return opens - closes
end

-- An iterator over lists of the questions that have arrived on standard input: a line each, or several lines up to the
-- last bracket.
local function questions()
  local rest, ended = "", false
  local lines, depth, size = {}, 0, 0
  local function take(line, list)
    if not line:find "%S" then return end
    lines[#lines + 1], depth, size = line, depth + opened(line), size + #line
    if depth > 0 and size <= LONGEST then return end
    list[#list + 1] = table.concat(lines, "\n")
    lines, depth, size = {}, 0, 0
  end
  return function()
    local list = {}
    while not list[1] and not ended do
      local more = core.file.arrived(AT_ONCE)
      if core.search.pending() then return nil end
      ended, rest = not more, rest .. (more or "\n")
      local from = 1
      for line, after in rest:gmatch "([^\n]*)\n()" do
        take(line, list)
        from = after
      end
      rest = rest:sub(from)
    end
    if ended and lines[1] then
      list[#list + 1] = table.concat(lines, "\n")
      lines = {}
    end
    return list[1] and list
  end
end

-- Answers those of a list from `first` on, on all processes, a part of them at a time.
local function spread(list, first)
  local parts = {}
  for i = first, #list, PART do
    parts[#parts + 1] = { { texts = table.move(list, i, math.min(i + PART - 1, #list), 1, {}) } }
  end
  return require "tperf.question.ranks.pool".map("tperf.door.lines", "several", parts, function() end)
end

-- Writes the answers to all questions; returns whether one is an error, and whether there was any.
local function answer_all(host)
  local failed, any, start, shared = false, false, core.clock(), false
  local function put(text, wrong)
    io.stdout:write(text)
    failed, any = failed or wrong, true
  end
  local lines <const> = require "tperf.door.lines"
  for list in questions() do
    for i, text in ipairs(list) do
      if not shared and #list - i >= LONG and core.clock() - start > SOON then
        shared = assert(processes.start({}, host, MOST_PROCESSES)) and core.ranks.count > 1
      end
      if shared and #list - i >= LONG then
        for _, part in ipairs(spread(list, i)) do put(part.text, part.failed) end
        break
      end
      local one = lines.several { texts = { text } }
      put(one.text, one.failed)
      if core.search.pending() then return failed, any end
    end
    io.stdout:flush()
  end
  return failed, any
end

return {
  summary = "answer questions in JSON, from standard input",
  example = [[
echo '{"ask": "train", "with": {"model": "gpt2", "system": "h100-sxm",
  "gpus": 8, "global_batch": 64}, "fields": ["time"]}' | tperf ask]],
  details = [[
Reads one question, or a stream of them, a line each, and answers each with a line of JSON, in
their order. `fields` chooses figures, `id` comes back with the answer. `tperf schema QUESTION`
says what `with` takes. The exit status is 1 if an answer is an error (docs/ask.md).]],
  options = {},
  run = function(_, arguments, host)
    if arguments[1] then
      return false, ("unexpected argument '%s': questions come from standard input"):format(arguments[1])
    end
    local failed, any = answer_all(host)
    if not any then return false, "standard input has no question" end
    return failed and 1 or 0
  end,
}
