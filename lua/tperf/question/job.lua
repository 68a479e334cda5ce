--- tperf.job: a whole fine-tuning job, examples x epochs of a distribution of lengths, as iterations, hours, dollars
--- and peak memory.
local check = require "tperf.base.check"
local cost = require "tperf.question.cost"
local lists = require "tperf.base.lists"
local model = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local routing = require "tperf.describe.arch.experts.routing"
local train = require "tperf.question.train"

local WHAT <const> = "tperf.job"
local MOST_LENGTHS <const> = 1 << 20

local count = check.integer { min = 1, max = 1 << 40 }
local schema = {
  examples = count,
  epochs = check.integer { min = 1, max = 1 << 20, default = 1 },
  lengths = check.list(check.integer { min = 1, max = 1 << 31 }, { min = 1, max = MOST_LENGTHS }),
  batching = check.choice { { "packed", "padded" }, default = "packed" },
  multiple = check.integer { min = 1, max = 1 << 20, default = 64 },
  price = check.number { min = 0, max = 1e9, optional = true },
}

local job = {}

-- Tokens of examples, the longest first, none longer than a sequence.
local function cut(lengths, seq)
  local list = {}
  for i = 1, #lengths do list[i] = math.min(lengths[i], seq) end
  table.sort(list, function(a, b) return a > b end)
  return list
end

