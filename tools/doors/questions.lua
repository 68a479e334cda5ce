-- Questions for every door, a line of JSON each: `tperf run --trust tools/doors/questions.lua [COUNT]` prints them, and
-- spec/doors_spec.lua asks them through all doors. Each question of the registry is asked with one argument after
-- another, right values and wrong ones; the questions without rows in some ways of their own. The same list each time.
local check = require "tperf.base.check"
local json = require "tperf.output.json"
local rows_of = require "tperf.question.rows"

local questions = {}

local function joined(a, b)
  local all = {}
  for name, value in pairs(a) do all[name] = value end
  for name, value in pairs(b) do all[name] = value end
  return all
end

local GPT2 <const> = { model = "gpt2", system = "h100-sxm" }
local LLAMA <const> = { model = "llama-3.1-8b", system = "h100-sxm" }
local TRAIN <const> = joined(GPT2, { gpus = 8, global_batch = 64 })
local LOAD <const> = joined(GPT2, { prompt = 100, output = 20, count = 100 })

local ROWS <const> = { { gpus = 8, time = 2 / 3 }, { gpus = 16, time = 0.4 }, { gpus = 32, time = 0.25 } }

local BASE <const> = {
  train = TRAIN, search = joined(TRAIN, { top = 2 }), infer = joined(LLAMA, { prompt = 1000, generate = 50 }),
  serve = joined(LOAD, { load = { rate = 5 } }),
  rl = joined(LLAMA, { gpus = 16, prompts = 64, samples = 4, prompt = 500, response = 500 }),
}

local OTHERS <const> = {
  { "collective", { kind = "all_reduce", system = "h100-sxm", bytes = "64 MiB", gpus = 8 } },
  { "collective", { kind = "all_gather", system = "a100-sxm-80gb", bytes = 1e9, gpus = 64 } },
  { "collective", { kind = "all_to_all", system = "gb200-nvl72", bytes = 4096, gpus = 72 } },
  { "collective", { kind = "nothing", system = "h100-sxm", bytes = 4096, gpus = 8 } },
  { "collective", { kind = "all_reduce", system = "h100-sxm", gpus = 8 } },
  { "fewest", joined(LLAMA, { global_batch = 64 }) }, { "fewest", { model = "gpt2", global_batch = 64 } },
  { "plot", { rows = ROWS, x = "gpus", y = "time", logx = 2 } }, { "plot", { rows = ROWS, x = "gpus", y = "tiem" } },
  { "plot", { rows = ROWS, x = "gpus", y = "time", kind = "bars" } }, { "plot", { kind = "pie" } },
  { "schema", { question = "train" } }, { "schema", { question = "trian" } },
  { "search_inference", joined(LLAMA, { gpus = 4, prompt = 500, generate = 50 }), fields = { "tpot", "tp" } },
  { "search_inference", joined(GPT2, { gpus = 2, prompt = 500, generate = 50, tp = 3 }) },
  { "saturation", LOAD }, { "saturation", { model = "gpt2" } }, { "load_curve", joined(LOAD, { rates = { 1, 5 } }) },
  { "search_serving", joined(LOAD, { rate = 5, slo = { ttft = 0.5 } }) },
  { "train", TRAIN, id = { 1, "two" }, fields = { "time", "memory.total", "tiem" } }, { "train", TRAIN, fields = {} },
  { "train", joined(TRAIN, { model = "Zürich \"𝄞\"" }) },
  { "train", { model = "llama-3.1-70b", system = "b200-sxm", gpus = 64, tp = 8, pp = 4, global_batch = 128 } },
  { "train", { model = "deepseek-v3", system = "h100-sxm", gpus = 256, ep = 32, pp = 8, global_batch = 512 },
    fields = { "time", "mfu" } },
  { "infer", { model = "gpt-oss-120b", system = "h100-sxm", tp = 2, prompt = 2000, generate = 200 } },
  { "infer", { model = "mixtral-8x7b", system = "a100-sxm-80gb", tp = 4, prompt = 500, generate = 20 } },
  { "infer", {} }, { "rl", { prompts = -1 } }, { "nothing" }, { nil, TRAIN },
}

-- A value of an argument, for the n-th time; nil where its check tells none.
local function value_of(d, n)
  if not d then return nil end
  if d.kind == "choice" then return d.names[1 + n % #d.names] end
  if d.kind == "boolean" then return d.default ~= true end
  if d.kind == "integer" then return math.max(d.min or 1, ({ 1, 2, 4 })[1 + n % 3]) end
  if d.kind == "number" then return (d.min or d.above or 0) + ({ 0.5, 1, 3 })[1 + n % 3] end
  if d.kind == "string" then return "nonsense" end
  if d.kind == "one_of" then return value_of(check.describe(d.choices[1 + n % #d.choices]), n) end
end

local function with(base, row, value)
  if not row.within then return joined(base, { [row.name] = value }) end
  local inner = type(base[row.within]) == "table" and base[row.within] or {}
  return joined(base, { [row.within] = joined(inner, { [row.name] = value }) })
end

--- The texts of so many questions, spread over all of them.
---@param count integer?  300
---@return string[]
function questions.list(count)
  local all = {}
  for _, one in ipairs(OTHERS) do
    local question = { ask = one[1], with = one[2], fields = one.fields, id = one.id }
    all[#all + 1] = json.encode(question, { indent = 0 })
  end
  all[#all + 1] = '{"ask": "train", "wiht": {}}'
  for _, name in ipairs(check.names(rows_of)) do
    all[#all + 1] = json.encode({ ask = name, with = BASE[name] }, { indent = 0 })
    for n, row in ipairs(rows_of[name].rows()) do
      local value = value_of(check.describe(row.check), n)
      -- All figures are long: most questions want some, as those of programs do.
      local fields = n % 8 ~= 0 and { "time", "memory", "rows", "tpot", "step", "throughput" } or nil
      if value ~= nil then
        local question = { ask = name, id = n, with = with(BASE[name], row, value), fields = fields }
        all[#all + 1] = json.encode(question, { indent = 0 })
      end
    end
  end
  local list, wanted = {}, math.min(count or 300, #all)
  for i = 1, wanted do list[i] = all[1 + (i - 1) * #all // wanted] end
  return list
end

if arg and arg[0] and arg[0]:find "questions%.lua$" then
  for _, text in ipairs(questions.list(tonumber(arg[1]))) do print(text) end
end

return questions
