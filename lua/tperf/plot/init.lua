--- Plots from plain rows, each in one call; a plot has :svg(), :text(), :print() and :save "file.svg|png|pdf|txt".
return {
  bars = require "tperf.plot.bars",
  configurations = require "tperf.plot.configurations",
  contour = require "tperf.plot.contour",
  heatmap = require "tperf.plot.heatmap",
  lines = require "tperf.plot.lines",
  panels = require "tperf.plot.panels",
  roofline = require "tperf.plot.roofline",
  scatter = require "tperf.plot.scatter",
}
