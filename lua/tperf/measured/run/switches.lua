--- The overlap of a published run, from its row's columns: arguments of tperf.train. Anything else is
-- left to the stack's profile; so is the overlap of data parallelism, to which `overlap` is fitted, and of tensor
-- parallelism, because refitted profiles that use it predict held-out runs worse.
local graphs = require "tperf.describe.arch.graphs"
local read = require "tperf.measured.read"

-- "flex": of Megatron-Bridge's recipes that name no back end, for which it leaves the dispatcher as it is
-- (flex_dispatcher_backend.py: "Not a valid flex dispatcher backend. Skipping"); up to 25.11 it skips DeepEP on B200s,
-- too. Releases that name the all-to-all take as long for the same layouts.
local DISPATCHERS <const> = { alltoall = "alltoall", allgather = "allgather", deepep = "deepep", hybridep = "hybridep",
  flex = "alltoall" }

local graphed = {}
for _, name in ipairs(graphs.modules) do graphed[name] = true end

-- TransformerEngine's graphs: of the modules named, else of whole layers ("layer": LAYER_CUDA_GRAPH of MLPerf's
-- configurations). Those of the whole iteration and Megatron's own take away all launches (step.lua).
local function graphs_of(row)
  local list = {}
  local text = read.text(row.cuda_graph)
  local modules = text == "layer" and "" or text:match "^transformer_engine:?(.*)"
  for name in (modules or ""):gmatch "[^+]+" do list[#list + 1] = graphed[name] and name or nil end
  if modules == "" or modules == "full" then list[1] = "layer" end
  return list[1] and list or nil
end

---@param row table     text by column
---@param sizes table   { tp, ep, dp, pp … }
---@param model table|false  false: it is not valid
---@return table switches
return function(row, sizes, model)
  local s = { cuda_graphs = graphs_of(row) }
  if sizes.ep > 1 then
    s.moe_dispatcher = DISPATCHERS[read.text(row.moe_dispatcher)]
    s.overlap_moe_a2a = read.text(row.overlap_moe_a2a) == "1" or nil
    local shares = model and model.experts and model.experts.shared > 0 and not s.overlap_moe_a2a
    s.overlap_shared_experts = shares and read.text(row.moe_shared_expert_overlap) == "1" or nil
    s.delay_wgrad = s.overlap_moe_a2a and read.text(row.delay_wgrad) == "1" or nil
  end
  return s
end
