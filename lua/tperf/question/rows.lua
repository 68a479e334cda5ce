--- The rows of the registry that are the arguments of each question.
local searched = require "tperf.question.search.rows"
local served = require "tperf.question.serving_arguments"
local trained = require "tperf.question.arguments"

local function rows_of_search()
  local list = table.move(trained.rows(), 1, #trained.rows(), 1, {})
  return table.move(searched, 1, #searched, #list + 1, list)
end

-- question -> function() -> rows
return {
  train = trained.rows, search = rows_of_search,
  infer = function() return served.rows "infer" end, serve = function() return served.rows "serve" end,
}
