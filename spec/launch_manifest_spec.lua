-- Launches in Compose files and Kubernetes manifests.
local tperf = require "tperf"

local function read(text, given)
  return tperf.import.launch { files = { { name = "deploy.yaml", text = text } }, given = given }
end

describe("a Compose file", function()
  it("starts its services' commands, after the image's entrypoint", function()
    local r = read([[
services:
  proxy:
    image: nginx
    command: ["nginx", "-g", "daemon off;"]
  vllm:
    image: vllm/vllm-openai:v0.11.0
    environment: [ "TP=4", HF_TOKEN ]
    command: >
      --model Qwen/Qwen2.5-72B-Instruct-AWQ
      --tensor-parallel-size ${TP} --max-num-seqs ${SEQS:-96}
    deploy: { replicas: 3 }
]])
    assert.same({ "vLLM", 4, 96, "Qwen/Qwen2.5-72B-Instruct-AWQ" }, { r.stack, r.tp, r.max_batch, r.model_name })
    assert.equal("vllm has 3 replicas, of which one is predicted", r.assumed[1])
  end)

  it("may have its command as words, or for a shell, and its variables by name", function()
    local words = read [[
services:
  a:
    entrypoint: ["python3", "-m", "sglang.launch_server"]
    environment: { MODEL: "a b/c" }
    command: ["--model-path", "${MODEL}", "--tp", 2]
]]
    assert.same({ "SGLang", 2, "a b/c" }, { words.stack, words.tp, words.model_name })
    local shell = read "services:\n  a:\n    command: [sh, -c, 'vllm serve x/y -tp 8']\n"
    assert.same({ "vLLM", 8 }, { shell.stack, shell.tp })
  end)

  it("is asked for variables that it does not set, by place", function()
    local text = "services:\n  a:\n    command: vllm serve x/y --tensor-parallel-size $SIZE\n"
    assert.error_matches(function() read(text) end, "SIZE")
    assert.equal(16, read(text, { SIZE = 16 }).tp)
    assert.error_matches(function() read((text:gsub("%$SIZE", "3x"))) end, "deploy.yaml:3: .*must be an integer")
  end)
end)

describe("a Kubernetes manifest", function()
  local SERVICE <const> = "apiVersion: v1\nkind: Service\nspec: { ports: [ { port: 80 } ] }\n---\n"

  it("starts its containers' commands, wherever its kind has them", function()
    for _, pod in ipairs {
      "spec:\n  template:\n    spec:\n      containers:\n%s", "spec:\n  containers:\n%s",
      "spec:\n  leaderWorkerTemplate:\n    leaderTemplate:\n      spec:\n        containers:\n%s",
    } do
      local indent = pod:match "( *)containers:\n%%s$"
      local lines = {}
      for line in ([[
  - name: server
    image: vllm/vllm-openai
    env: [ { name: SIZE, value: "8" } ]
    args: [ --model, x/y, --tensor-parallel-size, $(SIZE) ]
]]):gmatch "[^\n]+" do lines[#lines + 1] = indent .. line end
      local r = read(SERVICE .. "apiVersion: apps/v1\nkind: Deployment\n" .. pod:format(table.concat(lines, "\n"))
        .. "\n")
      assert.same({ "vLLM", 8, "x/y" }, { r.stack, r.tp, r.model_name })
    end
  end)

  it("may run a script in a shell", function()
    local r = read(SERVICE .. [[
apiVersion: v1
kind: Pod
spec:
  containers:
    - name: a
      command: ["/bin/bash", "-c"]
      args:
        - |
          TP=4
          python3 -m sglang.launch_server --model-path x/y --tp $TP
]])
    assert.same({ "SGLang", 4 }, { r.stack, r.tp })
  end)
end)

describe("a manifest that starts nothing", function()
  it("is refused with its place", function()
    for text, message in pairs {
      ["services: { a: { image: nginx } }\n"] = "deploy.yaml: no container has a command or arguments",
      ["services: 7\n"] = "no container has a command",
      ["services:\n  a:\n    command: [ vllm, serve, { a: b } ]\n"] =
        "deploy.yaml:3: the words of a command must be texts",
      ["services: { a: { command: sleep 1 } }\n"] = "no command that starts",
      ["apiVersion: v1\nkind: List\nitems: []\n"] = "no container has a command",
    } do
      assert.error_matches(function() read(text) end, message)
    end
  end)
end)
