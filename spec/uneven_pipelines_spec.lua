-- Stages with unequal numbers of layers: Megatron-LM's layouts, separate first and last stages, the embedding and the
-- head counted as layers. A stage's memory and time depend only on its layers.
local tperf = require "tperf"

local MODEL <const> = { name = "m", layers = 8, hidden = 256, heads = 8, ffn = 1024, vocab = 1000, seq = 128 }
local SYSTEM <const> = tperf.system "h100-sxm"

local function train(more)
  local question = { model = MODEL, system = SYSTEM, global_batch = 16, pp = 4, software = "none" }
  for name, value in pairs(more) do question[name] = value end
  return tperf.train(question)
end

-- "2,3,2,1": layers of each device.
local function layers(c)
  local list = {}
  for _, stage in ipairs(c.stages) do
    for _ = 1, stage.repeats do list[#list + 1] = stage.layers end
  end
  return table.concat(list, ",")
end

local function dealt(more) return layers(train(more)) end

local INTERLEAVED <const> = { pp = 2, virtual_stages = 2, schedule = "interleaved_1f1b" }

local function interleaved(more)
  for name, value in pairs(INTERLEAVED) do more[name] = value end
  return more
end

describe("layers of a pipeline", function()
  it("are given by a list, or by Megatron's layout string", function()
    assert.equal("5,1,1,1", dealt { pipeline_layout = { 5, 1, 1, 1 } })
    assert.equal("0,4,4,0", dealt { pipeline_layout = { 0, 4, 4, 0 } })
    assert.equal("0,4,4,0", dealt { pipeline_layout = "E|t*4|tttt|L" })
    assert.equal("2,2,2,2", dealt { pipeline_layout = "E, tt| (tt|)*2, ttL" })
    assert.equal("2,2,2,2", dealt { pipeline_layout = "Et*2|(t*2|)*2t*2L" })
    assert.equal("4,4", dealt(interleaved { pipeline_layout = { 1, 3, 3, 1 } }))
    assert.equal("6,2", dealt(interleaved { pipeline_layout = { 5, 1, 1, 1 } }))
  end)

  it("may be given for the ends, with the rest even", function()
    assert.equal("1,3,3,1", dealt { first_stage_layers = 1, last_stage_layers = 1 })
    assert.equal("0,3,3,2", dealt { first_stage_layers = 0 })
    assert.equal("3,5", dealt { last_stage_layers = 5, pp = 2 })
    assert.equal("2,6", dealt(interleaved { first_stage_layers = 2 }))
  end)

  it("leave room for the embedding and the head if these count as layers", function()
    local ten = { name = "ten", layers = 10, hidden = 256, heads = 8, ffn = 1024, vocab = 1000, seq = 128 }
    assert.equal("2,3,3,2", dealt { model = ten, account_for_embedding = true, account_for_loss = true })
    local nine = { name = "nine", layers = 11, hidden = 256, heads = 8, ffn = 1024, vocab = 1000, seq = 128 }
    assert.equal("2,3,3,3", dealt { model = nine, account_for_embedding = true })
    assert.equal("3,3,3,2", dealt { model = nine, account_for_loss = true })
    assert.equal("8", dealt { pp = 1, account_for_loss = true })
  end)

  it("of Llama 3 405B lie as in its report: 126 of them on 16 x 8 stages, none on the first and the last", function()
    local question = { model = "llama-3.1-405b", global_batch = 2048, tp = 8, pp = 16, virtual_stages = 8, dp = 16,
      schedule = "interleaved_1f1b" }
    local wanted = "7," .. ("8,"):rep(14) .. "7"
    for _, way in ipairs {
      { account_for_embedding = true, account_for_loss = true }, { pipeline_layout = "E|(t|)*126L" }, {},
    } do
      for name, value in pairs(question) do way[name] = value end
      assert.equal(wanted, dealt(way))
    end
  end)
end)

describe("an uneven pipeline", function()
  it("equals the even one if its layout is even", function()
    local even = train {}
    for _, layout in ipairs { { 2, 2, 2, 2 }, "Ett|(tt|)*2ttL" } do
      local same = train { pipeline_layout = layout }
      assert.equal(even.time, same.time)
      assert.same(even.memory, same.memory)
    end
  end)

  -- The slowest stage sets the pace of 1f1b's 16 micro-batches: a stage of five layers takes more than twice as long
  -- as one of two, with its head or without.
  it("goes at the pace of its fullest stage", function()
    local even, uneven = train {}, train { pipeline_layout = { 1, 5, 1, 1 } }
    assert.is_true(uneven.time > 1.9 * even.time, uneven.time / even.time)
    assert.is_true(uneven.time < 2.6 * even.time, uneven.time / even.time)
    local mirrored = train { pipeline_layout = { 1, 1, 5, 1 } }
    assert.near(uneven.time, mirrored.time, 1e-9 * uneven.time)
  end)

  it("takes as long in closed form as in simulation", function()
    for _, layout in ipairs { { 7, 1 }, { 1, 7 }, { 4, 4 } } do
      local form = train { pp = 2, pipeline_layout = layout }
      local simulated = train { pp = 2, pipeline_layout = layout, simulate = true }
      assert.near(simulated.time, form.time, 1e-6 * form.time)
    end
  end)

  it("may be simulated with stages of another schedule, which are even", function()
    local c, timeline = train { pp = 2, pipeline_layout = { 5, 3 }, simulate = "zbv" }
    assert.equal("5,3", layers(c))
    local seen = {}
    for task in timeline:tasks(1) do seen[task.kind] = true end
    assert.is_true(seen.kernel)
  end)

  it("holds the weights of its layers: a layer of h = 256, ffn = 4h has 12 h^2 + 13 h parameters", function()
    local c = train { pipeline_layout = { 1, 4, 2, 1 } }
    local second, third = c.stages[2].memory.weights, c.stages[3].memory.weights
    assert.equal(2 * (12 * 256 ^ 2 + 13 * 256) * 2, second - third) -- bf16
  end)
end)

describe("impossible layouts", function()
  for what, case in pairs {
    ["an empty stage between others"] = { { pipeline_layout = { 2, 0, 4, 2 } }, "has no layer in stage 2 of 4" },
    ["an empty stage of a string"] = { { pipeline_layout = "Etttt||tt|ttL" }, "has nothing in stage 2 of 4" },
    ["too few layers"] = { { pipeline_layout = { 2, 2, 2, 1 } }, "has 7 layers, the model 8" },
    ["too few layers of a string"] = { { pipeline_layout = "Ett|tt|tt|tL" }, "has 7 layers, the model 8" },
    ["other stages"] = { { pipeline_layout = { 4, 4 } }, "give pp and virtual_stages that go with 'pipeline_layout'" },
    ["no head"] = { { pipeline_layout = "Ett|tt|tt|tt" }, "must have one L, in its last stage" },
    ["no embedding"] = { { pipeline_layout = "tt|tt|tt|ttL" }, "must have one E, in its first stage" },
    ["modules that the model lacks"] = { { pipeline_layout = "Ett|tt|tt|ttmL" }, "has 1 modules of multi%-token" },
    ["another letter"] = { { pipeline_layout = "Ett|tx|tt|ttL" }, 'has "x" at letter 6' },
    ["groups nested too deeply"] = { { pipeline_layout = "E" .. ("("):rep(9) .. "t|" .. (")"):rep(9) .. "L" },
      "more than 8 brackets in each other" },
    ["billions of letters"] = { { pipeline_layout = "E(t*1000|)*100000000L" }, "is longer than" },
    ["more ends than layers"] = { { first_stage_layers = 8 }, "go with 'first_stage_layers'" },
    ["ends that chunks do not divide"] = { { pp = 2, virtual_stages = 2, schedule = "interleaved_1f1b",
      first_stage_layers = 3 }, "go with 'first_stage_layers'" },
    ["two ways at once"] = { { first_stage_layers = 2, account_for_loss = true }, "give one of 'pipeline_layout'" },
  } do
    it("are refused: " .. what, function()
      local ok, message = pcall(train, case[1])
      assert.is_false(ok)
      assert.truthy(message:find(case[2]), message)
    end)
  end
end)
