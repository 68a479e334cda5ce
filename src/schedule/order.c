// order.c: the queues of an order, filled one pass at a time. See tperf/schedule.h.
#include <string.h>

#include "schedule/queue.h"

enum {
    MAX_AXIS = 1 << 20,  // devices, stages
    MAX_HOLDS = 1 << 27, // devices x stages: one bit each
    MAX_OPS = INT32_MAX,
};

const char *tperf_pass_name(tperf_pass_kind pass) {
    static const char *const names[] = {"forward", "backward", "input backward", "weight backward"};
    _Static_assert(sizeof names / sizeof *names == TPERF_PASS_COUNT, "a name for every pass");
    return names[pass];
}

static tperf_status check_size(const char *name, int64_t value, int64_t most, tperf_error *error) {
    if (value >= 1 && value <= most) return TPERF_OK;
    return tperf_error_set(error, TPERF_INVALID, "%s must be from 1 to %lld, not %lld", name,
                           (long long)most, (long long)value);
}

tperf_status tperf_order_init(tperf_order *order, const tperf_heap *heap, int64_t devices,
                              int64_t stages, int64_t microbatches, tperf_error *error) {
    memset(order, 0, sizeof *order);
    TPERF_TRY(check_size("devices", devices, MAX_AXIS, error));
    TPERF_TRY(check_size("stages", stages, MAX_AXIS, error));
    TPERF_TRY(check_size("microbatches", microbatches, MAX_OPS, error));
    if (devices * stages > MAX_HOLDS || 2 * stages * microbatches > MAX_OPS)
        return tperf_error_set(error, TPERF_INVALID,
                               "%lld devices, %lld stages and %lld microbatches are too many to "
                               "simulate: at most %d device-stage pairs and %d passes",
                               (long long)devices, (long long)stages, (long long)microbatches,
                               MAX_HOLDS, MAX_OPS);
    order->heap = heap;
    order->queues = tperf_heap_zeroed(heap, (size_t)devices, sizeof *order->queues);
    if (!order->queues)
        return tperf_error_set(error, TPERF_NO_MEMORY,
                               "not enough memory for the queues of %lld devices",
                               (long long)devices);
    order->devices = (int32_t)devices;
    order->stages = (int32_t)stages;
    order->microbatches = (int32_t)microbatches;
    return TPERF_OK;
}

void tperf_order_release(tperf_order *order) {
    for (int32_t d = 0; d < order->devices; d++)
        tperf_heap_free(order->queues[d].ops);
    tperf_heap_free(order->queues);
    tperf_heap_free(order->holds);
    tperf_heap_free(order->own);
    tperf_heap_free(order->needs);
    tperf_heap_free(order->waiting);
    memset(order, 0, sizeof *order);
}

static tperf_status check_index(const char *name, int64_t value, int32_t count,
                                tperf_error *error) {
    if (value >= 0 && value < count) return TPERF_OK;
    return tperf_error_set(error, TPERF_INVALID, "%s must be from 1 to %d, not %lld", name, count,
                           (long long)value + 1);
}

tperf_status tperf_order_hold(tperf_order *order, int64_t device, int64_t stage,
                              tperf_error *error) {
    TPERF_TRY(check_index("device", device, order->devices, error));
    TPERF_TRY(check_index("stage", stage, order->stages, error));
    size_t pairs = (size_t)order->devices * (size_t)order->stages;
    if (!order->holds) order->holds = tperf_heap_zeroed(order->heap, (pairs + 7) / 8, 1);
    if (!order->holds)
        return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for the placement");
    int64_t bit = device * order->stages + stage;
    order->holds[bit / 8] |= (uint8_t)(1U << (bit % 8));
    return TPERF_OK;
}

static tperf_status check_op(const tperf_order *order, tperf_pass_kind pass, int64_t device,
                             int64_t stage, int64_t microbatch, tperf_error *error) {
    TPERF_TRY(check_index("device", device, order->devices, error));
    TPERF_TRY(check_index("stage", stage, order->stages, error));
    TPERF_TRY(check_index("microbatch", microbatch, order->microbatches, error));
    int64_t bit = device * order->stages + stage;
    if (!order->holds || order->holds[bit / 8] >> (bit % 8) & 1) return TPERF_OK;
    return tperf_error_set(
        error, TPERF_INVALID,
        "%s of micro-batch %lld at stage %lld can't run on device %lld, which does "
        "not hold that stage",
        tperf_pass_name(pass), (long long)microbatch + 1, (long long)stage + 1,
        (long long)device + 1);
}

