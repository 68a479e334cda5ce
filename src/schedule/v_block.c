// v_block.c: V-Half and V-Min (Qi et al. 2024, arXiv 2405.15362): a V of two chunks per device whose building block,
// repeated every six slots, keeps about half or a third of 1F1B's activations. The block's passes, of equal length, are
// laid out on a grid of slots and weight gradients fill the gaps; then passes move forward into free slots as long as
// memory stays below the block's. Only the order of the slots matters, so no times are needed.
#include <string.h>

#include "schedule/queue.h"

enum { PERIOD = 6 };
// The contents of a slot. Kinds travel from device to device: down, starting with the lower-numbered device, or up.
enum { EMPTY, F_DOWN, F_UP, B_DOWN, B_UP, W, KINDS };

// Forwards held, and backwards whose weight gradient is pending.
typedef struct level {
    int32_t held, pending;
} level;

typedef struct row {
    uint8_t *at;        // [width] the kind in each slot
    int32_t *slot[W];   // [kinds][microbatches] the slot of each pass
    int32_t *backwards; // [2 microbatches] slots of backwards passed so far, sorted
    int32_t *held,
        *pending;  // [width] the level before each slot; pending only without weight gradients
    int32_t last;  // the last slot in use
    int32_t clock; // slots filled when the rows are squeezed
    int32_t due, n_backwards, count[KINDS], last_weight; // due: weight gradients
} row;

typedef struct grid {
    row *rows; // [P] by device
    int32_t P, M, width;
    bool has_weights; // else an empty slot runs a pending weight gradient
} grid;

typedef struct block {
    int32_t slot[W]; // of the first micro-batch, by kind
} block;

static block half_block(int32_t P, int32_t i) {
    int32_t gap = P % 2 == 0 ? 3 : 0;
    return (block){{0, 2 * i, 3 * P - i - 2, 3 * P + gap + 2 * i - 1, 6 * P + gap - i - 2}};
}

static block min_block(int32_t P, int32_t i) {
    int32_t gap = P % 3 == 0 ? 2 : 0;
    return (block){{0, i, 2 * P - i - 1, 2 * P + gap + i, 4 * P + gap - i - 1}};
}

static bool is_backward(int kind) {
    return kind == B_DOWN || kind == B_UP;
}

static void lay_out(grid *g, tperf_v_block which) {
    for (int32_t i = 0; i < g->P; i++) {
        row *r = &g->rows[i];
        block b = which == TPERF_V_HALF ? half_block(g->P, i) : min_block(g->P, i);
        memset(r->at, EMPTY, (size_t)g->width);
        for (int kind = F_DOWN; kind <= B_UP; kind++)
            for (int32_t mb = 0; mb < g->M; mb++)
                r->at[r->slot[kind][mb] = b.slot[kind] + PERIOD * mb] = (uint8_t)kind;
        r->last = b.slot[B_UP] + PERIOD * (g->M - 1);
    }
}

// Gives every backward a weight gradient in the next empty slot.
static void put_weights(row *r) {
    int32_t pending = 0;
    for (int32_t slot = 0; slot <= r->last || pending > 0; slot++) {
        if (is_backward(r->at[slot]))
            pending++;
        else if (r->at[slot] == EMPTY && pending > 0) {
            r->at[slot] = W;
            pending--;
            if (slot > r->last) r->last = slot;
        }
    }
}

// The level after a slot. An empty slot runs a pending weight gradient.
static level step(int kind, level l) {
    if (kind == EMPTY) {
        bool runs_weight = l.pending > 0;
        return (level){l.held - runs_weight, l.pending - runs_weight};
    }
    if (kind == W) return (level){l.held - 1, l.pending};
    return is_backward(kind) ? (level){l.held, l.pending + 1} : (level){l.held + 1, l.pending};
}

// Whether the row, without weight gradients, holds at most `most` forwards after a change from slot `from` to `to`. If
// so, updates the levels up to where they are unchanged again.
static bool holds(row *r, int32_t from, int32_t to, int32_t most) {
    level start = {r->held[from], r->pending[from]}, l = start;
    int32_t slot = from;
    for (; slot <= r->last; slot++) {
        if (slot > to && l.held == r->held[slot] && l.pending == r->pending[slot]) break;
        l = step(r->at[slot], l);
        if (l.held > most) return false;
    }
    l = start;
    for (int32_t t = from; t < slot; t++) {
        r->held[t] = l.held;
        r->pending[t] = l.pending;
        l = step(r->at[t], l);
    }
    return true;
}

// The most forwards that any device holds before any move.
static int32_t set_levels(grid *g) {
    int32_t most = 0;
    for (row *r = g->rows; r < g->rows + g->P; r++) {
        level l = {0, 0};
        for (int32_t slot = 0; slot <= r->last; slot++) {
            r->held[slot] = l.held;
            r->pending[slot] = l.pending;
            l = step(r->at[slot], g->has_weights ? (level){l.held, 0} : l);
            if (l.held > most) most = l.held;
        }
    }
    return most;
}

