--- The memory of each device of a pipeline as a table, for `train` and `memory`.
local stages = {}

--- The parts of a GPU's memory, in the order in which they are told.
stages.parts = { "weights", "gradients", "optimizer", "activations", "passing", "buffers" }

--- A row for each run of neighbours that hold the same.
---@param c tperf.configuration  of tperf.train
function stages.rows(c)
  local rows = {}
  for i, stage in ipairs(c.stages) do
    local last = stage.device + stage.repeats - 1
    local row = {
      devices = (stage.repeats > 1 and "%d-%d" or "%d"):format(stage.device, last), layers = stage.layers,
      in_flight = math.min(stage.in_flight, c.microbatches), total = stage.memory.total,
      ends = (stage.first and "first" or "") .. (stage.first and stage.last and ", " or "")
        .. (stage.last and "last" or ""),
    }
    for _, part in ipairs(stages.parts) do row[part] = stage.memory[part] end
    rows[i] = row
  end
  return rows
end

-- The parts, so that they add up, are what a narrow table keeps.
stages.columns = {
  { key = "devices", title = "stages", align = "right" }, { key = "layers", wide = 1 },
  { key = "in_flight", title = "in flight", wide = 3 },
}
for _, part in ipairs(stages.parts) do
  stages.columns[#stages.columns + 1] = { key = part, unit = "bytes", digits = 3 }
end
table.move({ { key = "total", unit = "bytes", digits = 3 }, { key = "ends", wide = 2 } }, 1, 2,
  #stages.columns + 1, stages.columns)

return stages
