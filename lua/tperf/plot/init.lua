--- Plots from plain rows, one call each; a plot has :svg(), :text(), :print() and :save "file.svg|png|pdf|txt".
return require "tperf.base.lazy".from({}, {
  bars = "tperf.plot.bars",
  box = "tperf.plot.box",
  configurations = "tperf.plot.configurations",
  contour = "tperf.plot.contour",
  ecdf = "tperf.plot.ecdf",
  facets = "tperf.plot.facets",
  heatmap = "tperf.plot.heatmap",
  histogram = "tperf.plot.histogram",
  lines = "tperf.plot.lines",
  load = "tperf.plot.serving load",
  occupancy = "tperf.plot.serving occupancy",
  panels = "tperf.plot.panels",
  requests = "tperf.plot.serving requests",
  roofline = "tperf.plot.roofline",
  scatter = "tperf.plot.scatter",
  spans = "tperf.plot.spans",
})
