--- Fuzzes readers of tables and logs: tables written in any way that RFC 4180 and common variants allow must read back
--- unchanged; tables of measurements and logs of nccl-tests with mistakes must be answered or refused at the caller's
--- line.
local csv_reader = require "tperf.input.csv"
local nccl_tests = require "tperf.import.nccl_tests"
local program = require "program" -- spec/program.lua
local sources = require "tperf.measured.calibrate.sources"
local text_file = require "tperf.input.text"
local tperf = require "tperf"
local wrong = require "fuzz.wrong"

local csv = {}

local FIELDS <const> = { "", "a", "1.5", "x,y", 'say "x"', "two\nlines", "a\r\nb", '"', '""', "\xEF\xBB\xBF", "é",
  "\xFF", "\0", " ", "#", "-1e400" }

local function written(field, random)
  local needed = field:find '[,"\r\n]'
  if needed or random:once_in(4) then return '"' .. field:gsub('"', '""') .. '"' end
  return field
end

-- Rows of random fields, and one way to write them.
local function table_of(random)
  local rows, lines, columns = {}, {}, random:upto(5)
  for r = 1, random:upto(6) do
    local fields, line = {}, {}
    for i = 1, columns do
      fields[i] = r == 1 and "c" .. i or random:choice(FIELDS)
      line[i] = written(fields[i], random)
    end
    if columns == 1 and fields[1] == "" then fields[1], line[1] = "x", "x" end -- an empty line is not a row
    rows[r], lines[r] = fields, table.concat(line, ",")
  end
  local ending = random:choice { "\n", "\r\n", "\r" }
  return rows, table.concat(lines, ending) .. (random:once_in(2) and ending or "")
end

local function check_table(random, folder)
  local rows, text = table_of(random)
  local path = folder .. "/table.csv"
  if random:once_in(3) then text = "\xEF\xBB\xBF" .. text end
  wrong.input(text)
  program.write(path, text)
  local read, columns = csv_reader.read(path)
  assert(#columns == #rows[1] and #read == #rows - 1, "another number of rows or columns came back")
  for r, row in ipairs(read) do
    for i, column in ipairs(columns) do
      assert(row[column] == rows[r + 1][i], ("row %d, %s: %q came back"):format(r, column, row[column]))
    end
  end
end

local LOG <const> = [[
# nThread 1 nGpus 4 minBytes 1048576 maxBytes 268435456 step: 16(factor) warmup iters: 5 iters: 20
# Using devices
#  Rank  0 Group  0 Pid  1234 on     node1 device  0 [0x07] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid  1234 on     node1 device  1 [0x0b] NVIDIA A100-SXM4-80GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    52.43   20.00   20.00      0    52.00   20.16   20.16      0
    16777216       4194304     float     sum      -1    250.1   67.08   67.08      0    249.0   67.38   67.38      0
# Avg bus bandwidth    : 43.6
]]

local seeds

-- The header and a few rows of every table of measurements.
local function read_seeds()
  seeds = {}
  for path in program.shell("ls spec/data/measured/*.csv").out:gmatch "%S+" do
    local lines = {}
    for line in program.slurp(path):gmatch "[^\n]+" do lines[#lines + 1] = line end
    seeds[#seeds + 1] = lines
  end
end

local function measurements(random)
  if not seeds then read_seeds() end
  local lines = random:choice(seeds)
  local rows = {}
  for i = 1, random:upto(3) do rows[i] = lines[random:upto(#lines - 1) + 1] end
  return lines[1] .. "\n" .. random:spoil(table.concat(rows, "\n")) .. "\n"
end

local function take() return true end

--- One case.
---@param random table
---@param folder string  where files may be written
function csv.step(random, folder)
  local kind, path = random:upto(20), folder .. "/all_reduce.csv"
  if kind <= 6 then return check_table(random, folder) end
  local text
  if kind <= 12 then
    text = random:spoil(select(2, table_of(random)))
  elseif kind <= 18 then
    text = random:spoil(LOG)
  else
    text = measurements(random)
    if random:once_in(4) then text = random:spoil(text) end
  end
  wrong.input(text)
  program.write(path, text)
  if kind <= 12 then
    wrong.attempt(csv_reader.read, path)
  elseif kind <= 18 then
    wrong.attempt(function(file) return nccl_tests.parse(text_file.read(file), file) end, path)
    wrong.attempt(sources.open, path, take)
  else
    wrong.attempt(function(file) return tperf.validate { file = file } end, path)
    wrong.attempt(sources.open, path, take)
  end
end

return csv
