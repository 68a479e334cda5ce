-- A plain reimplementation of the rules in docs/serving.md, with which specs compare tperf.serve: token by token, lists
-- instead of heaps, a block's content as text instead of a hash. One replica, with given arrivals.
local rules = {}

local function blocks_for(e, tokens) return math.ceil(math.min(tokens, e.max_model_len) / e.block_size) end

-- Blocks of further groups of layers beside `own` blocks of tokens.
local function beside(e, own)
  local g, sum = e.groups or {}, 0
  if own == 0 then return 0 end
  for _ = 1, g.whole or 0 do sum = sum + own end
  for _ = 1, g.windowed or 0 do sum = sum + math.min(own, g.window_blocks) end
  return sum + (g.states or 0)
end

-- The tokens of a request as text, each identified by stream and offset.
local function token(r, position)
  local at = position
  for _, segment in ipairs(r.segments or { { "own" .. r.id, r.prompt } }) do
    if at < segment[2] then return segment[1] .. "." .. at end
    at = at - segment[2]
  end
  return (1000000 + r.id) .. "." .. at
end

-- The content of a request's k-th block, with all blocks before it.
local function content(e, r, k)
  r.contents = r.contents or { [0] = "" }
  if not r.contents[k] then
    local list = { content(e, r, k - 1) }
    for position = (k - 1) * e.block_size, k * e.block_size - 1 do list[#list + 1] = token(r, position) end
    r.contents[k] = table.concat(list, " ")
  end
  return r.contents[k]
end

local pool = {}
pool.__index = pool

local function new_pool(e)
  local p = setmetatable({ e = e, free = {}, holds = {}, owners = {}, age = {}, clock = 0 }, pool)
  for id = 1, e.num_blocks - 1 do p.free[id], p.owners[id] = id, 0 end
  return p
end

-- Blocks that r lacks to have `own` of tokens: of these, and of further groups.
function pool:lacks(r, own)
  if own <= #r.blocks then return 0, 0 end
  return own - #r.blocks, beside(self.e, own) - #r.beside
end

function pool:take(r, own)
  local first, second = self:lacks(r, own)
  for i = 1, first + second do
    local id, list = table.remove(self.free, 1), i <= first and r.blocks or r.beside
    self.holds[id], self.owners[id] = nil, 1
    list[#list + 1] = id
  end
end

function pool:give_back(r)
  for _, list in ipairs { r.beside, r.blocks } do
    while #list > 0 do
      local id = table.remove(list)
      self.owners[id] = self.owners[id] - 1
      if self.owners[id] == 0 then self.free[#self.free + 1] = id end
    end
  end
end

-- The first registered block with that content.
function pool:find(text)
  local best
  for id, held in pairs(self.holds) do
    if held == text and (not best or self.age[id] < self.age[best]) then best = id end
  end
  return best
end

function pool:hits(r)
  local list, known = {}, r.prompt + r.out
  if not self.e.prefix_caching then return list end
  for k = 1, (known - 1) // self.e.block_size do
    local id = self:find(content(self.e, r, k))
    if not id then break end
    list[k] = id
  end
  local s = self.e.speculation
  if s and s.method == "eagle" then list[#list] = nil end
  return list
end

function pool:register(r, up_to)
  if not self.e.prefix_caching then return end
  for k = 1, math.min(up_to, r.prompt + r.out) // self.e.block_size do
    local id = r.blocks[k]
    if not self.holds[id] then
      self.clock = self.clock + 1
      self.holds[id], self.age[id] = content(self.e, r, k), self.clock
    end
  end
end

local function index_of(list, item)
  for i, one in ipairs(list) do
    if one == item then return i end
  end
end

local function urgency(a, b)
  if a.priority ~= b.priority then return a.priority < b.priority end
  if a.arrival ~= b.arrival then return a.arrival < b.arrival end
  return a.id < b.id
end

local function victim_of(e, running)
  if e.policy ~= "priority" then return running[#running] end
  local worst = running[1]
  for _, r in ipairs(running) do
    if r.priority > worst.priority or r.priority == worst.priority and r.arrival > worst.arrival then worst = r end
  end
  return worst
end

local function preempt(s, step, r)
  s.pool:give_back(r)
  table.remove(s.running, index_of(s.running, r))
  step.budget = step.budget + (step.tokens[r] or 0)
  step.tokens[r] = nil
  r.computed, r.drafts = 0, 0
  r.preemptions, step.preempted = r.preemptions + 1, step.preempted + 1
  table.insert(s.waiting, 1, r)
  if s.e.policy == "priority" then table.sort(s.waiting, urgency) end
end

local function run_running(s, step)
  local e, i = s.e, 1
  local spec = e.speculation
  local ahead = spec and spec.method ~= "ngram" and spec.tokens or 0
  while i <= #s.running and step.budget > 0 do
    local r = s.running[i]
    local n = r.prompt + r.out + r.drafts - r.computed
    if e.long_prefill_token_threshold > 0 then n = math.min(n, e.long_prefill_token_threshold) end
    n = math.min(n, step.budget, e.max_model_len - 1 - r.computed)
    if n > 0 then
      local own = blocks_for(e, r.computed + n + ahead)
      local first, second = s.pool:lacks(r, own)
      while first + second > #s.pool.free do
        local victim = victim_of(e, s.running)
        preempt(s, step, victim)
        if victim == r then return end
        i = index_of(s.running, r)
      end
      s.pool:take(r, own)
      s.pool:register(r, r.computed + n)
      step.tokens[r], step.budget = n, step.budget - n
    end
    i = i + 1
  end
end

local function run_waiting(s, step)
  local e = s.e
  while step.budget > 0 and #s.waiting > 0 and #s.running < e.max_num_seqs do
    local r = s.waiting[1]
    local hits = s.pool:hits(r)
    local cached = #hits * e.block_size
    local n = r.prompt + r.out - cached
    if e.long_prefill_token_threshold > 0 then n = math.min(n, e.long_prefill_token_threshold) end
    if not e.chunked_prefill and n > step.budget then return end
    n = math.min(n, step.budget)
    local own, idle = blocks_for(e, cached + n), 0
    for _, id in ipairs(hits) do idle = idle + (s.pool.owners[id] == 0 and 1 or 0) end
    if own - #hits + idle + beside(e, own) > #s.pool.free then return end
    table.remove(s.waiting, 1)
    for k, id in ipairs(hits) do
      if s.pool.owners[id] == 0 then table.remove(s.pool.free, index_of(s.pool.free, id)) end
      s.pool.owners[id] = s.pool.owners[id] + 1
      r.blocks[k] = id
    end
    s.pool:take(r, own)
    r.cached_tokens = r.cached_tokens or cached
    r.computed = cached
    s.running[#s.running + 1] = r
    s.pool:register(r, cached + n)
    step.tokens[r], step.budget = n, step.budget - n
  end
end

-- Appends output tokens; returns the requests that keep running.
local function outputs(s, step)
  local e, left = s.e, {}
  for _, r in ipairs(s.running) do
    local n = step.tokens[r]
    local known = r.prompt + r.out
    if n and r.computed >= known then
      local drafts, accepted = math.max(0, step.drafted[r]), 0
      if drafts > 0 then
        local pattern = e.speculation.accepted
        accepted = math.min(pattern[(r.id + r.verified) % #pattern + 1], drafts)
        r.verified, r.computed = r.verified + 1, r.computed - (drafts - accepted)
      end
      r.out = math.min(r.out + accepted + 1, r.output, e.max_model_len - r.prompt)
      r.first_token = r.first_token or s.now
      r.longest_gap = math.max(r.longest_gap, s.now - (r.last_token or s.now))
      r.last_token = s.now
      r.drafts = e.speculation and e.speculation.tokens or 0
    end
    if r.out == r.output or r.prompt + r.out == e.max_model_len then
      s.pool:give_back(r)
      s.left = s.left - 1
    else
      left[#left + 1] = r
    end
  end
  s.running = left
end

local function work(step, running)
  local d = { decode_tokens = 0, prefill_tokens = 0, decode_context = 0, prefill_pairs = 0 }
  for _, r in ipairs(running) do
    local n = step.tokens[r]
    if n and r.out > 0 and r.computed == r.prompt + r.out - 1 then
      d.decode_tokens, d.decode_context = d.decode_tokens + n, d.decode_context + r.computed + n
    elseif n then
      d.prefill_tokens = d.prefill_tokens + n
      for k = 1, n do d.prefill_pairs = d.prefill_pairs + r.computed + k end
    end
  end
  return d
end

local function run_step(s, step_time)
  local step = { budget = s.e.max_num_batched_tokens, tokens = {}, preempted = 0, drafted = {} }
  run_running(s, step)
  if step.preempted == 0 then run_waiting(s, step) end
  local d = work(step, s.running)
  for r, n in pairs(step.tokens) do
    step.drafted[r] = n + r.computed - r.prompt - r.out
    r.computed, r.steps = r.computed + n, r.steps + 1
    r.first_scheduled = r.first_scheduled or s.now
  end
  d.start, d.running, d.waiting, d.preempted, d.free_blocks =
    s.now, #s.running, #s.waiting, step.preempted, #s.pool.free
  local tokens = d.decode_tokens + d.prefill_tokens
  d.duration = tokens == 0 and 0 or step_time.fixed + step_time.per_token * tokens
    + step_time.per_context_token * d.decode_context + step_time.per_prefill_pair * d.prefill_pairs
  s.steps[#s.steps + 1] = d
  s.now = s.now + d.duration
  outputs(s, step)
end

-- Whether the request fits by itself.
local function fits(e, r)
  local s = e.speculation
  local most = r.prompt + r.output - 1 + (s and 2 * s.tokens or 0)
  local own = blocks_for(e, most)
  return r.prompt < e.max_model_len and own + beside(e, own) <= e.num_blocks - 1
end

--- Returns the requests with their outcomes, and the steps; nil if they take more than `most` steps.
---@param q table  as tperf.serve takes it, every setting of the engine given
---@param most integer
function rules.run(q, most)
  local s = { e = q.engine, pool = new_pool(q.engine), running = {}, waiting = {}, now = 0, steps = {},
    left = #q.requests }
  local all, coming = {}, {}
  for i, r in ipairs(q.requests) do
    all[i] = { id = i - 1, arrival = r.arrival, prompt = r.prompt, output = r.output, priority = r.priority or 0,
      segments = r.segments, out = 0, computed = 0, drafts = 0, verified = 0, preemptions = 0, steps = 0,
      longest_gap = 0, blocks = {}, beside = {}, rejected = not fits(q.engine, r) }
    if all[i].rejected then s.left = s.left - 1 else coming[#coming + 1] = all[i] end
  end
  table.sort(coming, function(a, b)
    if a.arrival ~= b.arrival then return a.arrival < b.arrival end
    return a.id < b.id
  end)
  while s.left > 0 do
    if #s.running + #s.waiting == 0 then s.now = math.max(s.now, coming[1].arrival) end
    while coming[1] and coming[1].arrival <= s.now do
      s.waiting[#s.waiting + 1] = table.remove(coming, 1)
      if s.e.policy == "priority" then table.sort(s.waiting, urgency) end
    end
    run_step(s, q.step_time)
    if #s.steps > most then return nil end
  end
  return all, s.steps
end

return rules
