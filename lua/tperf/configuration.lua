--- Configurations: what tperf.search returns and tperf.train explains.
local configuration = {}

local function fast_of(s, found)
  local fast = { dp = found.dp_fast, pp = found.pp_fast }
  for i, name in ipairs(s.axis_names) do fast[name] = found.fast[i] end
  return fast
end

-- Useful FLOPs of an iteration, over what the GPUs could do in that time at the tensor peak: model FLOPs utilisation
-- as in PaLM (arXiv 2204.02311, appendix B), recomputation and attention's masked half not counted.
local function utilisation(c, question)
  question.flops_per_token = question.flops_per_token or question.model:flops_per_token().total
  local peak = question.system.accelerator.tensor.bf16
  return question.flops_per_token * c.tokens_per_second / (question.gpus * peak)
end

--- The record of a candidate.
---@param question table  { model, system, gpus, global_batch, rules, training, pipelines, pipeline_list }
---@param s table         its strategy
---@param network userdata  laid out for it
---@param found table     sizes, fast, dp, pipeline, dp_fast, pp_fast, micro_batch, panels, zero
---@return table configuration
function configuration.of(question, s, network, found)
  local run = {
    global_batch = question.global_batch, dp = found.dp, pipeline = found.pipeline, micro_batch = found.micro_batch,
    panels = found.panels, zero = found.zero, dp_fast = found.dp_fast, pp_fast = found.pp_fast,
  }
  local c = network:iteration(question.system, question.rules, question.training, question.pipelines, run, found.fast)
  local pipeline = question.pipeline_list[found.pipeline]
  c.strategy, c.gpus, c.global_batch = s.name, question.gpus, question.global_batch
  for i, name in ipairs(s.axis_names) do c[name] = found.sizes[i] end
  c.dp, c.pp, c.micro_batch, c.zero = found.dp, pipeline.pp, found.micro_batch, found.zero
  c.schedule, c.virtual_stages = pipeline.schedule, pipeline.virtual_stages
  c.panels = s.panels and found.panels or nil
  c.microbatches = question.global_batch // found.dp // found.micro_batch
  c.fast = fast_of(s, found)
  c.throughput = question.global_batch / c.time
  c.tokens_per_second = c.throughput * question.model.seq
  c.feasible = c.memory.total <= question.system.accelerator.hbm.capacity * (1 - question.training.reserved)
  c.mfu = utilisation(c, question)
  return c
end

return configuration
