--- tperf.prepare: a question to be asked again and again, each time with a few arguments changed.
local check = require "tperf.base.check"
local questions = require "tperf.question.ranks.questions"
local train = require "tperf.question.train"

local prepare = {}

local WHAT <const> = "tperf.prepare"

local function read(given)
  if type(given) ~= "table" then check.fail("%s needs a table of arguments, got %s", WHAT, check.show(given)) end
  local fixed = {}
  for name, value in pairs(given) do fixed[name] = value end
  local run = fixed.run or train.run
  if type(run) ~= "function" then
    check.fail("%s: 'run' must be a question such as tperf.train, got %s", WHAT, check.show(run))
  end
  fixed.run = nil
  return fixed, run
end

--- Prepares a question: what asking again needs (layouts of the model, its jobs) is kept as long as the function that
--- this returns. Answers are those of the question itself.
---@param given table  the arguments that stay, and run = the question (tperf.train)
---@return fun(changes: table?): any ask  the answer with these arguments added, or in place of those that were given
function prepare.of(given)
  local fixed, run = read(given)
  local ask = questions.prepared(run)
  return function(changes)
    local o = {}
    for name, value in pairs(fixed) do o[name] = value end
    if changes ~= nil and type(changes) ~= "table" then
      check.fail("%s: the changes must be a table of arguments, got %s", WHAT, check.show(changes))
    end
    for name, value in pairs(changes or {}) do o[name] = value end
    return ask(o)
  end
end

return prepare
