--- Answers a web page's questions: JSON in, JSON out (src/page/page.c). A question is
--   { ask = "plan", … }: `ask` names the function that answers, in one of the modules beside this one,
-- with `values`: a command's options by long name, as text, and "model" for its argument. An error is answered by
-- { error = message }.
local check = require "tperf.base.check"
local core = require "tperf.core"
local json = require "tperf.output.json"

-- ask -> the module with the function of that name.
local ASKS <const> = {
  lists = "lists", plan = "plan", detail = "plan", timeline = "plan", launch = "plan", compare = "compare",
  front = "compare", schedules = "schedules", serve = "serve", load = "serve",
  rl = "rl",
}

local function answer(text)
  local question, message = core.yaml(text, "question")
  if type(question) ~= "table" then check.fail("a question is an object, got %s", message or check.show(question)) end
  local module = ASKS[question.ask] or check.fail("no question %s%s", check.show(question.ask),
    check.suggest(tostring(question.ask), check.names(ASKS)))
  return require("tperf.page." .. module)[question.ask](question)
end

---@param text string
---@return string
return function(text)
  local ok, result = xpcall(answer, function(problem)
    return type(problem) == "string" and problem or tostring(problem)
  end, text)
  if not ok then result = { error = result:gsub("^tperf%.[%w_.:]-: ", "") } end
  return json.encode(result, { indent = 0, nonfinite = "null" })
end
