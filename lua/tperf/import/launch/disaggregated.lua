--- YAML recipes of servers with roles (prefill, decode): backend.vllm_config, sglang_config or trtllm_config, and
-- resources with the numbers of workers.
local check = require "tperf.base.check"

local disaggregated = {}

local BACKENDS <const> = { vllm_config = "vLLM", sglang_config = "SGLang", trtllm_config = "TensorRT-LLM" }

--- If the content is such a recipe, returns its stack and the key of its settings.
function disaggregated.recognise(content)
  local backend = type(content.backend) == "table" and content.backend
  for key, stack in pairs(BACKENDS) do
    if backend and type(backend[key]) == "table" then return stack, key end
  end
end

--- Returns { prefill = {…}, decode = {…}, total_gpus }, with each role read by `read(tree, path)`; a single role is
--- returned as the launch itself.
function disaggregated.read(content, key, read)
  local r, total, names = {}, 0, {}
  local resources = type(content.resources) == "table" and content.resources or {}
  local roles = content.backend[key]
  for _, role in ipairs(check.names(roles)) do
    if type(roles[role]) == "table" then
      local one = read(roles[role], "backend." .. key .. "." .. role)
      local key_of_workers = (role == "aggregated" and "agg" or role) .. "_workers"
      one.workers = math.tointeger(resources[key_of_workers] or 1)
      if not one.workers or one.workers < 1 then
        check.fail("resources.%s must be an integer from 1 on, got %s", key_of_workers,
          check.show(resources[key_of_workers]))
      end
      r[role], names[#names + 1] = one, role
      total = total + one.workers * one.gpus
    end
  end
  if #names == 1 then -- a single role
    for _, name in ipairs(check.names(r[names[1]])) do
      if r[name] == nil then r[name] = r[names[1]][name] end
    end
  end
  r.total_gpus = total
  return r
end

return disaggregated
