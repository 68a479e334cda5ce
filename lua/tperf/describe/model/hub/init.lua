--- Models by the names that they have on the Hugging Face Hub: from the local cache of its programs, which has the
--- checkpoint's own config.json, or a model of models/ that has its sizes, with the weights that the name says.
local account = require "tperf.describe.model.hf.account"
local catalogue = require "tperf.base.catalogue"
local core = require "tperf.core"
local names = require "tperf.describe.model.hub.names"
local refusal = require "tperf.base.refusal"
local roots = require "tperf.base.roots"

local getenv = os.getenv

local hub = {}

-- The folder of the local cache, as the huggingface_hub library finds it.
local function cache()
  local own = getenv "HF_HUB_CACHE" or getenv "HUGGINGFACE_HUB_CACHE"
  if own then return own end
  local home = getenv "HF_HOME"
  if not home then
    local caches = getenv "XDG_CACHE_HOME" or getenv "HOME" and getenv "HOME" .. "/.cache"
    home = caches and caches .. "/huggingface"
  end
  return home and home .. "/hub"
end

local function is_hub_name(name) return name:find "^[%w][%w._-]*/[%w][%w._-]*$" and not name:find("..", 1, true) end

--- The config.json of a checkpoint in the local cache: of the branch main, else of the last snapshot by name.
---@param name string  "ORG/NAME"
---@return string? path
function hub.cached(name)
  local folder = is_hub_name(name) and cache()
  if not folder then return nil end
  folder = ("%s/models--%s"):format(folder, (name:gsub("/", "--")))
  local main = catalogue.text(folder .. "/refs/main")
  local commits = core.resource.entries(folder .. "/snapshots") or {}
  table.sort(commits, function(a, b) return a > b end)
  table.insert(commits, 1, main and main:match "^%x+" or "none")
  for _, commit in ipairs(commits) do
    local path = ("%s/snapshots/%s/config.json"):format(folder, commit)
    if commit:find "^%x+$" and roots.exists(path) then return path end
  end
end

-- The description's `stored` of an engine's quantization method; false: 16 bits.
local FORMATS <const> = {
  fp8 = "fp8", mxfp8 = "mxfp8", modelopt_fp4 = "nvfp4", awq = "int4", gptq = "int4",
  gptq_int8 = { bits = 8, group = 128 }, w8a8_int8 = "int8", mxfp4 = "mxfp4",
  mlx4 = { bits = 4, group = 64, scale = 4 }, mlx8 = { bits = 8, group = 64, scale = 4 }, bf16 = false,
}

-- Whether the text model of a config.json has experts.
local function has_experts(config)
  config = config.text_config or config
  for key in next, config do
    if key:find "num_.*experts$" or key:find "n_routed_experts" then return true end
  end
  return false
end

-- Formats of the parts that a model has.
local function stored_of(content, method, name)
  local mix = names.mix(name)
  if mix then return { method = ("%s, by its name"):format(mix), gguf = mix } end
  local format = FORMATS[method]
  if format == nil then
    refusal.raise("'%s': the name says that the weights have fewer bits, but not in which format: give its "
      .. "config.json, or the model '%s' with weight_dtype or precision", name, names.model(name))
  end
  if not format then return nil end
  local experts = content.experts or content.config and has_experts(content.config)
  return { method = ("%s, by its name"):format(method), layers = format, experts = experts and format or nil }
end

-- gpt-oss's own checkpoints have experts in MXFP4, whatever else a name says of formats of 4 bits.
local function agrees(content, method)
  local s = content.stored
  return s and method == "mxfp4" and s.experts == "mxfp4"
end

--- What a name of the Hub stands for, with its publisher or without: the content of a model's file, and where it comes
--- from. Names in lower case alone are those of models/ or mistakes.
---@param name string
---@return table? content  nil: nothing
---@return table? origin  { path, positions }
function hub.find(name)
  if not name:find "[%u/]" then return nil end
  local method, base = names.format(name), names.model(name)
  local path = (method or not base) and hub.cached(name)
  if not path and not base then return nil end
  path = path or catalogue.find("models", base)
  if not path then return nil end
  local content, positions = catalogue.read(path)
  if type(content) ~= "table" then return nil end
  local origin = { path = path, positions = positions }
  if not base or path:find "config%.json$" then return content, origin end
  local copy = {}
  if content.model_type then -- a config.json's fields
    copy.config, content = content, { config = content }
  else
    for field, value in next, content do copy[field] = value end
  end
  copy.name = roots.last(name):match "^[^:]*"
  account.assume(copy.name, "MODEL", base, ("%s has its sizes"):format(base))
  if method and not agrees(content, method) then
    copy.stored = stored_of(content, method, name)
    if content.config and not copy.stored then copy.stored = false end -- in place of what config.json says
    account.assume(copy.name, "weights", names.mix(name) or method, ("the name %s"):format(roots.last(name)))
  end
  return copy, origin
end

--- What to do about a name of the Hub that nothing is known of; "": it is none.
---@param name string
---@return string
function hub.remedy(name)
  if not is_hub_name(name) then return "" end
  local folder = roots.last(name)
  return ("; `hf download %s --include \"*config.json\" \"*.index.json\" --local-dir %s` fetches what describes it: "
    .. "ask for ./%s then"):format(name, folder, folder)
end

return hub
