--- The door's questions (docs/ask.md), for the npm package: the engine is the page's.
return require("tperf.door.lines").open()
