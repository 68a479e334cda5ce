-- Passes of a schedule's own kinds, on the device and on resources beside it: against sums by hand, and against times
-- that a loop over all passes finds, which shares nothing with the core's simulator.
local cases = require "cases"
local core = require "tperf.core"
local json = require "tperf.output.json"
local program = require "program"
local tperf = require "tperf"

local defined = 0

local function simulate(order, o)
  defined = defined + 1
  local q = { schedule = "own_passes_" .. defined, devices = 1, microbatches = 2,
    times = { forward = 1, backward = 2 } }
  for name, value in pairs(o or {}) do q[name] = value end
  tperf.schedule.define(q.schedule, order)
  return tperf.schedule(q)
end

local function refuses(text, order, o)
  local ok, message = pcall(simulate, order, o)
  assert.is_false(ok, "not refused: " .. text)
  assert.truthy(message:find(text, 1, true), message)
end

local function gpipe(s)
  for m = 1, s.microbatches do s:forward(1, 1, m) end
  for m = 1, s.microbatches do s:backward(1, 1, m) end
end

-- An order drawn at random: GPipe with own passes between, and the same as a list of { name, lane, time, needs }, where
-- passes of one lane follow one another.
local function drawn(devices, microbatches)
  local nodes, count = {}, 0
  return function(s)
    local previous = {} -- by lane
    local waits, own = {}, {} -- by device: what its next pass waits for
    local function node(name, device, lane, time, needs)
      needs[#needs + 1] = previous[lane]
      for _, one in ipairs(lane == device and waits[device] or {}) do needs[#needs + 1] = one end
      if lane == device then waits[device] = {} end
      nodes[#nodes + 1], previous[lane] = { name = name, device = device, time = time, needs = needs }, name
      return name
    end
    local function more(device)
      while math.random(3) == 1 do
        local resource = ({ "nic", "host", false })[math.random(3)] or nil
        local after, needs = {}, {}
        for _ = 1, math.random(0, 2) do
          local one = own[math.random(math.max(#own, 1))]
          if one then after[#after + 1], needs[#needs + 1] = one.pass, one.name end
        end
        if previous[device] and math.random(2) == 1 and resource then
          if not previous[device]:find "^own" then -- the last of the queue
            after[#after + 1], needs[#needs + 1] = s:last(device), previous[device]
          end
        end
        count = count + 1
        local time = math.random(0, 8) / 4
        local pass = s:own { device = device, kind = "k" .. count, resource = resource, time = time, after = after }
        local name = node("own" .. count, device, resource and device .. resource or device, time, needs)
        own[#own + 1] = { pass = pass, name = name }
        if resource and math.random(3) == 1 then
          s:wait(device, pass)
          waits[device] = waits[device] or {}
          table.insert(waits[device], name)
        end
      end
    end
    for device = 1, devices do
      for m = 1, microbatches do
        more(device)
        s:forward(device, device, m)
        node(("F%d.%d"):format(device, m), device, device, 1,
          { device > 1 and ("F%d.%d"):format(device - 1, m) or nil })
      end
    end
    for device = devices, 1, -1 do
      for m = 1, microbatches do
        more(device)
        s:backward(device, device, m)
        node(("B%d.%d"):format(device, m), device, device, 2,
          { device < devices and ("B%d.%d"):format(device + 1, m) or nil })
      end
      more(device)
    end
  end, nodes
end

-- Ends of all nodes: those whose needs have ended, again and again.
local function ends_of(nodes)
  local ends, left = {}, #nodes
  while left > 0 do
    local before = left
    for _, node in ipairs(nodes) do
      local start = not ends[node.name] and 0 or nil
      for _, need in ipairs(node.needs) do start = start and ends[need] and math.max(start, ends[need]) end
      if start then ends[node.name], left = start + node.time, left - 1 end
    end
    if left == before then return nil end
  end
  return ends
end

describe("passes of a schedule's own kinds", function()
  it("run beside the device on a resource, and one after the other there", function()
    local t = simulate(function(s)
      for m = 1, s.microbatches do
        s:forward(1, 1, m)
        s:own { device = 1, kind = "out", resource = "host", time = 3, after = s:last(1), microbatch = m }
      end
      for m = 1, s.microbatches do s:backward(1, 1, m) end
    end)
    assert.same({ 1, 4, 4, 7 }, { t.own[1].start, t.own[1].stop, t.own[2].start, t.own[2].stop })
    assert.equal(7, t.makespan)
    assert.equal(6, t.busy_time[1])
    assert.same({ "out", "host", 2, 1 }, { t.own[2].kind, t.own[2].resource, t.own[2].microbatch, t.own[2].device })
  end)

  it("run in the device's queue without a resource, and count as its work", function()
    local t = simulate(function(s)
      s:own { device = 1, kind = "first", time = 0.25 }
      gpipe(s)
      s:own { device = 1, kind = "optimizer", time = 0.5 }
    end)
    assert.equal(6.75, t.makespan)
    assert.equal(6.75, t.busy_time[1])
    assert.equal(0.0, t.bubble_rate)
    assert.equal(0.25, t:op { type = "forward", stage = 1, microbatch = 1 }.start)
  end)

  it("are waited for", function()
    local t = simulate(function(s)
      s:forward(1, 1, 1)
      local out = s:own { device = 1, kind = "out", resource = "host", time = 5, after = s:last(1) }
      local back = s:own { device = 1, kind = "in", resource = "link", time = 2, after = { out } }
      s:forward(1, 1, 2)
      s:wait(1, { back })
      s:backward(1, 1, 1)
      s:backward(1, 1, 2)
    end)
    assert.equal(8, t:op { type = "backward", stage = 1, microbatch = 1 }.start)
    assert.equal(12, t.makespan)
  end)

  it("start when a loop over all passes says, whatever waits for what", function()
    math.randomseed(20261129)
    local tried = 0
    for _ = 1, cases(60, 1000) do
      local devices, microbatches = math.random(1, 4), math.random(1, 5)
      local order, nodes = drawn(devices, microbatches)
      local ok, t = pcall(simulate, order, { devices = devices, microbatches = microbatches })
      local ends = ends_of(nodes)
      if not ends then
        assert.truthy(not ok and t:find "deadlock", t)
      else
        assert.truthy(ok, t)
        local last, number = 0, 0
        for _, node in ipairs(nodes) do
          last = math.max(last, ends[node.name])
          local stop
          if node.name:find "^own" then
            number = number + 1
            stop = t.own[number].stop
          else
            local kind, stage, m = node.name:match "^(%a)(%d+)%.(%d+)$"
            stop = t:op { type = kind == "F" and "forward" or "backward", stage = tonumber(stage),
              microbatch = tonumber(m) }.stop
          end
          assert.near(ends[node.name], stop, 1e-9)
        end
        assert.near(last, t.makespan, 1e-9)
        tried = tried + 1
      end
    end
    assert.is_true(tried > 30, tried)
  end)

  it("are in pictures and traces", function()
    local t = simulate(function(s)
      gpipe(s)
      s:own { device = 1, kind = "adam<", resource = "host & co", time = 4, after = s:last(1) }
    end)
    local svg, trace, text = t:svg(), t:trace(), t:text { width = 60 }
    assert.truthy(svg:find("device 1, host &amp; co: adam&lt;, 6 to 10", 1, true))
    assert.truthy(trace:find('"dur":4000000,"name":"adam<","cat":"own"', 1, true), trace)
    assert.truthy(text:find "adam<%*+| host & co\n", text)
  end)

  -- 70 resources on each of two devices; those of one device must not take the threads of the next one.
  it("have a thread of a trace for each resource", function()
    local t = simulate(function(s)
      gpipe(s)
      for d = 1, 2 do
        for i = 1, 70 do
          s:own { device = d, kind = "copy", resource = ("link %d"):format(i), time = 1 }
        end
      end
    end, { devices = 2, stages = 1 })
    local names, count = {}, 0
    for thread, name in t:trace():gmatch '"tid":(%d+),"name":"thread_name","args":{"name":"(device %d+, link %d+)"' do
      assert.is_nil(names[thread])
      names[thread], count = name, count + 1
    end
    assert.equal(140, count)
  end)

  local node = program.shell("command -v node").code == 0

  -- The page's own script draws into elements that only remember what they are given, 1,000 pixels wide.
  local DOM <const> = [[
const element = name => ({ name, attributes: {}, children: [], dataset: {}, style: {},
  classList: { add() {}, remove() {} }, setAttribute(key, value) { this.attributes[key] = value; },
  appendChild(child) { this.children.push(child); }, replaceChildren() { this.children = []; },
  querySelectorAll: () => [], addEventListener() {}, parentNode: { clientWidth: 1000, style: {} } });
const elements = { data: Object.assign(element("script"), { textContent: DATA }) };
const root = { isConnected: true,
  querySelector: id => elements[id.slice(1)] || (elements[id.slice(1)] = element(id.slice(1))) };
globalThis.document = { createElementNS: (_, name) => element(name) };
globalThis.addEventListener = () => {};
SCRIPT
showTimelines(root);
const all = e => [e, ...e.children.flatMap(all)];
console.log(JSON.stringify(all(elements.chart1).filter(e => e.attributes.class === "held own").map(e =>
  [e.attributes["data-say"], e.attributes.x, e.attributes.width, e.attributes.y])));
]]

  local check = node and it or pending
  it("cannot end a page's data", function()
    local html = simulate(function(s)
      gpipe(s)
      s:own { device = 1, kind = "x", resource = "</script><script>alert(1)//", time = 4 }
    end):html()
    assert.is_nil(html:find("<script>alert", 1, true))
    local data = html:match '<script type="application/json" id="data">(.-)</script>'
    assert.equal("</script><script>alert(1)//", assert(core.yaml(data, "data"))[1].own[1][1].name)
  end)

  check("are drawn to scale in pages", function()
    local t = simulate(function(s)
      gpipe(s)
      s:own { device = 1, kind = "adam<", resource = "host & co", time = 4, after = s:last(1) }
      s:own { device = 1, kind = "send", resource = "nic", time = 2 }
    end)
    local html = t:html()
    local data = html:match '<script type="application/json" id="data">(.-)</script>'
    local code = DOM:gsub("DATA", function() return json.quote(data) end)
      :gsub("SCRIPT", function() return (html:match "<script>\n(.-)showTimelines%(document%)") end)
    local path = program.temporary ".mjs"
    program.write(path, code)
    local result = program.shell("timeout 60 node " .. path)
    assert.same({ "", 0 }, { result.err, result.code })
    local drawn_passes = assert(core.yaml(result.out, "result"))
    assert.equal(2, #drawn_passes)
    local adam, send = table.unpack(drawn_passes)
    if adam[1]:find "send" then adam, send = send, adam end
    assert.truthy(adam[1]:find("device 1, host & co: adam<\n6 to 10, takes 4", 1, true), adam[1])
    assert.truthy(send[1]:find("device 1, nic: send\n0 to 2, takes 2", 1, true), send[1])
    local scale = adam[3] / 4 -- pixels of a unit of time
    assert.near(2 * scale, send[3], 1e-9)
    assert.near(6 * scale, adam[2] - send[2], 1e-9)
    assert.is_true(adam[4] ~= send[4])
  end)

  it("lengthen a model's iteration", function()
    local function time(optimizer)
      defined = defined + 1
      local name = "own_passes_" .. defined
      tperf.schedule.define(name, function(s)
        for d = 1, s.devices do
          for m = 1, s.microbatches do s:forward(d, d, m) end
          for m = 1, s.microbatches do s:backward(d, d, m) end
          if optimizer then
            s:own { device = d, kind = "optimizer", resource = "host", time = 0.25, after = s:last(d) }
          end
        end
      end)
      return tperf.train { model = "llama-3.1-8b", system = "h100-sxm", global_batch = 8, pp = 2, tp = 4,
        schedule = name, simulate = true }.time
    end
    assert.near(0.25, time(true) - time(false), 1e-9)
  end)

  it("are refused where they are wrong, and deadlocks are named", function()
    local function own(fields)
      return function(s)
        fields.device, fields.kind, fields.time = fields.device or 1, fields.kind or "k", fields.time or 1
        gpipe(s)
        s:own(fields)
      end
    end
    refuses("'time' must be a number of at least 0, got -1", own { time = -1 })
    refuses("the device must be from 1 to 1, got 2", own { device = 2 })
    refuses("unknown field 'tiem'", own { tiem = 1 })
    refuses("pass 1 must be what s:own or s:last returned, got 3", own { after = 3 })
    refuses("s:last(1): the device has no pass yet", function(s) s:last(1) end)
    refuses("s:wait needs a device and a pass", function(s) s:wait(1) end)
    refuses("deadlock: device 1, at forward of micro-batch 1 at stage 1, and what it waits for", function(s)
      s:forward(2, 2, 1)
      s:wait(1, s:own { device = 2, kind = "a", resource = "r", time = 1, after = s:last(2) })
      for m = 1, 2 do s:forward(1, 1, m) end
      for m = 1, 2 do s:backward(1, 1, m) end
      s:forward(2, 2, 2)
      for m = 1, 2 do s:backward(2, 2, m) end
    end, { devices = 2 })
  end)
end)
