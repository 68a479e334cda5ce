--- The colours of passes, in every picture: the hue shows the pass, the shade the chunk. Forward passes are dark,
-- backward passes light and weight gradients hatched, so they differ in greyscale and for colour-blind readers, too.
local palette = {}

-- Darkest first. Lightness (CIE L*): forward 33-62, backward 71-90, input 55-80, weight 84-93.
palette.shades = {
  forward = { "#1d4f91", "#356bb0", "#4f83c4", "#6b9ad3" },
  backward = { "#f09a3e", "#f7b669", "#fbcb90", "#fddfb8" },
  backward_input = { "#2e9b8b", "#5cb5a6", "#86cabe", "#acdcd4" },
  backward_weight = { "#d5cbe8", "#dfd7ee", "#e9e3f3", "#f1edf8" },
}
palette.letter = { forward = "F", backward = "B", backward_input = "D", backward_weight = "W" }
palette.name = { forward = "forward", backward = "backward", backward_input = "input backward",
  backward_weight = "weight backward" }

--- Colours of tasks, by kind (tperf/timeline/tasks.lua): compute is blue, communication warm or green.
palette.tasks = {
  { kind = "kernel", colour = "#5b7fa6" }, { kind = "collective", colour = "#e2711d" },
  { kind = "message", colour = "#c1121f" }, { kind = "gather weights", colour = "#588157" },
  { kind = "reduce gradients", colour = "#9d4edd" }, { kind = "launches", colour = "#8d99ae" },
  { kind = "optimizer", colour = "#1d4f91" }, { kind = "offload", colour = "#b08968" },
}
palette.task = {} -- kind -> index in palette.tasks
for number, entry in ipairs(palette.tasks) do palette.task[entry.kind] = number end

--- The index of a stage among its device's chunks, from 1: by pipeline level, or by direction if there are two.
function palette.chunk(t, device, stage)
  if t.stages == t.devices then return stage == device and 1 or 2 end
  return (stage - 1) // t.devices + 1
end

function palette.shade(pass, chunk)
  local shades = palette.shades[pass]
  return math.min(chunk, #shades)
end

local PASSES = { "forward", "backward", "backward_input", "backward_weight" }

--- Style rules: class F1 fills a forward pass of the first shade, tF1 its text, and so on to W4 and tW4.
function palette.css()
  local rules = {}
  for _, pass in ipairs(PASSES) do
    for shade, colour in ipairs(palette.shades[pass]) do
      if pass == "backward_weight" then colour = ("url(#hatch%d)"):format(shade) end
      local class = palette.letter[pass] .. shade
      rules[#rules + 1] = (".%s { fill: %s; } text.t%s { fill: %s; }\n"):format(class, colour, class,
        pass == "forward" and shade <= 2 and "#ffffff" or "#14181c")
    end
  end
  for number, entry in ipairs(palette.tasks) do
    rules[#rules + 1] = (".k%d { fill: %s; }\n"):format(number, entry.colour)
  end
  return table.concat(rules)
end

--- Hatch patterns for weight gradients, used by the style rules.
function palette.hatches()
  local out = {}
  for shade, colour in ipairs(palette.shades.backward_weight) do
    out[shade] = ('<pattern id="hatch%d" width="6" height="6" patternUnits="userSpaceOnUse" '
      .. 'patternTransform="rotate(45)"><path fill="%s" d="M0 0H6V6H0Z"/><path fill="#b5a6d6" d="M0 0H1.4V6H0Z"/>'
      .. "</pattern>\n"):format(shade, colour)
  end
  return "<defs>\n" .. table.concat(out) .. "</defs>\n"
end

--- The passes and chunks in a timeline, in drawing order: { { pass, shade, chunks = "2" or "4+" } … }.
function palette.legend(t)
  local seen, most = {}, 1
  for d = 1, t.devices do
    local i = 1
    local pass, stage = t.at(d, i)
    while pass do
      local chunk, name = palette.chunk(t, d, stage), PASSES[pass + 1]
      seen[name .. palette.shade(name, chunk)] = true
      most = math.max(most, chunk)
      i = i + 1
      pass, stage = t.at(d, i)
    end
  end
  local entries = {}
  for _, pass in ipairs(PASSES) do
    for shade = 1, #palette.shades[pass] do
      if seen[pass .. shade] then
        local label = palette.name[pass]
        if most > 1 and (shade > 1 or seen[pass .. 2]) then
          label = ("%s, chunk %d%s"):format(label, shade, shade == #palette.shades[pass] and most > shade and "+" or "")
        end
        entries[#entries + 1] = { pass = pass, shade = shade, label = label }
      end
    end
  end
  return entries
end

--- About `count` round numbers between low and high, for an axis.
---@return number[]
function palette.ticks(low, high, count)
  local raw = (high - low) / math.max(count, 1)
  local power = 10.0 ^ math.floor(math.log(raw, 10))
  local step = 10 * power
  for _, m in ipairs { 1, 2, 5 } do
    if m * power >= raw * 0.999 then
      step = m * power
      break
    end
  end
  local list = {}
  for i = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) do list[#list + 1] = i * step end
  return list
end

return palette