static int32_t last_slot(const grid *g) {
    int32_t last = 0;
    for (int32_t i = 0; i < g->P; i++)
        if (g->rows[i].last > last) last = g->rows[i].last;
    return last;
}

static void rewind_rows(grid *g) {
    for (row *r = g->rows; r < g->rows + g->P; r++) {
        memset(r->count, 0, sizeof r->count);
        r->clock = r->due = r->n_backwards = 0;
        r->last_weight = -1;
    }
}

// The slot, on the neighbouring device, of the pass that this one waits for, or -1.
static int32_t source_slot(const grid *g, int32_t i, int kind, int32_t mb) {
    int32_t from = kind == F_DOWN || kind == B_DOWN ? i - 1 : i + 1;
    return from < 0 || from == g->P ? -1 : g->rows[from].slot[kind][mb];
}

static int32_t later(int32_t a, int32_t b) {
    return a > b ? a : b;
}

// The first slot after all dependencies of the pass at `slot`.
static int32_t first_slot(const grid *g, int32_t i, int kind, int32_t mb, int32_t slot) {
    const row *r = &g->rows[i];
    if (kind == W) {
        if (mb >= r->n_backwards) return slot;
        return later(r->backwards[mb], r->last_weight) + 1;
    }
    int32_t first = source_slot(g, i, kind, mb);
    if (kind > F_DOWN) first = later(first, r->slot[kind - 1][mb]);
    if (mb > 0) first = later(first, r->slot[kind][mb - 1]);
    return first + 1;
}

static bool is_forward(int kind) {
    return kind == F_DOWN || kind == F_UP;
}

// Moves the pass at `slot` to the first free slot from `first` on that keeps within `most`, and returns that slot. In a
// row with weight gradients, only the levels in between change.
static int32_t move_in_full_row(row *r, int kind, int32_t slot, int32_t first, int32_t most) {
    int32_t to = first, change = is_forward(kind) - (kind == W);
    for (int32_t t = slot; change > 0 && t > first; t--)
        if (r->held[t] >= most) to = first = t;
    while (to < slot && r->at[to] != EMPTY)
        to++;
    if (to >= slot) return slot;
    for (int32_t t = to + 1; change != 0 && t <= slot; t++)
        r->held[t] += change;
    r->at[slot] = EMPTY;
    r->at[to] = (uint8_t)kind;
    return to;
}

// The same if weight gradients run in empty slots: the move changes which ones.
static int32_t move_in_row(row *r, int kind, int32_t slot, int32_t first, int32_t most) {
    r->at[slot] = EMPTY;
    for (int32_t to = first; to < slot; to++) {
        if (r->at[to] != EMPTY) continue;
        r->at[to] = (uint8_t)kind;
        if (holds(r, to, slot, most)) return to;
        r->at[to] = EMPTY;
    }
    r->at[slot] = (uint8_t)kind;
    return slot;
}

static int32_t advance(grid *g, int32_t i, int kind, int32_t mb, int32_t slot, int32_t most) {
    int32_t first = first_slot(g, i, kind, mb, slot);
    return g->has_weights ? move_in_full_row(&g->rows[i], kind, slot, first, most)
                          : move_in_row(&g->rows[i], kind, slot, first, most);
}

static void remember_backward(row *r, int32_t slot) {
    int32_t i = r->n_backwards++;
    for (; i > 0 && r->backwards[i - 1] > slot; i--)
        r->backwards[i] = r->backwards[i - 1];
    r->backwards[i] = slot;
}

// Before the first backward of the first chunk ends on the first device; after it; and once all forwards of the first
// chunk have begun there.
typedef enum phase { WARM_UP, STEADY, COOL_DOWN } phase;

// Moves passes to earlier free slots, outside the steady phase, without raising the peak memory.
static void reorder(grid *g) {
    phase now = WARM_UP;
    int32_t most = set_levels(g), last = last_slot(g);
    rewind_rows(g);
    for (int32_t s = 0; s <= last; s++)
        for (int32_t i = 0; i < g->P; i++) {
            row *r = &g->rows[i];
            int kind = r->at[s];
            if (kind == EMPTY) continue;
            int32_t slot = s, mb = r->count[kind]++;
            if (now == WARM_UP && kind == B_UP && i == 0) now = STEADY;
            if (now == COOL_DOWN || (now == WARM_UP && g->has_weights))
                slot = advance(g, i, kind, mb, s, most);
            if (now == STEADY && kind == F_DOWN && mb == g->M - 1) now = COOL_DOWN;
            if (kind == W)
                r->last_weight = slot;
            else
                r->slot[kind][mb] = slot;
            if (is_backward(kind)) remember_backward(r, slot);
        }
}

