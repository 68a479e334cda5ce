-- Pictures and exports of timelines, and the command and script for them.
local tperf = require "tperf"
local yaml = require "tperf.core".yaml
local program = require "program"

local function simulate(name, devices, microbatches)
  return tperf.schedule { schedule = name, devices = devices, microbatches = microbatches, p2p = 0.125 }
end

local function count(text, piece)
  local found, at = 0, 1
  while true do
    local from, to = text:find(piece, at, true)
    if not from then return found end
    found, at = found + 1, to + 1
  end
end

-- Every tag of an XML text is closed in order.
local function assert_well_formed(xml)
  local open = {}
  for slash, name, attributes, closed in xml:gmatch "<(/?)([%w]+)([^<>]-)(/?)>" do
    assert.equal(0, count(attributes:gsub('%s[%w:%-]+="[^"<]*"', ""), "="))
    if slash == "/" then
      assert.equal(table.remove(open), name)
    elseif closed == "" then
      open[#open + 1] = name
    end
  end
  assert.equal(0, #open)
end

local function refuses(text, ...)
  local ok, message = pcall(...)
  assert.is_false(ok)
  assert.truthy(message:find(text, 1, true), message)
  assert.truthy(message:find("timeline_spec.lua:", 1, true), message)
end

describe("timeline:svg", function()
  it("has a rectangle with a tooltip for every pass", function()
    for _, name in ipairs { "1f1b", "interleaved_1f1b", "zbv", "dualpipe" } do
      local t = simulate(name, 4, 8)
      local svg = t:svg()
      assert_well_formed(svg)
      local legend = count(svg, "<rect") - t.ops - t.devices - 1 -- rows and paper
      assert.equal(count(svg, 'width="18" height="12"'), legend)
      assert.equal(t.ops, count(svg, " of micro-batch "))
      assert.equal(svg, simulate(name, 4, 8):svg())
    end
  end)

  it("draws a pass at its time", function()
    local t = tperf.schedule { schedule = "1f1b", devices = 1, microbatches = 1 }
    local svg = t:svg { width = 460 } -- 300 pixels for 3 units, from 84
    assert.truthy(svg:find('device 1: forward of micro-batch 1, stage 1: 0 to 1</title><rect class="p F1" x="84" '
      .. 'y="105" width="100" height="30"/>', 1, true))
    assert.truthy(svg:find('1 to 3</title><rect class="p B1" x="184" y="105" width="200"', 1, true))
  end)

  it("leaves room for the peaks, which have a model's units", function()
    local held = { forward = 79121.34567 }
    local t = tperf.schedule { schedule = "1f1b", devices = 2, microbatches = 4, memory = held }
    local at = tonumber(t:svg({ width = 800 }):match 'x="(%d+)" y="[%d.]+">peak 79121.3</text>')
    assert.is_true(at + 12 * 6.6 <= 800) -- 12 letters of 12 px
    local model = tperf.schedule { schedule = "1f1b", model = "llama-3.1-8b", system = "h100-sxm", global_batch = 16,
      tp = 4, pp = 2, dp = 2, micro_batch = 1 }
    assert.same({ time = "s", memory = "bytes" }, model.units)
    local peak = require "tperf.output.format".number(model.configuration.memory.total, "bytes")
    assert.truthy(peak:find "^%d+%.%d+ GB$")
    for _, text in ipairs { model:svg(), model:html(), model:text() } do
      assert.truthy(text:find("peak " .. peak, 1, true))
    end
  end)

  it("shows a part of the time", function()
    local t = simulate("1f1b", 4, 8)
    local part = t:svg { from = 10, to = 12, memory = false, title = "a <b> & \"c\"" }
    assert_well_formed(part)
    assert.truthy(part:find("a &lt;b&gt; &amp; &quot;c&quot;", 1, true))
    assert.is_true(count(part, " of micro-batch ") < 10)
    assert.equal(0, count(part, "peak"))
    refuses("there is nothing between 'from' = 100 and the end", t.svg, t, { from = 100 })
    refuses("unknown field 'form' (did you mean 'from'?)", t.svg, t, { form = 1 })
  end)

  it("refuses pictures that are too large to open", function()
    local t = tperf.schedule { schedule = "1f1b", devices = 64, microbatches = 800 }
    refuses("a picture of 102400 passes is too large", t.svg, t)
    assert.truthy(t:svg { to = 50, memory = false })
  end)
end)

describe("timeline:text", function()
  it("has the cells of every pass", function()
    local t = tperf.schedule { schedule = "1f1b", devices = 2, microbatches = 2 }
    assert.equal([[
1f1b: 2 devices, 2 stages, 2 micro-batches; makespan 9, bubble 50.0 %
device 1 |F1--F2--........B1======....B2======| peak 2
device 2 |....F1--B1======F2--B2======........| peak 1
F- forward   B= backward   . idle
]], t:text { width = 36 })
    refuses("'width' must be an integer from 20", t.text, t, { width = 1 })
  end)
end)

describe("timeline:trace", function()
  it("is JSON that accounts for every pass", function()
    local t = simulate("dualpipe", 4, 8)
    local events = assert(yaml(t:trace { unit = "ms" }, "trace")).traceEvents
    local busy, threads = {}, 0
    for _, event in ipairs(events) do
      if event.ph == "X" then busy[event.tid] = (busy[event.tid] or 0) + event.dur end
      if event.name == "thread_name" then threads = threads + 1 end
    end
    assert.equal(4, threads)
    for d = 1, 4 do assert.near(1000 * t.busy_time[d], busy[d], 1e-6) end
    refuses("'unit' must be one of s, ms, us", t.trace, t, { unit = "h" })
  end)
end)

describe("timeline:save", function()
  it("writes the format of the name's ending", function()
    local t = simulate("1f1b", 2, 2)
    local folder = program.folder()
    for name, form in pairs { ["a.svg"] = "svg", ["b.html"] = "html", ["c.json"] = "trace", ["d.txt"] = "text" } do
      t:save(folder .. "/" .. name)
      assert.equal(t[form](t), program.slurp(folder .. "/" .. name))
    end
    program.remove(folder)
    refuses("the path must end in .svg, .png, .pdf, .html, .json or .txt, got \"x.gif\"", t.save, t, "x.gif")
    refuses("cannot write", t.save, t, "/nowhere/x.svg")
  end)
end)

describe("timeline:save to PNG and PDF", function()
  it("draws the SVG, in light and dark", function()
    local t = simulate("zb_h1", 4, 8)
    if not os.execute "command -v rsvg-convert >/dev/null 2>&1" then
      refuses("rsvg-convert (librsvg), which draws PNG and PDF, is not installed", t.save, t, "x.png")
      return
    end
    local folder = program.folder()
    local width, height = t:svg():match 'width="(%d+)" height="(%d+)"'
    t:save(folder .. "/a.png")
    local png = program.slurp(folder .. "/a.png")
    assert.same({ 2 * width, 2 * height }, { string.unpack(">I4", png, 17), (string.unpack(">I4", png, 21)) })
    t:save(folder .. "/b.png", { dpi = 300, theme = "dark" })
    assert.equal(width * 300 // 96, (string.unpack(">I4", program.slurp(folder .. "/b.png"), 17)))
    t:save(folder .. "/a.pdf")
    local pdf = program.slurp(folder .. "/a.pdf")
    assert.equal("%PDF", pdf:sub(1, 4))
    assert.truthy(pdf:find(("/MediaBox [ 0 0 %g "):format(width * 0.75), 1, true)) -- points
    assert.truthy(t:svg { theme = "dark" }:find('height="100%" fill="#14171b"', 1, true))
    program.remove(folder)
  end)
end)

describe("timeline:html", function()
  it("carries the data of all timelines, and loads nothing else", function()
    local t = simulate("1f1b", 4, 8)
    local html = t:html { with = { simulate("zb1p", 4, 8) }, title = "</title><script>" }
    assert.equal(0, count(html, "</title><script>"))
    assert.equal(0, count(html, "http://") - count(html, "http://www.w3.org/2000/svg"))
    assert.equal(0, count(html, "https://"))
    local data = assert(yaml(html:match '<script type="application/json" id="data">(.-)</script>', "data"))
    assert.equal(2, #data)
    assert.equal(t.makespan, data[1].makespan)
    local passes = 0
    for d = 1, 4 do passes = passes + #data[1].passes[d] // 7 end
    assert.equal(t.ops, passes)
    refuses("'with[1]' must be a timeline", t.html, t, { with = { 1 } })
    refuses("'with' must be a list", t.html, t, { with = 1 })
  end)

  -- A script that runs in the page and leaves its results there.
  local PROBE = [[<script>
const out = {}, chart = document.getElementById("chart1");
const ticks = () => [...chart.querySelectorAll(".tick")].map(t => t.textContent).join(" ");
const key = k => chart.dispatchEvent(new KeyboardEvent("keydown", { key: k, bubbles: true }));
const steps = [
  () => { out.passes = document.querySelectorAll("rect.pass").length; out.all = ticks(); key("+"); key("+"); },
  () => { out.zoomed = ticks(); out.fewer = document.querySelectorAll("rect.pass").length; key("0"); },
  () => { out.again = ticks(); key("ArrowRight"); key("ArrowDown"); },
  () => { out.status = document.getElementById("status").textContent;
          out.tip = document.getElementById("tip").hidden; out.same = document.querySelectorAll(".same").length; },
  () => document.getElementById("in").click(),
  () => { out.button = ticks(); document.body.dataset.result = JSON.stringify(out); },
];
steps.forEach((step, i) => setTimeout(step, 300 * (i + 1)));
</script></body>]]

  it("works in a browser", function()
    local _, _, missing = os.execute "command -v chromium > /dev/null"
    if missing ~= 0 then return pending "chromium is not installed" end
    local folder = program.folder()
    local t, other = simulate("1f1b", 4, 8), simulate("dualpipe", 4, 8)
    local page = t:html { with = { other } }
    program.write(folder .. "/page.html", (page:gsub("</body>", function() return PROBE end)))
    local result = program.shell("timeout 600 chromium --headless --no-sandbox --disable-gpu --window-size=1400,1000 "
      .. "--disable-dev-shm-usage --user-data-dir=profile --virtual-time-budget=5000 --enable-logging=stderr "
      .. "--dump-dom page.html", folder)
    program.remove(folder)
    assert.equal(nil, result.err:match "CONSOLE[^\n]*")
    local text = result.out:match 'data%-result="([^"]*)"'
    assert.is_string(text)
    local out = assert(yaml(text:gsub("&quot;", '"'), "result"))
    assert.equal(t.ops + other.ops, out.passes)
    assert.is_true(out.zoomed ~= out.all and out.fewer < out.passes)
    assert.equal(out.all, out.again)
    assert.is_true(out.button ~= out.all)
    assert.equal("device 2: forward of micro-batch 1, stage 2\n1.125 to 2.125, takes 1", out.status)
    assert.is_false(out.tip)
    assert.equal(8, out.same)
  end)
end)

describe("tperf schedule", function()
  it("compares schedules on the same work", function()
    local result = program.ask "tperf schedule 1f1b interleaved_1f1b zb_h1 -d 4 -m 8 --json"
    assert.equal("", result.err)
    local rows = assert(yaml(result.out, "rows"))
    assert.equal(33.0, rows[1].makespan)
    assert.equal(28.5, rows[2].makespan) -- half the bubble
    assert.equal(27.0, rows[3].makespan) -- (P - 1)(F + D - W) less bubble than the work of 24
    assert.equal(4.0, rows[3].peak_memory)
  end)

  it("takes times and writes files", function()
    local folder = program.folder()
    local result = program.shell("tperf schedule gpipe zb1p -d 2 -m 4 --times f=1,d=1,w=0.5 --p2p 0.25 --svg a.svg "
      .. "--html b.html --trace c.json --text", folder)
    assert.equal("", result.err)
    assert.truthy(result.out:find("device 2 |", 1, true))
    for _, name in ipairs { "a-gpipe.svg", "a-zb1p.svg", "b.html", "c-gpipe.json", "c-zb1p.json" } do
      assert.is_true(#program.slurp(folder .. "/" .. name) > 1000)
    end
    program.remove(folder)
  end)

  it("reports errors", function()
    local function wrong(message, arguments, code)
      local result = program.ask("tperf schedule " .. arguments)
      assert.equal("", result.out)
      assert.truthy(result.err:find(message, 1, true), result.err)
      assert.equal(code or 2, result.code)
    end
    wrong("NAME is missing: 1f1b", "-d 2 -m 2")
    wrong("--devices is missing", "1f1b -m 2")
    wrong("--microbatches: an integer of at least 1 is needed, got '0'", "1f1b -d 2 -m 0")
    wrong("--times: NAME=NUMBER is needed, got 'f'", "1f1b -d 2 -m 2 --times f")
    wrong("--times: 'x' is none of f, b, d, w, o", "1f1b -d 2 -m 2 --times x=1")
    wrong("--times: forward is given twice", "1f1b -d 2 -m 2 --times f=1,forward=2")
    wrong("'times.forward' must be a number of at least 0, got -1", "1f1b -d 2 -m 2 --times f=-1", 1)
    wrong("(did you mean '1f1b'?)", "1fb1 -d 2 -m 2", 1)
    wrong("dualpipe needs an even number of devices, not 3", "dualpipe -d 3 -m 6", 1)
  end)

  it("is what scripts/custom_schedule.lua extends", function()
    local folder = program.folder()
    local script = program.slurp "scripts/custom_schedule.lua"
    program.write(folder .. "/script.lua", script)
    local result
    for _, argument in ipairs { "", "--page " } do
      result = program.shell(("rm -f page.html; tperf run script.lua %spage.html"):format(argument), folder)
      assert.equal("", result.err)
      assert.truthy(program.slurp(folder .. "/page.html"):find("<title>Eager 1F1B</title>", 1, true))
    end
    program.remove(folder)
    -- Twice the forwards ahead hide the latency that 1F1B waits for, at twice the memory.
    local one = tonumber(result.out:match "\n1f1b +([%d.]+)")
    local eager, memory = result.out:match "\neager_1f1b +([%d.]+) +[%d.]+ %% +(%d+)"
    assert.is_true(tonumber(eager) < one)
    assert.equal("15", memory)
    assert.truthy(result.out:find("deadlock: device 1, at backward of micro-batch 1 at stage 1", 1, true))
  end)
end)
