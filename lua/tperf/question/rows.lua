--- The rows of the registry that are the arguments of each question.
local served = require "tperf.question.serving_arguments"
local trained = require "tperf.question.arguments"

-- question -> function() -> rows
return {
  train = trained.rows, search = trained.rows,
  infer = function() return served.rows "infer" end, serve = function() return served.rows "serve" end,
}
