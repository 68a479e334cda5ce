-- Published runs all ran: how many of them does tperf say fit, and which not?
--   make fits MEASURED=FOLDER
--   tperf run --trust tools/fits.lua TABLE.csv
-- Each row is asked as tperf.train asks it, under its own stack's profile, on the system of its GPU. Exit status 1 if
-- less than 97 % of the rows fit or may fit.
local measured = require "tperf.measured"
local step = require "tperf.measured.run.step"
local tperf = require "tperf"

local LEAST <const> = 97
local ANSWERS <const> = { "fits", "may not fit", "does not fit" }

-- What tperf.train says of a case, and its bytes; nil if it cannot be asked.
local function fit_of(case)
  local system = tperf.system(case.system)
  system = tperf.system(system:with(step.system(case, system, false)))
  local ok, c = pcall(tperf.train, step.request(case, system, tperf.software(case.stack)))
  if ok then return c.fit, c.memory.total end
end

local rows, reader = measured.open((...) or arg[1])
local cases = measured.predict(rows, reader, {})
local asked, counts, lines = 0, {}, {}
for _, case in ipairs(cases) do
  local fit, bytes = fit_of(case)
  if fit then
    asked, counts[fit] = asked + 1, (counts[fit] or 0) + 1
    if fit == "does not fit" then
      lines[#lines + 1] = ("  %-8s %6.1f GiB  %s, %s, %s"):format(case.row.id, bytes / 2 ^ 30, case.source, case.label,
        case.gpu)
    end
  end
end

print(("%d runs, of %d predicted"):format(asked, #cases))
for _, name in ipairs(ANSWERS) do
  print(("%-13s %5d  %5.1f %%"):format(name, counts[name] or 0, 100 * (counts[name] or 0) / math.max(asked, 1)))
end
print(table.concat(lines, "\n"))
local share = 100 * (1 - (counts["does not fit"] or 0) / math.max(asked, 1))
if share < LEAST then error(("%.1f %% fit or may fit, at least %d should"):format(share, LEAST), 0) end
