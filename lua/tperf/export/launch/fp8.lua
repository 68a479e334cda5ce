--- Transformer Engine's recipes as Megatron-Core calls them: the recipe and its format; hybrid has gradients in e5m2.
return {
  ["fp8-delayed"] = { "delayed", "hybrid" }, ["fp8-current"] = { "tensorwise", "hybrid" },
  ["fp8-block"] = { "blockwise", "e4m3" }, mxfp8 = { "mxfp8", "e4m3" },
}
