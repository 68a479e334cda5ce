--- The manual page (man(7) macros), generated from the commands' declarations.
local commands = require "tperf.cli.commands"
local core = require "tperf.core"
local options = require "tperf.input.options"

-- Escapes text for roff.
local function escape(text)
  text = text:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("'", "\\(aq"):gsub("`", "\\(ga")
  return (text:gsub("^%.", "\\&."):gsub("\n%.", "\n\\&."))
end

local function add(lines, ...)
  for _, line in ipairs { ... } do lines[#lines + 1] = line end
end

-- Formats details: text is filled, lines that start with two blanks stay.
local function detail_lines(lines, details)
  local kept = false
  for line in details:gsub("%s+$", ""):gmatch "[^\n]+" do
    local keep = line:find "^  " ~= nil
    if keep and not kept then add(lines, ".RS", ".nf") end
    if kept and not keep then add(lines, ".fi", ".RE") end
    add(lines, escape(keep and line:sub(3) or line))
    kept = keep
  end
  if kept then add(lines, ".fi", ".RE") end
end

local function option_lines(lines, list)
  for _, option in ipairs(list) do
    local name = (option.short and "-" .. option.short .. ", " or "") .. "--" .. option.long
    lines[#lines + 1] = ".TP"
    local value = option.value and (" \\fI%s\\fR"):format(escape(option.value)) or ""
    lines[#lines + 1] = ("\\fB%s\\fR%s"):format(escape(name), value)
    lines[#lines + 1] = escape(option.help)
  end
end

local HEAD = [[
.TH TPERF 1 "" "tperf %s" "User Commands"
.SH NAME
tperf \- predict how large transformer models train and serve on GPU clusters
.SH SYNOPSIS
.B tperf
.I COMMAND
.RI [ OPTIONS ]
.RI [ ARGUMENTS ]
.SH DESCRIPTION
.B tperf
models the time, memory and communication of training and running transformers on clusters of accelerators,
from descriptions of the model and of the system, and searches for the best way to parallelise them.
Data goes to standard output, everything else to standard error.
.PP
A
.I MODEL
is a name
.RB (` "tperf list models" `),
a YAML file, a Hugging Face config.json or its folder, or a Lua file that returns a model, which runs in the sandbox of
.B "tperf run"
with its usual limits.
.SH COMMON OPTIONS]]

local TAIL = [[
.SH EXIT STATUS
.TP
.B 0
Done.
.TP
.B 1
An error: one line on standard error says where and what; \fB\-\-verbose\fR adds a traceback.
.TP
.B 2
Wrong usage.
.SH ENVIRONMENT
.TP
.B TPERF_PATH
Folders, separated by colons, whose
.IR models ,
.IR systems ,
.I software
and
.I recipes
come before those that tperf ships; those of
.B \-\-data
come first.
.TP
.B TPERF_LUA_DIR
A source tree's
.I lua
folder, to be used in place of the library in the program (for development).
.TP
.B NO_COLOR
No colours, when set.
.SH FILES
.TP
.I .tperf\-written
In a folder into which scripts wrote: the checksums of their files, which later runs of the same script may replace.
.TP
.I manifest.json
In the folder of
.BR \-\-out :
what the run depended on and what it wrote.
.SH SIGNALS
The first Ctrl\-C stops a search, which reports the best it has found, or ends the script; the second ends the program.
]]

--- Returns the whole page.
---@return string
return function()
  local lines = { HEAD:format(core.version) }
  option_lines(lines, options.common)
  lines[#lines + 1] = ".SH COMMANDS"
  for _, name in ipairs(commands.names()) do
    local command = commands.find(name)
    lines[#lines + 1] = (".SS tperf %s%s"):format(name, command.arguments and " " .. escape(command.arguments) or "")
    lines[#lines + 1] = escape(command.summary:sub(1, 1):upper() .. command.summary:sub(2) .. ".")
    if command.example then detail_lines(lines, "For example:\n  " .. command.example:gsub("\n", "\n  ")) end
    if command.details then detail_lines(lines, command.details) end
    option_lines(lines, command.options or {})
  end
  return table.concat(lines, "\n") .. "\n" .. TAIL
end
