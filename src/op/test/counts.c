// counts.c: FLOPs and bytes of ops, counted by hand.
#include "base/test/unit.h"
#include "tperf/op.h"

static tperf_op product(int64_t tokens, int64_t n_in, int64_t n_out) {
    const tperf_linear shape = {.tokens = tokens, .n_in = n_in, .n_out = n_out};
    tperf_op op = tperf_op_new("product", TPERF_BF16);
    tperf_error error;
    CHECK(tperf_op_linear(&op, &shape, &error) == TPERF_OK);
    return op;
}

enum { T = 6, I = 40, O = 24 };

// An inner product of n numbers takes n products and n - 1 sums.
static void products(void) {
    const tperf_op op = product(T, I, O);
    SAME(T * O * (2 * I - 1), op.forward.tensor_flops);
    SAME(T * I * (2 * O - 1) + I * O * (2 * T - 1), op.backward.tensor_flops);
    SAME(2 * (T * I + I * O + T * O), op.forward.bytes);
    SAME(2 * 2 * (T * I + I * O + T * O), op.backward.bytes);
    SAME(I * O, op.parameters);
    SAME(2 * I * O, op.weight_bytes);
    SAME(2 * T * I, op.saved_bytes); // X
}

static void frozen(void) {
    tperf_op op = product(T, I, O);
    tperf_op_freeze(&op, -1, false);
    SAME(T * I * (2 * O - 1), op.backward.tensor_flops); // X's gradient alone
    SAME(0, op.saved_bytes);
    CHECK(op.frozen);
    tperf_op_stop(&op);
    CHECK(op.backward.absent);
}

static void recomputed(void) {
    tperf_op op = product(T, I, O);
    tperf_op_recompute(&op, 5);
    SAME(5, op.saved_bytes);
    CHECK(op.recomputed);
}

// Row i of s sees i keys: s (s + 1) / 2 pairs, each a product of d and one of d numbers.
static void attention(void) {
    enum { S = 128, D = 64, H = 2 };
    tperf_fused_attention shape = {.batch = 1,
                                   .heads = H,
                                   .kv_heads = 1,
                                   .queries = S,
                                   .keys = S,
                                   .head_dim = D,
                                   .shards = 1,
                                   .causal = true};
    tperf_op causal = tperf_op_new("attention", TPERF_BF16), windowed = causal;
    tperf_error error;
    CHECK(tperf_op_attention(&causal, &shape, &error) == TPERF_OK);
    const double pairs = S * (S + 1) / 2.0, w = 16, some = S * w - w * (w - 1) / 2;
    // Q K^T: 2 D - 1 a pair; P V: for each row and feature one product a pair and one sum fewer; softmax: an
    // exponential, a sum and a quotient a pair, and one sum fewer in each row
    NEAR(H * (pairs * (2 * D - 1) + D * (2 * pairs - S)), causal.forward.tensor_flops, 1e-12);
    SAME(H * (3 * pairs - S), causal.forward.vector_flops);
    shape.window = 16;
    CHECK(tperf_op_attention(&windowed, &shape, &error) == TPERF_OK);
    SAME(H * (3 * some - S), windowed.forward.vector_flops);
}

static void invalid(void) {
    tperf_op op = product(T, I, O);
    tperf_error error;
    CHECK(tperf_op_validate(&op, &error) == TPERF_OK);
    op.forward.bytes = -1;
    CHECK(tperf_op_validate(&op, &error) == TPERF_INVALID);
    op.forward.bytes = INFINITY;
    CHECK(tperf_op_validate(&op, &error) == TPERF_INVALID);
    const tperf_linear less = {.tokens = -1, .n_in = 1, .n_out = 1};
    op = tperf_op_new("an op of a name that is too long", TPERF_BF16);
    SAME(TPERF_NAME_MAX - 1, strlen(op.name));
    REFUSES("tokens", tperf_op_linear(&op, &less, &error));
}

UNIT_TESTS({"of products", products}, {"of a frozen product", frozen},
           {"of a recomputed op", recomputed}, {"of causal and windowed attention", attention},
           {"that cannot be are refused", invalid})