// Runs the passes in slot order as early as possible, each in one slot; weight gradients leave the rows.
static void squeeze(grid *g) {
    int32_t last = last_slot(g);
    rewind_rows(g);
    for (int32_t s = 0; s <= last; s++)
        for (int32_t i = 0; i < g->P; i++) {
            row *r = &g->rows[i];
            int kind = r->at[s];
            bool runs_weight = kind == W || (kind == EMPTY && !g->has_weights && r->due > 0);
            if (kind != EMPTY) r->at[s] = EMPTY;
            r->due += is_backward(kind) - runs_weight;
            r->clock += runs_weight;
            if (kind == EMPTY || kind == W) continue;
            int32_t mb = r->count[kind]++;
            int32_t start = later(r->clock, source_slot(g, i, kind, mb) + 1);
            r->slot[kind][mb] = start; // not after s
            r->at[start] = (uint8_t)kind;
            r->clock = start + 1;
        }
    for (row *r = g->rows; r < g->rows + g->P; r++) {
        r->last = 0;
        for (int kind = F_DOWN; kind <= B_UP; kind++)
            r->last = later(r->last, r->slot[kind][g->M - 1]);
    }
}

// Emits the device's passes in slot order; an empty slot runs a pending weight gradient.
static void emit(const grid *g, tperf_order *order, int32_t device) {
    const row *r = &g->rows[device];
    tperf_queue *queue = &order->queues[device];
    int32_t down = device, up = order->stages - 1 - device;
    int32_t count[W] = {0}, weights[W] = {0};
    for (int32_t slot = 0; slot <= r->last || queue->count < PERIOD * g->M; slot++) {
        int kind = slot <= r->last ? r->at[slot] : EMPTY;
        if (kind == EMPTY) {
            int of = weights[B_DOWN] < count[B_DOWN] ? B_DOWN : B_UP;
            if (weights[of] == count[of]) continue;
            tperf_order_append(order, queue, TPERF_BACKWARD_WEIGHT, TPERF_ALONE,
                               of == B_DOWN ? up : down, weights[of]++);
        } else {
            bool is_down = kind == F_DOWN || kind == B_UP;
            tperf_order_append(order, queue,
                               is_backward(kind) ? TPERF_BACKWARD_INPUT : TPERF_FORWARD,
                               TPERF_ALONE, is_down ? down : up, count[kind]++);
        }
    }
}

static tperf_status plan(grid *g, tperf_order *order, tperf_v_block which, tperf_error *error) {
    lay_out(g, which);
    for (int32_t i = 0; i < g->P; i++)
        put_weights(&g->rows[i]);
    g->has_weights = true;
    reorder(g);
    squeeze(g);
    g->has_weights = false;
    reorder(g);
    squeeze(g);
    TPERF_TRY(tperf_order_reserve(order, PERIOD * (int64_t)g->M, error));
    for (int32_t i = 0; i < g->P; i++)
        emit(g, order, i);
    return TPERF_OK;
}

// Divides the allocations among the rows.
static void set_rows(grid *g, uint8_t *at, int32_t *levels, int32_t *slots) {
    size_t width = (size_t)g->width, M = (size_t)g->M,
           lists = B_UP + 2; // slots by kind, and of 2 M backwards
    for (size_t i = 0; i < (size_t)g->P; i++) {
        row *r = &g->rows[i];
        r->at = at + width * i;
        r->held = levels + 2 * width * i;
        r->pending = r->held + width;
        r->backwards = slots + lists * M * i;
        for (size_t kind = F_DOWN; kind <= B_UP; kind++)
            r->slot[kind] = r->backwards + (kind + 1) * M;
    }
}

tperf_status tperf_order_v_block(tperf_order *order, tperf_v_block which, tperf_error *error) {
    if (order->stages != 2 * order->devices)
        return tperf_error_set(error, TPERF_INVALID, "a V needs two stages per device");
    int64_t P = order->devices, M = order->microbatches, passes = PERIOD * P * M;
    int64_t width =
        PERIOD * (P + M) + 2 * M + 2; // the block's last slot, and all weight gradients after it
    if (width > INT32_MAX || passes > INT32_MAX)
        return tperf_error_set(error, TPERF_INVALID, "a schedule has at most %d passes", INT32_MAX);
    grid g = {.P = order->devices, .M = order->microbatches, .width = (int32_t)width};
    const tperf_heap *heap = order->heap;
    g.rows = tperf_heap_zeroed(heap, (size_t)P, sizeof *g.rows);
    uint8_t *at = tperf_heap_new(heap, (size_t)(P * width), sizeof *at);
    int32_t *levels = tperf_heap_new(heap, (size_t)(2 * P * width), sizeof *levels);
    int32_t *slots = tperf_heap_new(heap, (size_t)passes, sizeof *slots);
    tperf_status status = TPERF_NO_MEMORY;
    if (g.rows && at && levels && slots) {
        set_rows(&g, at, levels, slots);
        status = plan(&g, order, which, error);
    } else {
        tperf_error_set(error, status, "not enough memory to plan %lld passes", (long long)passes);
    }
    tperf_heap_free(g.rows);
    tperf_heap_free(at);
    tperf_heap_free(levels);
    tperf_heap_free(slots);
    return status;
}
