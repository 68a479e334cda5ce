-- A simulator of pipelines for these experiments, which shares nothing with tperf's: it looks at all queues again and
-- again and starts whatever can start. A pass is { kind, stage, microbatch }, with kinds F, B, D and W.
local simulator = {}

local function key(kind, stage, microbatch) return kind .. stage .. "/" .. microbatch end

---@param queues table[][]   passes by device, in order
---@param o table   stages; time = function(device, kind, stage, microbatch); send = function(from, to): seconds
---@return number makespan, table<string, { start: number, stop: number }> passes, number[] busy
function simulator.run(queues, o)
  local home, next_of, free, busy, done = {}, {}, {}, {}, {}
  for device, queue in ipairs(queues) do
    next_of[device], free[device], busy[device] = 1, 0, 0
    for _, pass in ipairs(queue) do home[key(table.unpack(pass))] = device end
  end
  local function arrival(device, kind, stage, microbatch)
    local name = key(kind, stage, microbatch)
    local one = done[name]
    if not one then return nil end
    local from = home[name]
    return one.stop + (from ~= device and o.send(from, device) or 0)
  end
  local function whole(stage, microbatch) return home[key("B", stage, microbatch)] and "B" or "D" end
  local function ready(device, kind, stage, microbatch)
    if kind == "F" then return stage == 1 and 0 or arrival(device, "F", stage - 1, microbatch) end
    if kind == "W" then return arrival(device, "D", stage, microbatch) end
    local own = arrival(device, "F", stage, microbatch)
    if stage == o.stages then return own end
    local grad = arrival(device, whole(stage + 1, microbatch), stage + 1, microbatch)
    return own and grad and math.max(own, grad)
  end
  local moved, left = true, true
  while moved do
    moved, left = false, false
    for device, queue in ipairs(queues) do
      local pass = queue[next_of[device]]
      while pass do
        local at = ready(device, table.unpack(pass))
        if not at then
          left = true
          break
        end
        local start, seconds = math.max(at, free[device]), o.time(device, table.unpack(pass))
        done[key(table.unpack(pass))] = { start = start, stop = start + seconds }
        free[device], busy[device], moved = start + seconds, busy[device] + seconds, true
        next_of[device] = next_of[device] + 1
        pass = queue[next_of[device]]
      end
    end
  end
  assert(not left, "deadlock")
  return math.max(table.unpack(free)), done, busy
end

--- Queues of 1F1B: as many forwards ahead as there are devices behind.
function simulator.one_f_one_b(devices, microbatches)
  local queues = {}
  for d = 1, devices do
    local queue, ahead = {}, math.min(devices - d, microbatches)
    for m = 1, ahead do queue[#queue + 1] = { "F", d, m } end
    for m = 1, microbatches do
      if ahead + m <= microbatches then queue[#queue + 1] = { "F", d, ahead + m } end
      queue[#queue + 1] = { "B", d, m }
    end
    queues[d] = queue
  end
  return queues
end

--- Numbers from 0 to 1 that are the same everywhere (MINSTD).
function simulator.random(seed)
  return function()
    seed = seed * 48271 % 2147483647
    return seed / 2147483647
  end
end

return simulator
