-- The 54 days of Llama 3 405B's pre-training that Meta describes (arXiv 2407.21783, section 3.3.4 and table 5): 419
-- unexpected interruptions on 16,384 H100s, and more than 90 % of the time spent on training. Predicts the goodput from
-- the published time between failures, checkpoint size and store bandwidth; nothing is fitted to the 90 %. The 47
-- planned interruptions are left out.
--
-- The paper does not say how long a restart took, so figures of another stack at this scale are used: MegaScale (arXiv
-- 2402.15627) detects and diagnoses a failure in less than 10 minutes on average; another 5 until training resumes are
-- an assumption. The table shows the effect of other times.
local tperf = require "tperf"
local report = tperf.report

local DAY <const>, MINUTE <const> = 86400, 60

local published = { days = 54, interruptions = 419, gpus = 16384, goodput = 0.9 }

local o = tperf.args {
  summary = "Llama 3's 54 days: goodput with the published failures", model = "llama-3.1-405b", system = "h100-sxm",
  { long = "detection", value = "MINUTES", kind = "number", default = 10, help = "until a failure is detected" },
  { long = "restarts", value = "MINUTES,...", kind = "list", default = "0,5,10,15,20",
    help = "from detection until training resumes" },
  { long = "restart", value = "MINUTES", kind = "number", default = 5, help = "that of the band and of the shares" },
  { long = "store", value = "RATE", kind = "bytes/s", default = "2 TB/s", help = "sustained bandwidth of the store" },
}

-- The layout of table 4 with 16,384 GPUs and 8,192 tokens. Only its checkpoint matters here, not its speed.
local c = tperf.train {
  model = o.model, system = o.system, seq = 8192, global_batch = 2048, tp = 8, pp = 16, dp = 128, zero = 2,
  schedule = "interleaved_1f1b", virtual_stages = 7, software = "none",
}
assert(c.gpus == published.gpus)

local mtbf = published.days * DAY / published.interruptions

-- The number of tokens for which the run takes the published 54 days, at the share of time spent on training.
local function run_of(restart)
  local tokens = published.days * DAY * c.tokens_per_second
  local function cost(of)
    return tperf.cost(c, {
      tokens = of, mtbf = { cluster = mtbf }, checkpoint = { store = o.store }, detection = o.detection * MINUTE,
      restart = restart * MINUTE,
    })
  end
  return cost(tokens * cost(tokens).goodput)
end

local rows = {}
for i, text in ipairs(o.restarts) do
  local restart = tonumber(text) or error(("'%s' is no number of minutes"):format(text), 0)
  local cost = run_of(restart)
  rows[i] = {
    restart = restart * MINUTE, down = (o.detection + restart) * MINUTE + cost.checkpoint.load, goodput = cost.goodput,
    failures = cost.failures, interval = cost.checkpoint.interval,
  }
end

local base = run_of(o.restart)
print(("%d interruptions in %d days: one every %s; a checkpoint of %s takes the store %s"):format(
  published.interruptions, published.days, tperf.units.format(mtbf, "s"),
  tperf.units.format(base.checkpoint.bytes, "bytes"), tperf.units.format(base.checkpoint.write, "s")))
report.print(rows, {
  { key = "restart", unit = "s" }, { key = "down", title = "down after a failure", unit = "s" },
  { key = "interval", title = "best interval", unit = "s" }, { key = "failures", digits = 3 },
  { key = "goodput", unit = "%", digits = 3 },
}, { title = ("Detection in %g minutes"):format(o.detection) })
local lost = {}
for _, part in ipairs { "restarts", "rework", "checkpoints" } do
  lost[#lost + 1] = { part = part, share = base.lost[part] / base.seconds }
end
print()
report.print(lost, { { key = "part", title = "lost to" }, { key = "share", title = "", unit = "%", digits = 3 } },
  { title = ("With a restart of %g minutes"):format(o.restart) })
local work = base.goodput * base.seconds
print(("\npredicted: %.1f %% effective (nine tenths of such runs: %.1f to %.1f %%); published: more than %g %%"):format(
  100 * base.goodput, 100 * work / base.high.seconds, 100 * work / base.low.seconds, 100 * published.goodput))
report.save("llama3_goodput.csv", rows, { "restart", "down", "interval", "failures", "goodput" })
