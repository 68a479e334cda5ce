--- Zero bubble on a V, two stages per device: ZB-V (Qi et al., arXiv 2401.10241 v2), V-Half and V-Min (arXiv
-- 2405.15362), planned in src/schedule/zbv.c and v_block.c.
local function definition(planner, summary)
  return { summary = summary, stages_per_device = 2, placement = "mirrored", planner = planner }
end

return {
  definitions = {
    zbv = definition("zbv", "zero bubble on a V, at 1f1b's memory"),
    v_half = definition("v_half", "zero bubble on a V, at about half of 1f1b's memory"),
    v_min = definition("v_min", "zero bubble on a V, at about a third of 1f1b's memory"),
  },
}
