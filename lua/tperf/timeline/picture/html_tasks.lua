--- The tasks of a timeline as data for an HTML page: each of the core's lists once, and its occurrences by device.
local json = require "tperf.output.json"
local number = require "tperf.output.number"
local palette = require "tperf.timeline.picture.palette"
local tasks = require "tperf.timeline.tasks"

local WHEN = { first = 1, last = 2 }

-- A list sorted by start, six numbers a task: rows (bit mask), kind, when, start, stop, index of its text.
local function flat(t, list, row, texts)
  local sorted, out = { table.unpack(list) }, {}
  table.sort(sorted, function(a, b)
    if a.start ~= b.start then return a.start < b.start end
    if a.stop ~= b.stop then return a.stop > b.stop end
    return a.kind < b.kind
  end)
  for _, task in ipairs(sorted) do
    local mask, text = 0, tasks.details(t, task)
    for _, resource in ipairs(task.resources) do mask = mask | 1 << row[resource] end
    if not texts[text] then
      texts[#texts + 1] = text
      texts[text] = #texts - 1
    end
    out[#out + 1] = ("%d,%d,%d,%s,%s,%d"):format(mask, palette.task[task.kind], WHEN[task.when] or 0,
      number.text(task.start), number.text(task.stop), texts[text])
  end
  return "[" .. table.concat(out, ",") .. "]"
end

--- Writes {"rows":names,"lists":[…],"lengths":[…],"texts":[…],"placed":[by device: list, start, scale, ends …]}; ends
--- is 1 for the first pass of its kind on a stage, 2 for the last.
---@param t table  the timeline
---@param put fun(text: string)
return function(t, put)
  local resources, _ = tasks.used(t)
  local row, names, texts, lists, lengths, known = {}, {}, {}, {}, {}, {}
  for i, resource in ipairs(resources) do
    row[resource], names[i] = i - 1, json.quote(tasks.titles[resource])
  end
  local placed = {}
  for d = 1, t.devices do
    local out = {}
    tasks.placed(t, d, function(list, start, scale, _, first, last)
      if not known[list] then
        lists[#lists + 1], lengths[#lengths + 1] = flat(t, list, row, texts), number.text(list.length)
        known[list] = #lists - 1
      end
      out[#out + 1] = ("%d,%.9g,%.9g,%d"):format(known[list], start, scale, (first and 1 or 0) + (last and 2 or 0))
    end)
    placed[d] = "[" .. table.concat(out, ",") .. "]"
  end
  for i, text in ipairs(texts) do texts[i] = json.quote(text) end
  put(('{"rows":[%s],"lengths":[%s],"texts":[%s],\n"lists":[%s],\n"placed":[%s]}'):format(table.concat(names, ","),
    table.concat(lengths, ","), table.concat(texts, ","), table.concat(lists, ",\n"), table.concat(placed, ",\n")))
end
