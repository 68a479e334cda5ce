--- Fuzzes the door: spoilt questions in JSON are answered, or refused with an error that names its field and a message.
local ask = require "tperf.door.ask"
local core = require "tperf.core"
local questions = require "doors.questions"
local wrong = require "fuzz.wrong"

local AT_A_TIME <const> = 100
local LONG <const> = { search = true, search_inference = true, search_serving = true, saturation = true,
  load_curve = true, fewest = true, serve = true } -- a spoilt number makes these last for minutes

local TRAIN <const> = 4 -- of five texts: those of tperf.train, the shortest to answer

local texts, short = {}, {}
for _, text in ipairs(questions.list(1000)) do
  local name = text:match '"ask":"([^"]*)"'
  if not LONG[name] then texts[#texts + 1] = text end
  if name == "train" then short[#short + 1] = text end
end

-- What an error lacks; nil: nothing. A text that is no question has no field.
local function lacking(e)
  if not (e.code and e.message and #e.message > 0) then return "a code or a message" end
  return e.code ~= "unreadable" and not e.field and "its field" or nil
end

local fuzzer = {}

function fuzzer.step(random)
  for _ = 1, AT_A_TIME do
    local text = random:spoil(random:choice(random:upto(5) <= TRAIN and short or texts))
    wrong.input(text)
    local question, answer = ask.read(text)
    -- Shorter answers, as spoilt questions are about errors; and no search by another name.
    if type(question) == "table" then
      if LONG[question.ask] then question = { ask = "train", with = question.with } end
      question.fields = question.fields or { "time", "memory" }
    end
    answer = answer or ask.answer(question)
    local line = ask.line(answer)
    assert(core.yaml(line, "answer"), line)
    local lacks = answer.error and lacking(answer.error)
    if lacks then error(("lacks %s: %s"):format(lacks, line)) end
  end
end

return fuzzer