static tperf_status reserve(tperf_order *order, tperf_queue *queue, int32_t more,
                            tperf_error *error) {
    if (order->count > MAX_OPS - more)
        return tperf_error_set(error, TPERF_INVALID, "a schedule has at most %d passes", MAX_OPS);
    if (queue->capacity - queue->count >= more) return TPERF_OK;
    int64_t capacity = (int64_t)queue->capacity + queue->capacity / 2 + 32;
    if (capacity < (int64_t)queue->count + more) capacity = (int64_t)queue->count + more;
    tperf_order_op *ops = tperf_heap_grow(order->heap, queue->ops, (size_t)capacity, sizeof *ops);
    if (!ops)
        return tperf_error_set(error, TPERF_NO_MEMORY,
                               "not enough memory for a queue of %lld passes", (long long)capacity);
    queue->ops = ops;
    queue->capacity = (int32_t)(capacity > MAX_OPS ? MAX_OPS : capacity);
    return TPERF_OK;
}

tperf_status tperf_order_reserve(tperf_order *order, int64_t each, tperf_error *error) {
    if (order->count > MAX_OPS - order->devices * each)
        return tperf_error_set(error, TPERF_INVALID, "a schedule has at most %d passes", MAX_OPS);
    for (int32_t d = 0; d < order->devices; d++)
        TPERF_TRY(reserve(order, &order->queues[d], (int32_t)each, error));
    return TPERF_OK;
}

tperf_status tperf_order_add(tperf_order *order, tperf_pass_kind pass, int64_t device,
                             int64_t stage, int64_t microbatch, tperf_error *error) {
    TPERF_TRY(check_op(order, pass, device, stage, microbatch, error));
    tperf_queue *queue = &order->queues[device];
    TPERF_TRY(reserve(order, queue, 1, error));
    tperf_order_append(order, queue, pass, TPERF_ALONE, stage, microbatch);
    return TPERF_OK;
}

tperf_status tperf_order_add_pair(tperf_order *order, int64_t device, tperf_order_place forward,
                                  tperf_order_place backward, tperf_error *error) {
    TPERF_TRY(check_op(order, TPERF_FORWARD, device, forward.stage, forward.microbatch, error));
    TPERF_TRY(check_op(order, TPERF_BACKWARD, device, backward.stage, backward.microbatch, error));
    tperf_queue *queue = &order->queues[device];
    TPERF_TRY(reserve(order, queue, 2, error));
    tperf_order_append(order, queue, TPERF_FORWARD, TPERF_PAIR_FORWARD, forward.stage,
                       forward.microbatch);
    tperf_order_append(order, queue, TPERF_BACKWARD, TPERF_PAIR_BACKWARD, backward.stage,
                       backward.microbatch);
    return TPERF_OK;
}

// Makes room for one more item of a growing array.
static tperf_status grow(const tperf_heap *heap, void **items, int32_t count, int32_t *capacity,
                         size_t size, tperf_error *error) {
    if (count < *capacity) return TPERF_OK;
    if (count == MAX_OPS)
        return tperf_error_set(error, TPERF_INVALID, "a schedule has at most %d passes", MAX_OPS);
    int64_t more = (int64_t)count + count / 2 + 32;
    if (more > MAX_OPS) more = MAX_OPS;
    void *grown = tperf_heap_grow(heap, *items, (size_t)more, size);
    if (!grown)
        return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for %lld passes",
                               (long long)more);
    *items = grown;
    *capacity = (int32_t)more;
    return TPERF_OK;
}

tperf_status tperf_order_add_own(tperf_order *order, int64_t device, double time, bool busy,
                                 tperf_error *error) {
    TPERF_TRY(check_index("device", device, order->devices, error));
    void *items = order->own;
    tperf_status status =
        grow(order->heap, &items, order->n_own, &order->own_capacity, sizeof *order->own, error);
    order->own = items;
    if (status != TPERF_OK) return status;
    order->own[order->n_own++] =
        (tperf_own_pass){.device = (int32_t)device, .time = time, .busy = busy};
    return TPERF_OK;
}

static bool is_there(const tperf_order *order, tperf_order_place_of of) {
    if (of.own >= 0) return of.own < order->n_own;
    return of.device >= 0 && of.device < order->devices && of.position >= 0 &&
           of.position < order->queues[of.device].count;
}

tperf_status tperf_order_wait(tperf_order *order, int32_t own, int64_t device,
                              tperf_order_place_of of, tperf_error *error) {
    if (own < 0) TPERF_TRY(check_index("device", device, order->devices, error));
    if (own >= order->n_own || !is_there(order, of))
        return tperf_error_set(error, TPERF_INVALID, "a pass that is waited for is not there");
    if (own < 0 && !order->waiting) {
        order->waiting =
            tperf_heap_zeroed(order->heap, (size_t)order->devices, sizeof *order->waiting);
        if (!order->waiting)
            return tperf_error_set(error, TPERF_NO_MEMORY, "not enough memory for what waits");
    }
    void *items = order->needs;
    tperf_status status = grow(order->heap, &items, order->n_needs, &order->needs_capacity,
                               sizeof *order->needs, error);
    order->needs = items;
    if (status != TPERF_OK) return status;
    int32_t *first = own < 0 ? &order->waiting[device] : &order->own[own].need;
    order->needs[order->n_needs++] = (tperf_order_need){.of = of, .next = *first};
    *first = order->n_needs;
    return TPERF_OK;
}
