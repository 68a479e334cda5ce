--- The layers of each pipeline stage, if they are not distributed evenly.
local check = require "tperf.base.check"

local pipeline_layout = {}

local MOST_STAGES <const> = 1 << 14

local some_layers = check.integer { min = 0, max = 1 << 20, optional = true }

--- Rows of tperf.question.arguments.
pipeline_layout.arguments = {
  { name = "pipeline_layout", group = "pipeline", check = check.one_of_or_nil(check.string(),
    check.list(check.integer { min = 0, max = 1 << 20 }, { min = 1, max = MOST_STAGES })),
    doc = "layers of each stage: Megatron-LM's layout string, or 7,8,8,7",
    more = "In \"Et*3|(tt|)*29m|L\", E is the embedding, t a layer, m a module of multi-token prediction, L the head "
      .. "and the loss, and | ends a stage. Stages are in the order of the model; virtual stages go round the devices.",
    option = { value = "LAYOUT", kind = "string" } },
  { name = "first_stage_layers", group = "pipeline", check = some_layers, doc = "layers of the first device",
    more = "The other devices share the rest evenly." },
  { name = "last_stage_layers", group = "pipeline", check = some_layers, doc = "layers of the last device" },
  { name = "account_for_embedding", group = "pipeline", check = check.boolean { default = false },
    doc = "count the embedding as a layer when layers are placed" },
  { name = "account_for_loss", group = "pipeline", check = check.boolean { default = false },
    doc = "count the head and the loss as a layer, likewise" },
}

local MOST_NESTED <const> = 8 -- nested brackets

