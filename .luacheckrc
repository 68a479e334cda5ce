std = "lua54"
max_line_length = 120
ignore = { "581" } -- "not (x <= y)" is how a check refuses NaN
files["spec"] = { std = "+busted", globals = { "arg" } }
files["scripts"] = { globals = { "arg" } }
