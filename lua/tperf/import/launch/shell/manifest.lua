--- The containers of a Compose file or of Kubernetes manifests, as a script that starts their commands, on the lines
--- where the manifest has them.
local chart = require "tperf.import.launch.shell.chart"
local check = require "tperf.base.check"
local files = require "tperf.import.launch.files"
local recipe = require "tperf.import.launch.shell.recipe"

local manifest = {}

-- What images start with arguments alone.
local ENTRYPOINTS <const> = { ["vllm/vllm%-openai"] = "vllm serve", ["lmcache/vllm%-openai"] = "vllm serve",
  ["rocm/vllm"] = "vllm serve", ["llm%-d/llm%-d"] = "vllm serve",
  ["huggingface/text%-generation%-inference"] = "text-generation-launcher" }

local MOST_DEPTH <const> = 40

-- A word for the shell, with the variables of Compose (${NAME}) and Kubernetes ($(NAME)).
local function quoted(word)
  local text = tostring(word):gsub("%$%(([%a_][%w_]*)%)", "${%1}")
  return '"' .. text:gsub('[\\"`]', "\\%0"):gsub("%$([^{%a_])", "\\$%1"):gsub("%$$", "\\$") .. '"'
end

-- What a container starts, as the shell has it: texts are written so already; of `sh -c TEXT`, the text is.
local function command_text(starts, arguments, place)
  local words, shown = {}, {}
  for _, value in ipairs { starts, arguments } do
    for _, word in ipairs(type(value) == "table" and value or { value ~= "" and value or nil }) do
      if type(word) == "table" then check.fail("%s: the words of a command must be texts", place) end
      words[#words + 1] = tostring(word)
      shown[#shown + 1] = type(value) == "table" and quoted(word) or tostring(word)
    end
  end
  if words[3] and words[2]:find "^%-%a*c$" then return words[3] end
  return table.concat(shown, " ")
end

local function entrypoint_of(image)
  for pattern, entrypoint in pairs(ENTRYPOINTS) do
    if type(image) == "string" and image:find(pattern) then return entrypoint end
  end
  return ""
end

-- { NAME = value } or { "NAME=value" … } of Compose, { { name =, value = } … } of Kubernetes, as pairs.
local function variables_of(environment)
  local list = {}
  for key, value in pairs(type(environment) == "table" and environment or {}) do
    local name, text = key, value
    if type(value) == "table" then
      name, text = value.name, value.value
    elseif type(key) == "number" then
      name, text = tostring(value):match "^([^=]*)=(.*)$"
    end
    if type(name) == "string" and name:find "^[%a_][%w_]*$" and text ~= nil then
      list[#list + 1] = ("%s=%s"):format(name, quoted(text))
    end
  end
  table.sort(list)
  return list
end

-- One container: { name, text, line, variables, replicas }.
local function container(name, one, starts, arguments, at, path, replicas)
  local start = one[starts]
  if start == nil or start == "" then start = entrypoint_of(one.image) end
  local place = at(("%s.%s"):format(path, one[arguments] ~= nil and arguments or starts))
  return { name = tostring(name), text = command_text(start, one[arguments] or "", place),
    line = tonumber(place:match ":(%d+)$") or 1, replicas = math.tointeger(tonumber(replicas)) or 1,
    variables = variables_of(one.environment or one.env) }
end

local function of_compose(content, at, list)
  for name, service in pairs(content.services) do
    if type(service) == "table" and (service.command ~= nil or service.entrypoint ~= nil) then
      local deploy = type(service.deploy) == "table" and service.deploy or {}
      list[#list + 1] = container(name, service, "entrypoint", "command", at, "services." .. tostring(name),
        deploy.replicas or service.scale)
    end
  end
end

-- Adds the containers of a Kubernetes object, wherever its kind has them.
local function of_object(value, at, path, list, depth, replicas)
  if depth > MOST_DEPTH then return end
  replicas = value.replicas or replicas
  for key, part in pairs(value) do
    local below = path == "" and tostring(key) or path .. "." .. tostring(key)
    if key == "mainContainer" and type(part) == "table" and (part.command ~= nil or part.args ~= nil) then -- Dynamo's
      local name = part.name or path:match "services%.([^.]+)" or key
      list[#list + 1] = container(name, part, "command", "args", at, below, replicas)
    elseif key == "containers" and type(part) == "table" then
      for i, one in ipairs(part) do
        if type(one) == "table" and (one.command ~= nil or one.args ~= nil) then
          list[#list + 1] = container(one.name or i, one, "command", "args", at, ("%s[%d]"):format(below, i), replicas)
        end
      end
    elseif type(part) == "table" then
      of_object(part, at, below, list, depth + 1, replicas)
    end
  end
end

-- Adds the servers that a chart, an operator or a recipe makes of a document; returns whether there are any.
local function of_chart(content, at, list, asked)
  local servers = {}
  if asked.recipe then
    servers[1] = recipe.server(content, asked.path, asked.given, asked.gpus, asked.note)
  else
    chart.servers(content, servers)
  end
  for _, one in ipairs(servers) do
    local place = at(one.path)
    list[#list + 1] = { name = tostring(one.name), text = command_text("", one.words, place),
      line = tonumber(place:match ":(%d+)$") or 1, replicas = math.tointeger(tonumber(one.replicas)) or 1,
      variables = variables_of(one.environment) }
    if one.note then asked.note(one.note) end
  end
  return servers[1] ~= nil
end

-- The documents of a YAML stream, each preceded by as many empty lines as come before it.
local function documents(text)
  local list, lines, before = {}, {}, 0
  local function close(count)
    local document = table.concat(lines, "\n")
    if ("\n" .. document):find "\n%s*[^%s#]" then list[#list + 1] = ("\n"):rep(before) .. document end
    before, lines = count, {}
  end
  local count = 0
  for line in (text .. "\n"):gmatch "(.-)\n" do
    count = count + 1
    if line:find "^%-%-%-%s*$" or line:find "^%-%-%-%s+#" then close(count) else lines[#lines + 1] = line end
  end
  close(count)
  return list
end

--- Whether a file is a manifest.
---@param file table  of files.open
---@return boolean
function manifest.recognise(file)
  if file.kind ~= "tree" then return false end
  local text = "\n" .. file.text
  local object = text:find "\nkind:" ~= nil and text:find "\napiVersion:" ~= nil
  return object or chart.recognise(text) or recipe.recognise(text) or text:find "\nservices:" ~= nil
end

--- A manifest as a script, and what to say of its containers.
---@param file table  of files.open
---@param given table<string, string>  what recipes leave to choose, by name
---@param gpus integer?  of the launch
---@return table script  like the file
---@return string[] notes
function manifest.script(file, given, gpus)
  for _, pattern in ipairs { "{{[^{}]*%.Values%.", "{{[^{}]*%.Release%.", "{{%-?%s*include" } do
    if file.text:find(pattern) then
      check.fail("%s is a Helm template: give what `helm template` makes of it, or the chart's values", file.path)
    end
  end
  local list, lines, notes = {}, {}, {}
  local asked = { recipe = recipe.recognise("\n" .. file.text), path = file.path, given = given, gpus = gpus,
    note = function(text) notes[#notes + 1] = text end }
  for _, text in ipairs(documents(file.text)) do
    local content, at = files.tree(text, file.path)
    if type(content.services) == "table" then
      of_compose(content, at, list)
    elseif not of_chart(content, at, list, asked) then
      of_object(content, at, "", list, 0)
    end
  end
  if #list == 0 then check.fail("%s: no container has a command or arguments", file.path) end
  table.sort(list, function(a, b) return a.line < b.line or a.line == b.line and a.name < b.name end)
  for _, one in ipairs(list) do
    local text = table.concat(one.variables, "; ") .. (#one.variables > 0 and "; " or "") .. one.text
    while #lines < one.line - 1 do lines[#lines + 1] = "" end
    for part in ((text:match "^.*%S" or "") .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = part end
    if one.replicas > 1 then
      notes[#notes + 1] = ("%s has %d replicas, of which one is predicted"):format(one.name, one.replicas)
    end
  end
  local script = { kind = "shell", servers = true, text = table.concat(lines, "\n") .. "\n" }
  return setmetatable(script, { __index = file }), notes
end

return manifest
