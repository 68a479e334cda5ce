--- Finds the predicted op of each kernel in a trace. Compute kernels form one sequence per pass, or a single one if the
-- trace does not identify passes; each kind of collective forms its own. A pair must be of the same kind of work.
-- Among pairs that keep the order (align.lua), shapes, annotations and groups in the trace and the durations decide.
-- Attention's kernels, one per layer and pass, split long sequences into layers.
local align = require "tperf.timeline.align"

local MOST_CELLS <const> = 1000000 -- of an alignment: a second, tens of MB
local FITS <const> = 0.05          -- tolerance on FLOPs
local A_PART <const> = 0.3         -- cost: fewer FLOPs than the op's, as q of q, k and v
local OTHER_BLOCK <const> = 0.9    -- cost: an annotation names another block than the op's
local LENGTH <const> = 0.8         -- the most that durations cost; reached at a factor of 20
-- The durations of a kind are compared after scaling within these bounds: missing or unpredicted kernels, too, change
-- its total.
local SLOWEST <const>, FASTEST <const> = 0.5, 4
local OF_SAME_OP <const> = {
  ["passes over elements"] = 0.4, norms = 0.4, attention = 0.2, optimizer = 0.1, copies = 0.4,
  all_to_all = 0.2, all_gather = 0.6, reduce_scatter = 0.6, all_reduce = 0.6, messages = 0.4, recurrences = 0.2,
  broadcast = 0.4, ["matrix products"] = 0.7,
}

local COMPUTES <const> = { ["matrix products"] = true, attention = true, recurrences = true, norms = true,
  ["passes over elements"] = true }

local OTHER_WAY <const> = { dispatch = "combine", combine = "dispatch" }

-- Words in kernels' names that identify one of several small ops: { in the kernel's name, in the op's }.
local WORDS <const> = {
  { "cast", "cast" }, { "quant", "cast" }, { "glu", "lu$" }, { "silu", "lu$" }, { "gelu", "lu$" }, { "rotary", "ro" },
  { "rope", "ro" }, { "cross_entropy", "loss" }, { "top_?k", "choice" }, { "top2", "choice" }, { "embedding", "table" },
  { "unpermute", "combine" }, { "permute", "dispatch" }, { "dropout_add", "residual" },
}

-- The word that the op of an event must have, by the event's name; false if the name does not tell.
local function word_of(e)
  if e.word == nil then
    local text = e.name:lower()
    e.word = false
    for _, word in ipairs(WORDS) do e.word = e.word or text:find(word[1]) and word[2] or false end
  end
  return e.word
end

-- The collective that an expert-parallel kernel's name means; in the backward pass, a dispatch is a combine.
local function exchange_of(name, forward)
  local found = name:find "dispatch" and "dispatch" or name:find "combine" and "combine"
  return found and (forward and found or OTHER_WAY[found])
end

local function admits(e, p)
  local about = e.about
  if e.kind ~= p.kind then return false end
  if about.flops and p.flops and about.flops > (1 + FITS) * p.flops then return false end
  if about.axis and p.axis and about.axis ~= p.axis then return false end
  if p.kind == "attention" or p.kind == "recurrences" then
    local name = e.name:lower()
    if name:find "bwd" or name:find "backward" then return not p.forward end
    return p.forward or not (name:find "fwd" or name:find "forward")
  end
  if p.kind == "all_to_all" then
    local named = about.op or exchange_of(e.name, p.forward)
    return not named or named == p.op
  end
  return true
end

-- The cost of a pair; pace: measured over predicted time, by kind.
local function cost_of(e, p, pace)
  if not admits(e, p) then return math.huge end
  local about = e.about
  if about.flops and p.flops then return about.flops < (1 - FITS) * p.flops and A_PART or FITS end
  local told = about.block and about.block ~= p.class and OTHER_BLOCK or 0
  local word = p.kind == "passes over elements" and word_of(e)
  if word and not (p.op and p.op:find(word)) then told = told + OTHER_BLOCK end
  local took = e.stop - e.start
  if took <= 0 or p.seconds <= 0 then return told + LENGTH end
  return told + LENGTH * math.min(1, math.abs(math.log(took / (p.seconds * pace[p.kind]))) / 3)
end

local function pace_of(ours, theirs)
  local a, b, pace = {}, {}, {}
  for _, p in ipairs(ours) do a[p.kind] = (a[p.kind] or 0) + p.seconds end
  for _, e in ipairs(theirs) do b[e.kind] = (b[e.kind] or 0) + e.stop - e.start end
  for kind, seconds in pairs(a) do
    local ratio = seconds > 0 and b[kind] and b[kind] / seconds or 1
    pace[kind] = math.min(math.max(ratio, SLOWEST), FASTEST)
  end
  return pace
end

local function slice(list, from, to) return table.move(list, from, to, 1, {}) end

-- The previous kernel on the same stream of each kernel: the kernels of one op are consecutive.
local function before_of(theirs)
  local before, last = {}, {}
  for _, e in ipairs(theirs) do
    local stream = e.stream or 0
    before[e], last[stream] = last[stream], e
  end
  return before
end

-- Aligns two sequences in one piece and calls pair(e, p).
local function aligned(theirs, ours, pace, pair, before)
  local found = align(#theirs, #ours, function(i, j) return cost_of(theirs[i], ours[j], pace) end, function(i, j)
    local e, p = theirs[i], ours[j]
    if not admits(e, p) or COMPUTES[e.kind] and before[e] ~= theirs[i - 1] then return math.huge end
    if e.name:lower():find "splitk" then return FITS end
    local flops = e.about.flops
    if flops and p.flops then return flops < (1 - FITS) * p.flops and A_PART or math.huge end
    return OF_SAME_OP[e.kind]
  end)
  for i, j in ipairs(found) do
    if j > 0 then pair(theirs[i], ours[j]) end
  end
