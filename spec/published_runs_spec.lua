-- scripts/llama3_405b.lua and scripts/deepseek_v3.lua: published runs to which no profile was fitted.
local program = require "program"
local tperf = require "tperf"

local function output(script, arguments)
  local result = program.shell("tperf run " .. script .. " " .. arguments)
  assert.equal(0, result.code, result.err)
  return result.out
end

describe("scripts/llama3_405b.lua", function()
  it("comes within 6 % of Meta's measurements, with a profile fitted to others", function()
    local rows = 0
    for measured, predicted in output("scripts/llama3_405b.lua", "--search no"):gmatch
      "(%d+%.%d) TFLOP/s +(%d+%.%d) TFLOP/s" do
      rows = rows + 1
      assert.near(1, tonumber(predicted) / tonumber(measured), 0.06)
    end
    assert.equal(3, rows)
  end)
end)

describe("scripts/deepseek_v3.lua", function()
  local PUBLISHED <const> = 180e3 -- GPU-hours for 1e12 tokens, in FP8 (arXiv 2412.19437, table 1)
  local out = output("scripts/deepseek_v3.lua", "")
  local FP8 <const> = "fp8 of V3"
  local function hours(precision, schedule)
    return tonumber((out:match(precision .. " +" .. schedule .. " +parts [^\n]- %% +(%d%d%d%d+) ")))
  end
  local function memory(precision, recompute)
    return tonumber((out:match(precision .. " +dualpipe +" .. recompute .. " [^\n]- (%d+%.%d+) GB")))
  end

  it("comes within a tenth of the published GPU-hours, with its schedule and precision", function()
    assert.near(1, hours(FP8, "dualpipe") / PUBLISHED, 0.1)
    -- With the exchange that DualPipe hides, it is the time of balanced experts.
    local hidden = tonumber(out:match(FP8 .. " +dualpipe +parts +deepep [^\n]- (%d%d%d%d+) "))
    assert.is_true(hidden < PUBLISHED and hidden > 0.85 * PUBLISHED)
    assert.is_true(hours("bf16", "dualpipe") > 1.1 * PUBLISHED)
  end)

  it("finds that DualPipe hides the all-to-all that other schedules wait for", function()
    assert.is_true(hours(FP8, "dualpipe") < 0.6 * hours(FP8, "1f1b"))
    assert.is_true(hours(FP8, "zb1p") < hours(FP8, "1f1b"))
  end)

  it("keeps less than in 16 bits, and fits only with the paper's recomputation", function()
    assert.is_true(memory(FP8, "parts") < memory("bf16", "parts"))
    local visible = tperf.system "h800-sxm".accelerator.hbm.visible / 1e9
    assert.is_true(memory(FP8, "none") > visible)
    assert.is_true(memory(FP8, "parts") < visible)
  end)
end)
