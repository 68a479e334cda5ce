--- All strategies, in the order of their definition; none is ever removed. tperf.describe.strategy fills the list.
return {}
