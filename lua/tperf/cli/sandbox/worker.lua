--- A rank other than the first, under MPI or started by --processes: answers rank 0's requests until it ends. It runs
-- no script, reads only the library's files, and writes nothing.
local core = require "tperf.core"

local SHORTEST <const>, LONGEST <const> = 20e-6, 2e-3 -- s, between two polls for messages

local ranks, codec = core.ranks, core.codec

-- Checks that this process and rank 0 are of the same build, and applies rank 0's limits.
local function set_up(setup, host)
  if setup.sources ~= core.sources then
    ranks.send(0, codec.encode { stop = "the ranks run different builds of tperf: build it where all can read it" })
    return
  end
  if setup.memory then host.limits.memory(setup.memory) end
  if setup.threads then core.search.threads = function() return setup.threads end end
end

local function reply_to(message)
  local reply = require "tperf.question.ranks.answers"(message) or {}
  reply.number = message.number
  local ok, bytes = pcall(codec.encode, reply)
  ranks.send(0, ok and bytes or codec.encode { number = message.number, error = bytes, at = 1 })
end

return function(host)
  core.search.threads = ranks.share
  require "tperf.base.lazy".settle(require "tperf") -- all of it, so that questions are registered
  require "tperf.question.ranks.answers"
  require "tperf.cli.sandbox".environment(host, package.path)
  local pause = SHORTEST
  while true do
    local bytes = ranks.receive()
    if bytes == "" then return 0 end
    if bytes then
      local message = codec.decode(bytes)
      if message.setup then set_up(message.setup, host) else reply_to(message) end
      pause = SHORTEST
    else
      core.search.interrupted() -- clears an interrupt meant for a finished request
      ranks.rest(pause)
      pause = math.min(2 * pause, LONGEST)
    end
  end
end
