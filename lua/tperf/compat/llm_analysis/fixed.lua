return require "tperf.compat.llm_analysis.upstream"