--- The sequences that best-fit decreasing packs documents into: each, the longest first, into the fullest sequence that
--- has room (Ding et al., arXiv 2404.10830, section 3; TRL's, Axolotl's and ms-swift's packing).
---@param lengths integer[]  the longest first, at most seq each
---@param seq integer
---@return integer
function job.packed(lengths, seq)
  local open, sequences, rooms = {}, 0, {} -- room -> sequences with so much; rooms: those that any has, ascending
  local function place(room)
    local low, high = 1, #rooms + 1
    while low < high do
      local middle = (low + high) // 2
      if rooms[middle] < room then low = middle + 1 else high = middle end
    end
    return low
  end
  for _, length in ipairs(lengths) do
    local at = place(length)
    local room = rooms[at]
    if room then
      open[room] = open[room] - 1
      if open[room] == 0 then table.remove(rooms, at) end
    else
      room, sequences = seq, sequences + 1
    end
    local left = room - length
    if left > 0 then
      if (open[left] or 0) == 0 then table.insert(rooms, place(left), left) end
      open[left] = (open[left] or 0) + 1
    end
  end
  return sequences
end

local MOST_SHAPES <const> = 4096 -- of documents, which decide how many tokens see each other

local FEW <const> = 4096 -- documents: of a smaller sample of more examples, each stands for several

-- A sorted sample of lengths as a data set of as many examples, or enough of them to fill sequences.
local function drawn(list, examples)
  local times = math.ceil(math.min(examples, FEW) / #list)
  if times == 1 then return list end
  local all = {}
  for i, length in ipairs(list) do
    for k = 1, times do all[(i - 1) * times + k] = length end
  end
  return all
end

local function question_of(given, changes)
  local q = {}
  for name, value in pairs(given) do
    if not schema[name] then q[name] = value end
  end
  for name, value in pairs(changes) do q[name] = value end
  if q.routing == nil and q.imbalance == nil and model(q.model).experts then q.routing = "finetuning" end
  return q
end

-- Sequences of whole documents: all steps are alike.
local function pack(given, o, list, seq)
  local documents = drawn(list, o.examples)
  local per = job.packed(documents, seq) / #documents
  local sequences = math.ceil(o.examples * per)
  local q = question_of(given, { seq = seq, packing = { lengths = lists.spread(list, MOST_SHAPES) } })
  local c = train.run(q)
  return { question = q, configuration = c, sequences = sequences, time = c.time,
    steps = math.ceil(sequences / c.global_batch), computed = 1.0 * sequences * seq }
end

local POINTS <const> = 16 -- of the distribution of a micro-batch's longest example

-- Every micro-batch is as long as its longest example. Replicas wait for the slowest at the end of a step, or, if they
-- gather weights (ZeRO 3), in every micro-batch.
local function pad(given, o, list, seq)
  local function rounded(length) return math.min(math.ceil(length / o.multiple) * o.multiple, seq) end
  local longest = question_of(given, { seq = rounded(list[1]) })
  local c, times = train.run(longest), {}
  times[rounded(list[1])] = c.time
  local together = c.micro_batch * (c.zero >= 3 and c.dp or 1)
  local each, sum, squares, tokens = {}, 0.0, 0.0, 0.0
  for k = 1, POINTS do
    local below = ((k - 0.5) / POINTS) ^ (1 / together) -- of the examples, the longest of these is longer than so many
    local seq_of = rounded(list[math.max(math.ceil((1 - below) * #list), 1)])
    times[seq_of] = times[seq_of] or train.run(question_of(given, { seq = seq_of })).time
    each[k], sum, tokens = times[seq_of], sum + times[seq_of], tokens + seq_of
  end
  local mean = sum / POINTS
  for k = 1, POINTS do squares = squares + (each[k] - mean) ^ 2 end
  local spread = math.sqrt(squares / POINTS / c.microbatches)
  local waits = c.zero < 3 and routing.largest(c.dp) * spread or 0
  return { question = longest, configuration = c, sequences = o.examples, time = mean + waits,
    steps = math.ceil(o.examples / c.global_batch), computed = o.examples * tokens / POINTS }
end

-- The cost of a job, whose steps take other than its configuration's time.
local function cost_of(found, o, seconds, system)
  local c = found.configuration
  local ratio = found.time / c.time
  local interval = c.interval and { low = c.interval.low * ratio, high = c.interval.high * ratio }
  local tokens = found.computed * o.epochs
  return cost({ gpus = c.gpus, idle = c.idle, time = found.time, tokens_per_second = tokens / seconds,
    interval = interval, breakdown = found.time == c.time and c.breakdown or nil,
  }, { tokens = tokens, system = system, price = o.price })
end

--- A fine-tuning job. Examples longer than a sequence are cut. Of a sample of lengths, examples have its distribution.
---@param given table  the arguments of tperf.train, `seq` the longest that a sequence may be, and
---  examples   of the data set
---  epochs     times that all are seen (1)
---  lengths    tokens of examples: all, or a sample, { 312, 1804 … }
---  batching   "packed" (the default): documents fill sequences, best-fit decreasing, and do not see each other;
---             "padded": each micro-batch is as long as its longest example
---  multiple   tokens that padded lengths are rounded up to a multiple of (64)
---  price      dollars per GPU-hour, in place of the system's
---@return table job  { examples, epochs, batching, sequences (of an epoch), steps (iterations of an epoch), iterations,
---  tokens (of examples, all epochs, cut), filled (tokens / tokens computed), time (of an iteration, s), seconds,
---  hours, memory (bytes, of the fullest GPU at its fullest), fit, cost (as tperf.cost gives), configuration (of a
---  packed sequence, or of the longest example) and question, the arguments of tperf.train that it is the answer to }
function job.run(given)
  if type(given) ~= "table" then check.fail("%s needs a table of arguments, got %s", WHAT, check.show(given)) end
  local own = {}
  for name in pairs(schema) do own[name] = given[name] end
  local o = check.record(WHAT, own, schema)
  if given.packing ~= nil then check.fail("%s: 'lengths' are those of 'packing': leave that out", WHAT) end
  if given.model == nil then check.fail("%s: 'model' is missing", WHAT) end
  local seq = given.seq or model(given.model).seq
  if math.type(seq) ~= "integer" or seq < 1 then
    check.fail("%s: 'seq' must be a positive integer, got %s", WHAT, check.show(seq))
  end
  local list, tokens = cut(o.lengths, seq), 0
  for _, length in ipairs(list) do tokens = tokens + length end
  tokens = tokens / #list * o.examples
  local found = (o.batching == "packed" and pack or pad)(given, o, list, seq)
  local c, iterations = found.configuration, found.steps * o.epochs
  local seconds = iterations * found.time
  return {
    examples = o.examples, epochs = o.epochs, batching = o.batching, sequences = found.sequences, steps = found.steps,
    iterations = iterations, tokens = tokens * o.epochs, filled = tokens / found.computed, time = found.time,
    seconds = seconds, hours = seconds / 3600, memory = c.memory.total, fit = c.fit,
    cost = cost_of(found, o, seconds, given.system), configuration = c, question = found.question,
  }
end

return job
