--- Transformer Engine's recipes by Megatron-Core's names: recipe and format; in "hybrid" gradients are e5m2.
return {
  ["fp8-delayed"] = { "delayed", "hybrid" }, ["fp8-current"] = { "tensorwise", "hybrid" },
  ["fp8-block"] = { "blockwise", "e4m3" }, mxfp8 = { "mxfp8", "e4m3" },
}
