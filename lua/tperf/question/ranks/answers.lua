--- Answers a unit of work under MPI: each point's result as core.codec's bytes, or the reason why it is refused.
local batches = require "tperf.question.sweep.batches"
local check = require "tperf.base.check"
local core = require "tperf.core"
local jobs = require "tperf.question.ranks.jobs"
local questions = require "tperf.question.ranks.questions"
local record = require "tperf.question.sweep.record"
local refusal = require "tperf.base.refusal"
local row = require "tperf.question.sweep.row"
local rules = require "tperf.describe.rules"
local search = require "tperf.question.search"

-- The answer to a single point; nil if interrupted. again: whether the question can be asked again.
local function answer(question, args, again, ask)
  local result, reason = refusal.attempt(ask or questions.of(question), args)
  if reason then return { reason = reason } end
  if question ~= "search" then return { bytes = record.encode(result, again) } end
  if result.candidates == nil then check.fail "tperf.sweep: gpus and system are one each, at every point" end
  return result.complete and { bytes = record.encode(row.answer(result), false) } or nil
end

-- The answers to searches that share work, by system, then by number of GPUs.
local function answer_batch(unit)
  local answers, machines = {}, {}
  for i, system in ipairs(unit.systems) do
    local points = {}
    for j, gpus in ipairs(unit.gpus) do
      local args = { system = system, gpus = gpus }
      for name, value in pairs(unit.rest) do args[name] = value end
      points[j] = { index = (i - 1) * #unit.gpus + j, args = args }
    end
    machines[i] = { system = system, points = points }
  end
  local function done(p, result) answers[p.index] = { bytes = record.encode(row.answer(result), false) } end
  local function one(p)
    answers[p.index] = answer("search", p.args)
    return answers[p.index] ~= nil
  end
  return batches.ask({ rest = unit.rest, machines = machines }, done, one) and answers or nil
end

local function answer_points(unit, answers)
  local ask = questions.prepared(questions.of(unit.question))
  for i, args in ipairs(unit.points) do
    local one = answer(unit.question, args, unit.again, ask)
    if core.search.interrupted() or not one then return nil end
    local key = unit.keys and one.bytes and unit.keys[i]
    one.checksum = key and core.file.sha256(key .. one.bytes) or nil
    answers[i] = one
  end
  return answers
end

-- Rows that keep few fields are packed.
local function answer_job(unit, answers)
  local summary = jobs.answer(unit, questions.of(unit.job.question), answers)
  if not summary then return nil end
  summary[unit.job.fields and "rows" or "list"] = unit.job.fields and core.codec.pack(answers) or answers
  return summary
end

--- Answers a unit of work. Returns nil if interrupted.
---@param message table  see questions.decode
---@return table? reply  { answers, rules, seconds }, or { error, at: the point's index in the unit }
return function(message)
  local answers, start = {}, core.clock()
  local ok, result = pcall(function()
    local unit = questions.decode(message)
    if unit.job then return answer_job(unit, answers) end
    if unit.call then
      answers[1] = require(unit.call.module)[unit.call.name](unit.args, table.unpack(unit.more, 1, unit.more.n))
      return not core.search.interrupted() and answers or nil
    end
    if unit.walk then return search.part(unit.args, unit.walk, unit.part) end
    if unit.rest then return answer_batch(unit) end
    return answer_points(unit, answers)
  end)
  if not ok and not core.search.interrupted() then
    local text = type(result) == "string" and result or "an error without a message"
    if text:find("not enough memory", 1, true) then text = text .. "; --max-memory SIZE raises every rank's limit" end
    return { error = text, at = #answers + 1 }
  end
  return ok and result and { answers = result, rules = rules.used(), seconds = core.clock() - start } or nil
end
