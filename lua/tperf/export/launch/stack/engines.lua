--- What the servers' exports share.
local format = require "tperf.export.launch.format"

local engines = {}

--- Separate replicas, which share nothing, are so many servers of their own: notes it, and leaves one.
function engines.alone(n, w)
  if n.dp > 1 and not n.shared then
    w.note("start %d of these servers behind a balancer: replicas share nothing", n.dp)
    n.replicas, n.dp = n.dp, 1
  end
end

--- The model's name as the servers take it, which is the user's.
function engines.model(n, w)
  if n.model then w.note("MODEL is the path or the name of %s", n.model.name) end
  return "MODEL"
end

--- Weights in 8 bits, quantized as they are loaded; else the model's files must be so.
function engines.weights(n, w, option)
  if n.weight_dtype == "fp8" and option then return w.put(option, "fp8") end
  if n.weight_dtype ~= "bf16" then w.note("MODEL has weights in %s", n.weight_dtype) end
end

function engines.script(w, command)
  return "#!/bin/bash\n" .. format.notes(w.notes) .. format.command(command, w.list)
end

return engines
