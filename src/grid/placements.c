// placements.c: see placements.h.
#include "grid/placements.h"

#include <string.h>

static bool grow(const tperf_heap *heap, void **array, size_t *capacity, size_t n, size_t size) {
    if (n <= *capacity) return true;
    size_t grown = n > 2 * *capacity ? n : 2 * *capacity;
    void *moved = tperf_heap_grow(heap, *array, grown, size);
    if (!moved) return false;
    *array = moved;
    *capacity = grown;
    return true;
}

// Sizes are at most 2^31, and division of 32 bits is several times as fast as that of 64.
static bool divides(int64_t part, int64_t whole) {
    return (uint32_t)whole % (uint32_t)part == 0;
}

static int64_t smallest_prime_factor(int64_t n) {
    for (int64_t factor = 2; factor <= n / factor; factor++)
        if (divides(factor, n)) return factor;
    return n;
}

// Whether an axis takes GPUs of the domain by itself.
static bool takes(const tperf_siting *s, int axis) {
    return s->grid->axes[axis].folds == 0;
}

static int64_t smallest_step(const tperf_siting *s, const int64_t *fast) {
    int64_t step = INT64_MAX;
    for (int i = TPERF_AXIS_OWN; i < s->grid->n; i++) {
        if (!takes(s, i) || s->demanded[i] || s->sizes[i] == fast[i]) continue;
        int64_t factor = smallest_prime_factor(s->sizes[i] / fast[i]);
        if (factor < step) step = factor;
    }
    return step;
}

static bool add_layout(tperf_atlas *atlas, const tperf_siting *s, const int64_t *fast,
                       int64_t room) {
    if (!grow(s->heap, (void **)&atlas->layouts, &atlas->layouts_capacity, atlas->n_layouts + 1,
              sizeof *atlas->layouts))
        return false;
    tperf_layout *layout = &atlas->layouts[atlas->n_layouts++];
    *layout = (tperf_layout){.room = room, .step = smallest_step(s, fast), .placed = UINT32_MAX};
    memcpy(layout->fast, fast, sizeof layout->fast);
    int64_t own[TPERF_AXES_MAX];
    memcpy(own, fast, sizeof own);
    own[TPERF_AXIS_REPLICAS] = own[TPERF_AXIS_STAGES] = 1;
    layout->dense = tperf_grid_copies(s->grid, own, false);
    layout->experts = tperf_grid_copies(s->grid, own, true);
    return true;
}

// All ways to give an axis and those after it a part of a domain of which there is room for `room` GPUs, for each of
// those that the axes before have.
static bool lay_out(tperf_atlas *atlas, const tperf_siting *s, int axis, int64_t *fast,
                    int64_t room) {
    if (axis == s->grid->n) return add_layout(atlas, s, fast, room);
    if (!takes(s, axis)) return lay_out(atlas, s, axis + 1, fast, room);
    const tperf_divisors *d = s->divisors;
    int64_t size = s->sizes[axis], demanded = s->demanded[axis];
    for (size_t i = 0; i < d->n && d->values[i] <= room && d->values[i] <= size; i++) {
        int64_t part = d->values[i];
        if (!divides(part, size) || (demanded && demanded != part)) continue;
        if (s->fills && !divides(part, room)) continue;
        fast[axis] = part;
        if (!lay_out(atlas, s, axis + 1, fast, room / part)) return false;
    }
    return true;
}

static bool lay_out_one_domain(tperf_atlas *atlas, const tperf_siting *s) {
    int64_t fast[TPERF_AXES_MAX] = {0}, room = s->divisors->domain;
    for (int i = TPERF_AXIS_OWN; i < s->grid->n; i++) {
        if (!takes(s, i)) continue;
        if (s->demanded[i] && s->demanded[i] != s->sizes[i]) return true;
        fast[i] = s->sizes[i];
        room /= fast[i];
    }
    return add_layout(atlas, s, fast, room);
}

bool tperf_atlas_make(tperf_atlas *atlas, const tperf_siting *s, int64_t stamp) {
    int64_t fast[TPERF_AXES_MAX] = {0};
    if (atlas->stamp == stamp) return true;
    atlas->n_layouts = atlas->n_placed = 0;
    atlas->stamp = 0; // until it is whole
    bool made = s->one_domain ? lay_out_one_domain(atlas, s)
                              : lay_out(atlas, s, TPERF_AXIS_OWN, fast, s->divisors->domain);
    if (made) atlas->stamp = stamp;
    return made;
}

