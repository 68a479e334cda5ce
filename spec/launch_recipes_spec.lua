-- Recipes that start from others: of files beside them, of files of a package, of a stack's own (whose settings its
-- table has), under other names, and what None takes back.
local tperf = require "tperf"

local OWN <const> = [[
from package.recipes.base import (
    base_config,
    small_config as tiny_config,  # another name
)
from .common import SEQUENCE, _with_batch

def llama3_8b_pretrain_8gpu_bf16_config():
    cfg = base_config()
    cfg.model.tensor_model_parallel_size = 2
    cfg.model.recompute_granularity = None
    cfg.dataset.seq_length = cfg.model.seq_length
    return cfg

def llama3_8b_pretrain_8gpu_fp8_config():
    return _with_batch(llama3_8b_pretrain_8gpu_bf16_config(), 96)

def llama3_8b_pretrain_8gpu_tiny_config():
    cfg = tiny_config()
    cfg.model.seq_length = SEQUENCE
    return cfg

llama3_8b_pretrain_8gpu_other_config = llama3_8b_pretrain_8gpu_tiny_config
]]

local BASE <const> = [[
def base_config():
    cfg = ConfigContainer()
    cfg.mixed_precision = "bf16_with_mxfp8_mixed"
    cfg.model.seq_length = 4096
    cfg.model.recompute_granularity = "full"
    cfg.model.recompute_method = "uniform"
    cfg.model.recompute_num_layers = 1
    cfg.train.micro_batch_size = 1
    cfg.train.global_batch_size = 64
    return cfg

def small_config():
    cfg = base_config()
    cfg.mixed_precision = "bf16_mixed"
    cfg.train.micro_batch_size = 4
    return cfg
]]

local COMMON <const> = [[
SEQUENCE = 2 * 1024

def _with_batch(cfg, size):
    cfg.train.global_batch_size = 96
    return cfg
]]

local function read(name, files)
  files = files or { { name = "package/perf/a.py", text = OWN }, { name = "package/recipes/base.py", text = BASE },
    { name = "package/perf/common.py", text = COMMON } }
  return tperf.import.launch { files = files, stack = "megatron-bridge", given = { gpus = 8, ["function"] = name } }
end

local function refused(launch)
  local list = {}
  for i, one in ipairs(launch.refused) do list[i] = one.option end
  return list
end

describe("a recipe that starts from another file's", function()
  it("has what that one sets, but for what it sets itself or takes back", function()
    local r = read "llama3_8b_pretrain_8gpu_bf16_config"
    assert.same({}, refused(r))
    assert.same({ 2, 4, 1, 64, 4096, "none", "mxfp8" }, { r.tp, r.dp, r.micro_batch, r.global_batch, r.seq,
      r.recompute.granularity, r.precision.fp8_recipe })
  end)

  it("may be what a function makes of another of its own", function()
    assert.equal(96, read("llama3_8b_pretrain_8gpu_fp8_config").global_batch)
  end)

  it("may be imported under another name, as constants are, and be called by another name", function()
    for _, name in ipairs { "llama3_8b_pretrain_8gpu_tiny_config", "llama3_8b_pretrain_8gpu_other_config" } do
      local r = read(name)
      assert.same({ {}, 4, 64, 2048, "bf16" }, { refused(r), r.micro_batch, r.global_batch, r.seq,
        r.precision.fp8_format or "bf16" })
    end
  end)

  it("is read where files import one another", function()
    local r = read("llama3_8b_pretrain_8gpu_bf16_config", {
      { name = "package/perf/a.py", text = OWN .. "A = B_OF_B\n" },
      { name = "package/recipes/base.py", text = "from package.perf.a import A\nB = A\n" .. BASE },
      { name = "package/perf/common.py", text = "from package.recipes.base import B as C\nD = C\n" .. COMMON } })
    assert.same({}, refused(r))
  end)

  it("says what is not at hand", function()
    local r = read("llama3_8b_pretrain_8gpu_bf16_config", { { name = "a.py", text = OWN } })
    assert.matches("what base_config() sets (line 8) is not in the file", table.concat(r.assumed, "\n"), 1, true)
    assert.is_truthy(table.concat(refused(r), " "):find("mixed_precision", 1, true))
  end)
end)

describe("a recipe that starts from one of Megatron-Bridge's own", function()
  -- recipes/llama/h100/llama3.py at 067f987d: sequences of 8,192 tokens, contexts over 2 GPUs, micro-batches of 1;
  -- perf_recipes/_common.py: gradients reduced in 16 bits, TransformerEngine's cross-entropy
  it("has what that one sets, without its file", function()
    local r = read("llama3_8b_pretrain_8gpu_h100_nvfp4_config", { { name = "a.py", text = [[
def llama3_8b_pretrain_8gpu_h100_nvfp4_config():
    cfg = llama3_8b_pretrain_config()
    cfg.mixed_precision = _perf_precision("nvfp4")
    cfg.train.global_batch_size = 128
    _benchmark_common(cfg)
    return cfg
]] } })
    assert.same({}, refused(r))
    assert.same({ 8192, 2, 4, 1, 128, "e2m1", "bf16" }, { r.seq, r.cp, r.dp, r.micro_batch, r.global_batch,
      r.precision.fp4_format, r.axes.gradients })
  end)
end)
