-- Random questions for tperf.page, as JSON texts; the same seed gives the same questions.
local json = require "tperf.output.json"
local catalogue = require "tperf.base.catalogue"

local KINDS = { "plan", "plan", "plan", "plan", "plan", "front", "front", "compare", "serve", "schedules" }
local SCHEDULES = { "1f1b", "zbv", "dualpipe,zb_h1", "interleaved_1f1b,v_min", "gpipe,1f1b_overlap" }

-- Values that Plan may have besides the model, the system, the GPUs and the batch.
local MORE = {
  { "seq", { "1024", "4096", "32768" } }, { "attention", { "unfused" } }, { "recompute", { "full", "none,selective" } },
  { "zero", { "0", "3", "1,2" } }, { "optimizer", { "adafactor", "muon" } }, { "micro-batch", { "1", "2,4" } },
  { "gradients", { "bf16" } }, { "strategy", { "all" } }, { "schedule", { "1f1b", "zb_h1" } }, { "reserve", { "0.1" } },
}

---@param count integer
---@param seed integer
---@return string[]
return function(count, seed)
  math.randomseed(seed)
  local function any(list) return list[math.random(#list)] end
  local function power(low, high) return tostring(1 << math.random(low, high)) end
  local models, systems = catalogue.list "models", catalogue.list "systems"
  local software = catalogue.list "software"
  local make = {
    plan = function()
      local values = { model = any(models), system = any(systems), gpus = power(0, 10), batch = power(3, 11) }
      if math.random() < 0.4 then values.software = any(software) end
      for _, more in ipairs(MORE) do
        if math.random() < 0.08 then values[more[1]] = any(more[2]) end
      end
      return values
    end,
    front = function()
      return { model = any(models), systems = any(systems), gpus = power(0, 4),
        prompt = tostring(math.random(1, 2000)), generate = tostring(math.random(1, 1000)) }
    end,
    compare = function()
      return { model = any(models), systems = any(systems) .. "," .. any(systems), gpus = "8..64", batch = power(5, 9),
        domain = power(2, 6), hbm = any { "0.5", "1.5", "2" } }
    end,
    serve = function()
      return { model = any { "llama-3.1-8b", "qwen2.5-7b", "llama-2-7b" }, system = any { "h100-sxm", "b200-sxm" },
        rate = tostring(math.random(1, 30)), count = "60", prompt = "100..1000", output = "mean=100",
        seed = tostring(math.random(1, 99)) }
    end,
    schedules = function()
      return { names = any(SCHEDULES), devices = tostring(2 * math.random(1, 4)), p2p = ("%.3f"):format(math.random()),
        microbatches = tostring(8 * math.random(1, 4)), times = ("f=%.6f,b=%.6f"):format(math.random(), math.random()) }
    end,
  }
  local list = {}
  for i = 1, count do
    local kind = any(KINDS)
    list[i] = json.encode({ ask = kind, values = make[kind]() }, { indent = 0 })
  end
  return list
end
