--- What the servers' exports share.
local format = require "tperf.export.launch.format"

local engines = {}

--- Independent replicas share nothing, so they are separate servers: notes their number, and leaves one.
function engines.alone(n, w)
  if n.dp > 1 and not n.shared then
    w.note("start %d of these servers behind a balancer: replicas share nothing", n.dp)
    n.replicas, n.dp = n.dp, 1
  end
end

--- The model's name for the servers, a placeholder that the user replaces.
function engines.model(n, w)
  if n.model then w.note("MODEL is the path or the name of %s", n.model.name) end
  return "MODEL"
end

--- Quantizes weights to 8 bits on loading, if `option` is given; else notes that the model's files must be quantized.
function engines.weights(n, w, option)
  if n.weight_dtype == "fp8" and option then return w.put(option, "fp8") end
  if n.weight_dtype ~= "bf16" then w.note("MODEL has weights in %s", n.weight_dtype) end
end

function engines.script(w, command)
  return "#!/bin/bash\n" .. format.notes(w.notes) .. format.command(command, w.list)
end

return engines
