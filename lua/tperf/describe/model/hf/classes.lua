--- What follows the layers of a decoder, by the class of transformers that a file's "architectures" names: the output
-- table, a head of a few classes, or nothing. Encoders and images have their own (hf/encoders.lua, hf/images.lua).
local check = require "tperf.base.check"

local classes = {}

-- What a class has in place of the output table, by the end of its name: rows ("labels": as many as the file says) and
-- whether they have biases. Decoders that classify sequences are reward models, of one score, unless labels are named.
local ENDS <const> = {
  { "ForSequenceClassification$", rows = "labels" }, { "ForTokenClassification$", rows = "labels", bias = true },
  { "ForQuestionAnswering$", rows = 2, bias = true }, { "^InternLM2ForRewardModel$", rows = 1 },
}

-- Classes with an output table.
local GENERATING <const> = { "ForCausalLM$", "ForConditionalGeneration$", "LMHeadModel$", "^ChatGLMModel$",
  "ForMaskedLM$", "ForPreTraining$", "ForVision2Seq$", "ForImageTextToText$", "ForMultimodalLM$" }

-- Other ends of classes that are known to be no plain decoder.
local BEYOND <const> = {
  { "[Ee]agle", "a draft of EAGLE, with a projection of hidden states" },
  { "EAGLE", "a draft of EAGLE, with a projection of hidden states" },
  { "NextN$", "modules of multi-token prediction alone" }, { "MTP", "modules of multi-token prediction alone" },
  { "Medusa", "heads of Medusa" }, { "Bidirectional", "attention without a causal mask" },
  { "Reward", "a head that its own code defines" }, { "Embed", "a pooling that its own code defines" },
}

local function matches(class, patterns)
  for _, pattern in ipairs(patterns) do
    if class:find(pattern) then return true end
  end
  return false
end

--- The classes of a classifier: num_labels, else as many as id2label has, else the class's default.
---@param c table  reader
---@param default integer?  two, as transformers has it
---@return integer
function classes.labels(c, default)
  local named = 0
  for _ in pairs(c:table "id2label" or {}) do named = named + 1 end
  return c:count("num_labels", named > 0 and named or default or 2)
end

-- The class of a file, and the reader of the part that names it: the text model's, else the whole's.
local function class_of(c)
  local reader = c
  while reader do
    local class = (reader:table "architectures" or {})[1]
    if type(class) == "string" then return class, reader end
    reader = reader.outer
  end
end

--- Sets what follows the layers of a text model, if its class has no output table.
---@param c table  reader
---@param m table  the unfinished description
function classes.set(c, m)
  local class, where = class_of(c)
  if not class or m.encoder or m.vision or m.encoder_stack then return end
  for _, one in ipairs(BEYOND) do
    if class:find(one[1]) then
      where:fail("architectures", "[1] = %s is not modelled: it has %s (docs/architectures.md)", check.show(class),
        one[2])
    end
  end
  for _, one in ipairs(ENDS) do
    if class:find(one[1]) then
      m.classes = one.rows == "labels" and classes.labels(where, not one.bias and 1 or nil) or one.rows
      m.biases = m.biases or { mlp = false }
      if type(m.biases) == "table" then m.biases.head = one.bias or false end
      return
    end
  end
  if where ~= c or matches(class, GENERATING) then return end -- a model around the text model has a name of its own
  if class:find "^%u%w*Model$" then
    m.classes = 0
  else
    where:fail("architectures", "[1] = %s is not known: it may have another head; known are classes that end in "
      .. "ForCausalLM, ForSequenceClassification, ForTokenClassification and Model; set it to null where the model "
      .. "has an output table (docs/architectures.md)", check.show(class))
  end
end

return classes
