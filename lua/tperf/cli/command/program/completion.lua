local check = require "tperf.base.check"
local SHELLS = { "bash", "fish", "zsh" }

return {
  summary = "print the script that completes tperf in a shell",
  arguments = table.concat(SHELLS, "|"),
  from = { SHELLS },
  details = [[
Completes commands, options, and the names of models, systems, software, strategies and schedules, those in
TPERF_PATH too. `make install` puts the scripts where shells look for them. For this shell only:
  bash: source <(tperf completion bash)
  zsh:  source <(tperf completion zsh)     after compinit
  fish: tperf completion fish | source]],
  options = {},
  run = function(_, arguments)
    local shell = arguments[1]
    if not shell then return false, "say which shell: " .. table.concat(SHELLS, ", ") end
    if arguments[2] then return false, "completion takes one shell" end
    for _, known in ipairs(SHELLS) do
      if shell == known then
        io.stdout:write(require "tperf.cli.completion".script(shell))
        return
      end
    end
    return false, ("unknown shell '%s'%s"):format(shell, check.suggest(shell, SHELLS))
  end,
}
