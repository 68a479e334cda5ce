import tperf from "./tperf.cjs";
export const { ask, askText, TperfError } = tperf;
