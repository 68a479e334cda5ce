-- What a stack keeps of a parameter, whatever the question that found a configuration kept: DeepSpeed has its own
-- gradients, which launch files that come from others tell it to add up in fp32; FSDP shards fp32.
local tperf = require "tperf"

--- A configuration as the stack runs it.
return function(stack, c)
  if stack == "torchtitan" then return tperf.train { configuration = c, sharding = "fsdp" } end
  if stack ~= "deepspeed" or c.zero == 0 then return c end
  return tperf.train { configuration = c, sharding = "deepspeed", gradients = c.zero < 3 and "fp32" or nil }
end