// A layout with what the replicas' part makes of the folded axes: its index, or UINT32_MAX without memory.
static uint32_t find_placed(tperf_atlas *atlas, const tperf_siting *s, uint32_t layout,
                            const int64_t *fast) {
    tperf_layout *of = &atlas->layouts[layout];
    for (uint32_t i = of->placed; i != UINT32_MAX; i = atlas->placed[i].next)
        if (memcmp(&atlas->placed[i].fast[TPERF_AXIS_OWN], &fast[TPERF_AXIS_OWN],
                   (TPERF_AXES_MAX - TPERF_AXIS_OWN) * sizeof *fast) == 0)
            return i;
    if (!grow(s->heap, (void **)&atlas->placed, &atlas->placed_capacity, atlas->n_placed + 1,
              sizeof *atlas->placed))
        return UINT32_MAX;
    tperf_placed *placed = &atlas->placed[atlas->n_placed];
    memcpy(placed->fast, fast, sizeof placed->fast);
    placed->next = of->placed;
    of->placed = (uint32_t)atlas->n_placed;
    return (uint32_t)atlas->n_placed++;
}

static bool same_apart(const tperf_grid *grid, const tperf_exchange_groups *groups,
                       const int64_t *fast) {
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++)
        if (grid->axes[i].apart > 0 && groups->apart_fast[i] != fast[i]) return false;
    return true;
}

// Adds the groups of replicas to a book: their index; UINT32_MAX without memory.
static uint32_t add_exchange(tperf_book *book, const tperf_siting *s, const int64_t *fast,
                             int64_t dense_fast, int64_t experts_fast) {
    if (!grow(s->heap, (void **)&book->exchanges, &book->exchanges_capacity, book->n_exchanges + 1,
              sizeof *book->exchanges))
        return UINT32_MAX;
    tperf_exchange_groups *groups = &book->exchanges[book->n_exchanges];
    groups->dense_fast = dense_fast;
    groups->experts_fast = experts_fast;
    memcpy(groups->apart_fast, fast, sizeof groups->apart_fast);
    groups->dense = tperf_grid_replicas(s->grid, s->sizes, fast, false);
    groups->experts = tperf_grid_replicas(s->grid, s->sizes, fast, true);
    return (uint32_t)book->n_exchanges++;
}

// The index of the groups of replicas, from `first` on in the book; UINT32_MAX without memory.
static uint32_t find_exchange(tperf_book *book, const tperf_siting *s, const tperf_layout *layout,
                              const int64_t *fast, size_t first) {
    int64_t dense = layout->dense * fast[TPERF_AXIS_REPLICAS];
    int64_t experts = layout->experts * fast[TPERF_AXIS_REPLICAS];
    int64_t spread = s->folds ? tperf_grid_spread(s->grid, fast) : 1;
    if (spread > 1) experts /= spread;
    for (size_t i = book->n_exchanges; i-- > first;) {
        const tperf_exchange_groups *known = &book->exchanges[i];
        if (known->dense_fast == dense && known->experts_fast == experts &&
            same_apart(s->grid, known, fast))
            return (uint32_t)i;
    }
    return add_exchange(book, s, fast, dense, experts);
}

static bool is_demanded(const tperf_siting *s, const int64_t *fast) {
    for (int i = TPERF_AXIS_OWN; i < s->grid->n; i++)
        if (s->demanded[i] && fast[i] != s->demanded[i]) return false;
    return true;
}

static bool add_spot(tperf_book *book, tperf_atlas *atlas, const tperf_siting *s, uint32_t layout,
                     const tperf_part *replicas, const tperf_part *stages, size_t first_exchange) {
    int64_t fast[TPERF_AXES_MAX];
    memcpy(fast, atlas->layouts[layout].fast, sizeof fast);
    fast[TPERF_AXIS_REPLICAS] = replicas->gpus;
    fast[TPERF_AXIS_STAGES] = stages->gpus;
    if (s->folds) tperf_grid_fold(s->grid, s->sizes, fast);
    if (s->folds && !is_demanded(s, fast)) return true;
    tperf_spot spot = {
        find_placed(atlas, s, layout, fast),
        find_exchange(book, s, &atlas->layouts[layout], fast, first_exchange),
        replicas,
        stages,
    };
    if (spot.placed == UINT32_MAX || spot.exchange == UINT32_MAX ||
        !grow(s->heap, (void **)&book->spots, &book->spots_capacity, book->n_spots + 1,
              sizeof *book->spots))
        return false;
    book->spots[book->n_spots++] = spot;
    return true;
}