end

-- Attention's kernels. With `together`, consecutive ones of the same pass count as one: the longest, all in `run`.
local function anchors(list, together)
  local found, last = {}, nil
  for i, one in ipairs(list) do
    local back = one.kind == "attention" and together and one.name:lower():find "bwd" ~= nil
    if one.kind ~= "attention" then
      last = nil
    elseif last and together and back == last.back then
      last.run[#last.run + 1], last.to = one, i
      if one.stop - one.start > last.one.stop - last.one.start then last.one = one end
    else
      last = { one = one, run = { one }, from = i, to = i, back = back }
      found[#found + 1] = last
    end
  end
  return found
end

-- Pairs anchors one to one if their numbers are equal and each pair is admissible, else by alignment. nil if that
-- would be too long.
local function paired_anchors(a, b, pace, before)
  local pairs_of, same = {}, #a == #b
  for i = 1, same and #a or 0 do same = same and admits(a[i].one, b[i].one) end
  if same then
    for i = 1, #a do pairs_of[i] = { a[i], b[i] } end
    return pairs_of
  end
  if #a * #b > MOST_CELLS then return nil end
  local of, ones, others = {}, {}, {}
  for i, x in ipairs(a) do ones[i], of[x.one] = x.one, x end
  for i, x in ipairs(b) do others[i], of[x.one] = x.one, x end
  aligned(ones, others, pace, function(e, p) pairs_of[#pairs_of + 1] = { of[e], of[p] } end, before)
  table.sort(pairs_of, function(x, y) return x[1].from < y[1].from end)
  return pairs_of
end

-- Pairs attention's kernels first, then the kernels between them. Returns false if a part is too long even so.
local function by_layers(theirs, ours, pace, pair, before)
  local found = paired_anchors(anchors(theirs, true), anchors(ours, false), pace, before)
  if not found or #found == 0 then return false end
  local i, j, whole = 1, 1, true
  local function between(to_i, to_j)
    if (to_i - i) * (to_j - j) > MOST_CELLS then
      whole = false
    elseif to_i > i and to_j > j then
      aligned(slice(theirs, i, to_i - 1), slice(ours, j, to_j - 1), pace, pair, before)
    end
  end
  for _, one in ipairs(found) do
    local e, p = one[1], one[2]
    if p.from >= j then between(e.from, p.from) end
    for _, kernel in ipairs(e.run) do pair(kernel, p.one) end
    i, j = e.to + 1, math.max(j, p.to + 1)
  end
  between(#theirs + 1, #ours + 1)
  return whole
end

-- If all predicted kernels of a sequence belong to one op, pairs all measured ones of its kind with it.
local function of_one_op(theirs, ours, pair)
  for _, p in ipairs(ours) do
    if p.label ~= ours[1].label or p.kind ~= ours[1].kind then return false end
  end
  for _, e in ipairs(theirs) do
    if e.kind == ours[1].kind and not (e.about.axis and ours[1].axis and e.about.axis ~= ours[1].axis) then
      pair(e, ours[1])
    end
  end
  return true
end

local TOLD <const> = 0.9 -- passes are used if the trace names them for this share of compute time

-- The passes that a trace distinguishes: { [pass] = sequence }, or nil.
local function passes_of(theirs)
  local told, all, weights = 0.0, 0.0, false
  for _, e in ipairs(theirs) do
    if COMPUTES[e.kind] then
      all = all + e.stop - e.start
      told = told + (e.about.pass and e.stop - e.start or 0)
      weights = weights or e.about.pass == "weights"
    end
  end
  if told < TOLD * all then return nil end
  return { forward = "forward", backward = "backward", weights = weights and "weights" or "backward" }
end

-- The kinds of collectives whose events all name their group.
local function axes_told(theirs)
  local told = {}
  for _, e in ipairs(theirs) do
    if not COMPUTES[e.kind] then told[e.kind] = told[e.kind] ~= false and e.about.axis ~= nil end
  end
  return told
end

--- Pairs a step's kernels with predicted ones.
---@param theirs table[]  events of tperf.import.kineto
---@param ours table[]  { label, kind, class, op, axis, pass, forward, seconds, flops }, in order
---@param pair fun(e: table, p: table)
---@return boolean  false if too many kernels lie between two attention kernels to match them
return function(theirs, ours, pair)
  local lanes, names, passes = {}, {}, passes_of(theirs)
  local axes = axes_told(theirs)
  local function add(side, one, pass, axis)
    local name = COMPUTES[one.kind] and "compute" or one.kind
    if passes and pass and (COMPUTES[one.kind] or one.kind == "all_to_all") then name = name .. " " .. passes[pass] end
    if axes[one.kind] then name = name .. " over " .. tostring(axis) end
    if not lanes[name] then
      lanes[name] = { theirs = {}, ours = {} }
      names[#names + 1] = name
    end
    table.insert(lanes[name][side], one)
  end
  for _, e in ipairs(theirs) do add("theirs", e, e.about.pass, e.about.axis) end
  for _, p in ipairs(ours) do add("ours", p, p.pass, p.axis) end
  local pace, before, whole = pace_of(ours, theirs), before_of(theirs), true
  for _, name in ipairs(names) do
    local lane = lanes[name]
    local a, b = lane.theirs, lane.ours
    if #a > 0 and #b > 0 and not of_one_op(a, b, pair) then
      if #a * #b <= MOST_CELLS then
        aligned(a, b, pace, pair, before)
      else
        whole = by_layers(a, b, pace, pair, before) and whole
      end
    end
  end
  return whole
end