-- The string with repetitions expanded: "(tt|)*2" becomes "tt|tt|", as does "(t*2|)*2".
local function expanded(text, fail, depth)
  local out, size = {}, 0
  if depth > MOST_NESTED then fail("has more than %d brackets in each other", MOST_NESTED) end
  local function add(piece)
    size = size + #piece
    if size > MOST_STAGES * 16 then fail("is longer than %d letters, written out", MOST_STAGES * 16) end
    out[#out + 1] = piece
  end
  local at = 1
  while at <= #text do
    local group, after = text:match("^(%b())()", at)
    local piece = group and expanded(group:sub(2, -2), fail, depth + 1) or text:match("^[EtmL|]", at)
    if not piece and text:find "^%d" then
      fail("begins with a number: as a list of layers it needs one for each stage, and nothing else: 8,8,7,7")
    end
    if not piece then
      fail("has %q at letter %d: letters are E, t, m and L, | ends a stage, *N repeats one, or what is in ( )",
        text:sub(at, at), at)
    end
    at = after or at + 1
    local times, past = text:match("^%*(%d+)()", at)
    at = past or at
    local count = math.min(math.tointeger(tonumber(times or "1")) or math.huge, MOST_STAGES * 16 + 1)
    if #piece * count > MOST_STAGES * 16 then fail("is longer than %d letters, written out", MOST_STAGES * 16) end
    add(piece:rep(count))
  end
  return table.concat(out)
end

-- The contents of each stage in a string: { E =, t =, m =, L = counts }.
local function read(text)
  local function fail(format, ...)
    check.fail("pipeline_layout '%s' " .. format, #text > 60 and text:sub(1, 57) .. "..." or text, ...)
  end
  local stages = {}
  for stage in (expanded((text:gsub("[%s,]", "")), fail, 1) .. "|"):gmatch "([^|]*)|" do
    local counts = { E = 0, t = 0, m = 0, L = 0 }
    for letter in stage:gmatch "." do counts[letter] = counts[letter] + 1 end
    stages[#stages + 1] = counts
  end
  for i, stage in ipairs(stages) do
    if (i == 1) ~= (stage.E == 1) then fail "must have one E, in its first stage" end
    if (i == #stages) ~= (stage.L == 1) then fail "must have one L, in its last stage" end
    if stage.t + stage.m == 0 and i > 1 and i < #stages then fail("has nothing in stage %d of %d", i, #stages) end
  end
  return stages, fail
end

--- The number of stages in a string.
---@param text string
---@return integer
function pipeline_layout.stages(text) return #(read(text)) end

-- Layers of each stage. If modules of multi-token prediction stand before the last stage (`apart`), they count as
-- layers.
local function from_string(text, m)
  local stages, fail = read(text)
  local dealt, layers, modules, apart = {}, 0, 0, false
  for i, stage in ipairs(stages) do
    layers, modules = layers + stage.t, modules + stage.m
    if stage.m > 0 and i < #stages then apart = true end
    if modules > 0 and stage.t > 0 and stage.m == 0 then fail "has layers after modules of multi-token prediction" end
  end
  if layers ~= m.layers then fail("has %d layers, the model %d", layers, m.layers) end
  if modules > 0 and modules ~= m.mtp then
    fail("has %d modules of multi-token prediction, the model %d", modules, m.mtp)
  end
  for i, stage in ipairs(stages) do dealt[i] = stage.t + (apart and stage.m or 0) end
  return dealt, apart
end

local function from_list(list, m)
  local layers = 0
  for i, n in ipairs(list) do
    layers = layers + n
    if n == 0 and i > 1 and i < #list then check.fail("pipeline_layout has no layer in stage %d of %d", i, #list) end
  end
  if layers ~= m.layers then check.fail("pipeline_layout has %d layers, the model %d", layers, m.layers) end
  return list, false
end

-- Splits a number into n even parts, the larger ones in the middle, as the core distributes layers.
local function even(total, n)
  local list, full = {}, (total + n - 1) // n
  local missing = full * n - total
  for c = 0, n - 1 do list[c + 1] = full - (math.min(2 * (n - 1 - c), 2 * c + 1) < missing and 1 or 0) end
  return list
end

-- The layers of each stage with those of the first or last device given and the others even.
local function with_ends(o, layers, pp, chunks)
  local first, last = o.first_stage_layers, o.last_stage_layers
  local between = pp - (first and 1 or 0) - (last and 1 or 0)
  local rest = layers - (first or 0) - (last or 0)
  if pp < 2 or rest < between or between == 0 and rest > 0 then return nil end
  if (first or 0) % chunks ~= 0 or (last or 0) % chunks ~= 0 then return nil end
  local others, list = between > 0 and even(rest, between * chunks) or {}, {}
  local next_one = 1
  for _ = 1, chunks do
    for device = 1, pp do
      local own = device == 1 and first or device == pp and last or nil
      list[#list + 1] = own and own // chunks or others[next_one]
      if not own then next_one = next_one + 1 end
    end
  end
  return list
end

local function accounted(o, layers, n)
  local first, last = o.account_for_embedding and 1 or 0, o.account_for_loss and 1 or 0
  if layers + first + last < n then return nil end
  local list = even(layers + first + last, n)
  list[1], list[n] = list[1] - first, list[n] - last
  return list
end

--- The names of the given fields, for messages.
---@return string
function pipeline_layout.asked(o)
  local names = {}
  for _, row in ipairs(pipeline_layout.arguments) do
    if o[row.name] then names[#names + 1] = "'" .. row.name .. "'" end
  end
  table.sort(names)
  return table.concat(names, ", ")
end

--- The distribution of a model's layers: function(pp, chunks) -> list of layers of each of pp x chunks stages, nil
--- if such stages are impossible, or false for the default, even distribution. nil if no field is given.
---@param o table  checked arguments, with the fields above
---@param m table  the model
---@return function|nil deal, boolean apart  whether modules of multi-token prediction are separate layers
function pipeline_layout.of(o, m)
  local layout = o.pipeline_layout
  local ends, counted = o.first_stage_layers or o.last_stage_layers, o.account_for_embedding or o.account_for_loss
  if (layout and 1 or 0) + (ends and 1 or 0) + (counted and 1 or 0) > 1 then
    check.fail("give one of 'pipeline_layout', layers of the first and last stage, and 'account_for_embedding' or "
      .. "'account_for_loss'")
  end
  if layout then
    local dealt, apart = (type(layout) == "string" and from_string or from_list)(layout, m)
    return function(pp, chunks) return pp * chunks == #dealt and dealt or nil end, apart
  end
  if ends then return function(pp, chunks) return with_ends(o, m.layers, pp, chunks) end, false end
  if counted then
    return function(pp, chunks) return pp > 1 and accounted(o, m.layers, pp * chunks) end, false
  end
  return nil, false
end

return pipeline_layout
