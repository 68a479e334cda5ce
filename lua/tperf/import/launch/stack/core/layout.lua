--- Megatron's distribution of layers over stages and chunks.
local common = require "tperf.import.launch.stack.common"

local layout = {}

local LONGEST <const> = 1 << 13 -- letters: brackets are looked for from each one

-- Expands the repetitions in a layout such as "(tt|)*30mL".
local function unrolled(text, context, depth)
  if depth > 20 then context.fail "--pipeline-model-parallel-layout is nested too deep" end
  if #text > LONGEST then context.fail("--pipeline-model-parallel-layout has more than %d letters", LONGEST) end
  local function repeated(group, times)
    times = math.min(tonumber(times), LONGEST)
    if #group * times > LONGEST then
      context.fail("--pipeline-model-parallel-layout has more than %d letters", LONGEST)
    end
    return group:rep(times)
  end
  local count
  repeat
    text, count = text:gsub("(%b())%*(%d+)", function(group, times)
      return repeated(unrolled(group:sub(2, -2), context, depth + 1), times)
    end)
  until count == 0
  text = text:gsub("(%a)%*(%d+)", repeated)
  return (text:gsub("[()]", ""))
end

--- The number of layers of each chunk in a layout string, in the order of execution.
---@return integer[]
function layout.chunks(text, context)
  local list = {}
  text = unrolled(text:gsub("[\"'%s]", ""), context, 0)
  for chunk in (text .. "|"):gmatch "([^|]*)|" do
    if chunk:find "[^EtmL]" then
      context.fail("--pipeline-model-parallel-layout: '%s' has other letters than E, t, m and L", chunk)
    end
    list[#list + 1] = select(2, chunk:gsub("t", ""))
  end
  return list
end

local function from_layout(text, context, r)
  local chunks = type(text) == "table" and text or layout.chunks(text, context)
  r.pipeline_layout = chunks
  local sum = 0
  for _, layers in ipairs(chunks) do sum = sum + layers end
  if r.model.layers and sum ~= r.model.layers then
    context.fail("--pipeline-model-parallel-layout has %d layers, the model %d", sum, r.model.layers)
  end
  return common.divided(context, #chunks, r.pp, "pp in the chunks of --pipeline-model-parallel-layout")
end

--- Sets r.vp, the chunks per device, and r.pipeline_layout if the file gives it.
function layout.read(s, context, r)
  local counts = {}
  local each = s:set "--num-layers-per-virtual-pipeline-stage"
  local stages = s:set "--num-virtual-stages-per-pipeline-rank"
  local text = s:set "--pipeline-model-parallel-layout"
  for _, one in ipairs { each or false, stages or false, text or false } do
    if one then counts[#counts + 1] = one end
  end
  if #counts > 1 then
    context.fail "virtual stages are said twice: give one of --num-layers-per-virtual-pipeline-stage, "
  end
  r.vp = 1
  if text then
    r.vp = from_layout(text, context, r)
  elseif stages then
    r.vp = common.size(context, stages, "--num-virtual-stages-per-pipeline-rank")
  elseif each then
    local layers = r.model.layers or context.need("--num-layers", "the layers of the model")
    if s:get "--account-for-embedding-in-pipeline-split" then layers = layers + 1 end
    if s:get "--account-for-loss-in-pipeline-split" then layers = layers + 1 end
    local stage = common.divided(context, layers, r.pp, "pp in the layers")
    r.vp = common.divided(context, stage, common.size(context, each, "--num-layers-per-virtual-pipeline-stage"),
      "--num-layers-per-virtual-pipeline-stage in the layers of a stage")
  end
  local least = s:set "--no-overlap-p2p-communication" ~= nil and 3 or 2
  if r.vp > 1 and r.pp < least then
    context.fail("virtual stages need pp of at least %d, got %d", least, r.pp)
  end
end

return layout
