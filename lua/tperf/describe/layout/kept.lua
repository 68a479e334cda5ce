--- What a sequence keeps between the steps of decoding, as a custom architecture's ops and groups say it. Attention
--- reads some number of keys, a function of the tokens so far: it is looked at after one token, and where many have
--- passed.
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"

local kept = {}

local MANY <const> = 1 << 15 -- tokens; half as many, too: rounded-up numbers of keys are whole there
local NEAR <const> = 1e-9

local keeps_schema = {
  token = check.number { min = 0, default = 0 }, sequence = check.number { min = 0, default = 0 },
  window = check.integer { min = 0, max = 1 << 31, default = 0 },
}

-- What a group says of one of its layers, by itself or as a function of the model and the share; nil: nothing.
local function of_group(model, group, share)
  local keeps = group and group.keeps
  if type(keeps) == "function" then keeps = keeps(frozen.show(model), share) end
  if keeps == nil then return nil end
  return check.record(("tperf.architecture: group '%s': 'keeps'"):format(group.key), keeps, keeps_schema)
end

-- Adds what the ops of a section state to `list`; returns bytes of keys by window, of the other ops.
local function of_ops(section, list)
  local bytes = {}
  for _, block in ipairs(section) do
    for _, one in ipairs(block) do
      local token, sequence, window, keys, key_bytes, stated = one:kept()
      if (stated or sequence > 0) and list then
        list[#list + 1] = { token_bytes = token, most_tokens = window, state_bytes = sequence }
      end
      if not stated and keys > 0 then bytes[window] = (bytes[window] or 0) + keys * key_bytes end
    end
  end
  return bytes
end

-- What keeps so many bytes after 1, MANY / 2 and MANY tokens. A number of keys that does not grow in the end has grown
-- to it as it began.
local function of_bytes(first, half, all, window)
  local slope = (all - half) / (MANY / 2)
  local function made(token, most, state) return { token_bytes = token, most_tokens = most, state_bytes = state } end
  if slope > 0 then
    local rest = all - slope * MANY
    if rest >= -NEAR * all then return made(slope, window, math.max(rest, 0)) end
    return made(all / MANY, window, 0)
  end
  if all > first and first > 0 then return made(first, window > 0 and window or all / first, 0) end
  return made(0, 0, all)
end

local function add(sum, part)
  if part.token_bytes == 0 and part.state_bytes == 0 then return end
  for _, known in ipairs(sum) do
    if known.section == part.section and known.most_tokens == part.most_tokens then
      known.token_bytes, known.state_bytes = known.token_bytes + part.token_bytes, known.state_bytes + part.state_bytes
      return
    end
  end
  sum[#sum + 1] = part
end

--- The caches of a model's sections.
---@param all table  of tperf.describe.layout.sections, with an architecture
---@param sizes integer[]
---@param variant_of fun(context: integer): table  the variant of a decode step after so many tokens
---@return table[] list  see tperf.question.infer.deployment
function kept.of(all, sizes, variant_of)
  local function laid(context) return (all:ops(sizes, 1, variant_of(context))) end
  local first, half, many, sum = laid(0), laid(MANY // 2 - 1), laid(MANY - 1), {}
  for i, section in ipairs(first) do
    local group, list = all.kinds[i], {}
    local said = of_group(all.model, group, all:share(sizes, variant_of(0), group))
    if said then
      list[1] = { token_bytes = said.token, most_tokens = said.window, state_bytes = said.sequence }
    else
      local bytes, halves, alls = of_ops(section, list), of_ops(half[i]), of_ops(many[i])
      for window, b in pairs(alls) do
        list[#list + 1] = of_bytes(bytes[window] or 0, halves[window] or 0, b, window)
      end
    end
    table.sort(list, function(a, b) return a.most_tokens < b.most_tokens end)
    for _, part in ipairs(list) do
      part.section = i
      add(sum, part)
    end
  end
  return sum
end

return kept
