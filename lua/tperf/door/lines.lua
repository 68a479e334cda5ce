--- A question as text, an answer as a line: what include/tperf/ask.h and `tperf ask` call.
local ask = require "tperf.door.ask"
local check = require "tperf.base.check"
local core = require "tperf.core"
local progress = require "tperf.base.progress"
local roots = require "tperf.base.roots"

local lines = {}

local function answer_to(text)
  local question, answer = ask.read(text)
  return answer or ask.answer(question)
end

--- Opens the library for a host program.
---@param data string?  the folder of models, systems, software and kernels
---@param report? fun(done: number?, total: number?)  told how far a question is; without numbers, its end
---@return fun(text: string): string
function lines.open(data, report)
  progress.report = report
  if data and not core.resource.entries(data .. "/systems") then
    check.fail("%s has no folder systems", check.show(data))
  end
  if data then roots.prefer(data) end
  return function(text) return ask.line(answer_to(text)) end
end

--- Answers several questions: plain data, so that processes can share a stream of them.
---@param given table  { texts }
---@return table  { text: a line each, failed: whether one is an error }
function lines.several(given)
  local list, failed = {}, false
  for i, text in ipairs(given.texts) do
    local answer = answer_to(text)
    failed = failed or answer.error ~= nil
    list[i] = ask.line(answer) .. "\n"
  end
  return { text = table.concat(list), failed = failed }
end

return lines
