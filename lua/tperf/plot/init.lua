--- Plots from plain rows, one call each; a plot has :svg(), :text(), :print() and :save "file.svg|png|pdf|txt".
local serving = require "tperf.plot.serving"

return {
  bars = require "tperf.plot.bars",
  configurations = require "tperf.plot.configurations",
  contour = require "tperf.plot.contour",
  heatmap = require "tperf.plot.heatmap",
  lines = require "tperf.plot.lines",
  load = serving.load,
  occupancy = serving.occupancy,
  panels = require "tperf.plot.panels",
  requests = serving.requests,
  roofline = require "tperf.plot.roofline",
  scatter = require "tperf.plot.scatter",
  spans = require "tperf.plot.spans",
}