// The parts that an axis may have.
typedef struct parts {
    const tperf_part *begin, *end;
    bool demanded; // there is one; a larger one is out of the question
} parts;

static parts parts_of(const tperf_siting *s, int axis) {
    const tperf_divisors *d = s->divisors;
    int64_t demanded = s->demanded[axis];
    size_t i = tperf_divisors_index(d, s->sizes[axis]);
    parts p = {d->parts + d->first[i], d->parts + d->first[i + 1], demanded != 0};
    if (!demanded) return p;
    while (p.begin < p.end && p.begin->gpus != demanded)
        p.begin++;
    if (p.begin < p.end) p.end = p.begin + 1;
    return p;
}

// What is placed beside a layout: the parts that replicas and stages may have.
typedef struct beside {
    parts replicas, stages;
    size_t exchanges; // the book's groups from there on are of these stages
} beside;

// The parts of the replicas that share a domain with a layout and a part of the stages: no axis could have a larger part.
// Under the published rules the domain is full (Q16). *end: replicas' parts from there on are too large, here and for
// larger parts of the stages.
static bool add_spots_for(tperf_book *book, tperf_atlas *atlas, const tperf_siting *s,
                          uint32_t index, const beside *b, const tperf_part *stages,
                          const tperf_part **end) {
    const tperf_layout *layout = &atlas->layouts[index];
    uint32_t room = (uint32_t)layout->room, left = room / stages->gpus; // at least 1
    if (s->fills && left * stages->gpus != room) return true;
    while (*end > b->replicas.begin && (*end)[-1].gpus > left)
        (*end)--;
    uint32_t too_few = s->fills              ? left - 1
                       : layout->step > left ? 0
                                             : left / (uint32_t)layout->step;
    for (const tperf_part *r = *end; r-- > b->replicas.begin && r->gpus > too_few;) {
        bool larger = !s->fills && ((r->next <= left && !b->replicas.demanded) ||
                                    (stages->next <= room / r->gpus && !b->stages.demanded));
        if (!larger && !add_spot(book, atlas, s, index, r, stages, b->exchanges)) return false;
    }
    return true;
}

static const tperf_spots *add_spots(tperf_book *book, tperf_atlas *atlas, const tperf_siting *s) {
    beside b = {parts_of(s, TPERF_AXIS_REPLICAS), parts_of(s, TPERF_AXIS_STAGES),
                book->n_exchanges};
    size_t begin = book->n_spots;
    for (uint32_t i = 0; i < atlas->n_layouts; i++) {
        const tperf_part *end = b.replicas.end;
        for (const tperf_part *p = b.stages.begin;
             p < b.stages.end && p->gpus <= atlas->layouts[i].room; p++)
            if (!add_spots_for(book, atlas, s, i, &b, p, &end)) return NULL;
    }
    if (!grow(s->heap, (void **)&book->lists, &book->lists_capacity, book->n_lists + 1,
              sizeof *book->lists))
        return NULL;
    book->lists[book->n_lists] = (tperf_spots){s->sizes[TPERF_AXIS_STAGES], begin, book->n_spots};
    return &book->lists[book->n_lists++];
}

const tperf_spots *tperf_book_find(tperf_book *book, tperf_atlas *atlas,
                                   const tperf_siting *siting) {
    if (book->stamp != atlas->stamp) book->n_lists = book->n_spots = book->n_exchanges = 0;
    book->stamp = atlas->stamp;
    for (size_t i = 0; i < book->n_lists; i++)
        if (book->lists[i].stages == siting->sizes[TPERF_AXIS_STAGES]) return &book->lists[i];
    return add_spots(book, atlas, siting);
}

void tperf_atlas_release(tperf_atlas *atlas) {
    tperf_heap_free(atlas->layouts);
    tperf_heap_free(atlas->placed);
    *atlas = (tperf_atlas){0};
}

void tperf_book_release(tperf_book *book) {
    tperf_heap_free(book->lists);
    tperf_heap_free(book->spots);
    tperf_heap_free(book->exchanges);
    *book = (tperf_book){0};
}
