--- A question as text, an answer as a line: what include/tperf/ask.h calls.
local ask = require "tperf.door.ask"
local check = require "tperf.base.check"
local core = require "tperf.core"
local roots = require "tperf.base.roots"

---@param data string?  the folder of models, systems, software and kernels
---@return fun(text: string): string
return function(data)
  if data and not core.resource.entries(data .. "/systems") then
    check.fail("%s has no folder systems", check.show(data))
  end
  if data then roots.prefer(data) end
  return function(text)
    local question, answer = ask.read(text)
    return ask.line(answer or ask.answer(question))
  end
end
