// placements.c: see placements.h.
#include "grid/placements.h"

#include <stdlib.h>
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

// Sizes are at most 2^31, and 32-bit division is several times faster than 64-bit.
static bool divides(int64_t part, int64_t whole) {
    return (uint32_t)whole % (uint32_t)part == 0;
}

static int64_t smallest_prime_factor(int64_t n) {
    for (int64_t factor = 2; factor <= n / factor; factor++)
        if (divides(factor, n)) return factor;
    return n;
}

// Whether an axis takes GPUs of the domain on its own, not folded over others.
static bool takes(const tperf_placement_problem *s, int axis) {
    return s->grid->axes[axis].folds == 0;
}

bool tperf_grid_may_fold(const tperf_grid *grid, const int64_t *sizes, const int64_t *demanded) {
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++) {
        int64_t alone = grid->axes[i].cuts & TPERF_CUTS_STATE ? 0 : 1;
        if (grid->axes[i].folds && (sizes[i] != alone || demanded[i])) return true;
    }
    return false;
}

static int64_t smallest_step(const tperf_placement_problem *s, const int64_t *fast) {
    int64_t step = INT64_MAX;
    for (int i = TPERF_AXIS_OWN; i < s->grid->n; i++) {
        if (!takes(s, i) || s->demanded[i] || s->sizes[i] == fast[i]) continue;
        int64_t factor = smallest_prime_factor(s->sizes[i] / fast[i]);
        if (factor < step) step = factor;
    }
    return step;
}

static bool add_layout(tperf_layout_cache *cache, const tperf_placement_problem *s,
                       const int64_t *fast, int64_t room) {
    if (!grow(s->heap, (void **)&cache->layouts, &cache->layouts_capacity, cache->n_layouts + 1,
              sizeof *cache->layouts))
        return false;
    tperf_layout *layout = &cache->layouts[cache->n_layouts++];
    *layout = (tperf_layout){.room = room, .step = smallest_step(s, fast), .placed = UINT32_MAX};
    memcpy(layout->fast, fast, sizeof layout->fast);
    int64_t own[TPERF_AXES_MAX];
    memcpy(own, fast, sizeof own);
    own[TPERF_AXIS_REPLICAS] = own[TPERF_AXIS_STAGES] = 1;
    layout->dense = tperf_grid_copies(s->grid, own, false);
    layout->experts = tperf_grid_copies(s->grid, own, true);
    return true;
}

// Enumerates the parts that this axis and those after it may have in the `room` GPUs that the axes before them leave in
// the domain.
static bool lay_out(tperf_layout_cache *cache, const tperf_placement_problem *s, int axis,
                    int64_t *fast, int64_t room) {
    if (axis == s->grid->n) return add_layout(cache, s, fast, room);
    fast[axis] = 1;
    if (!takes(s, axis)) return lay_out(cache, s, axis + 1, fast, room);
    const tperf_divisors *d = s->divisors;
    int64_t size = s->sizes[axis], demanded = s->demanded[axis];
    for (size_t i = 0; i < d->n && d->values[i] <= room && d->values[i] <= size; i++) {
        int64_t part = d->values[i];
        if (!divides(part, size) || (demanded && demanded != part)) continue;
        if (s->fills && !divides(part, room)) continue;
        fast[axis] = part;
        if (!lay_out(cache, s, axis + 1, fast, room / part)) return false;
    }
    return true;
}

static bool lay_out_one_domain(tperf_layout_cache *cache, const tperf_placement_problem *s) {
    int64_t fast[TPERF_AXES_MAX] = {0}, room = s->divisors->domain;
    for (int i = TPERF_AXIS_OWN; i < s->grid->n; i++) {
        fast[i] = 1;
        if (!takes(s, i)) continue;
        if (s->demanded[i] && s->demanded[i] != s->sizes[i]) return true;
        fast[i] = s->sizes[i];
        room /= fast[i];
    }
    return add_layout(cache, s, fast, room);
}

bool tperf_layout_cache_make(tperf_layout_cache *cache, const tperf_placement_problem *s,
                             int64_t stamp) {
    int64_t fast[TPERF_AXES_MAX] = {0};
    if (cache->stamp == stamp) return true;
    cache->n_layouts = cache->n_placed = 0;
    cache->stamp = 0; // invalid until complete
    bool made = s->order        ? true
                : s->one_domain ? lay_out_one_domain(cache, s)
                                : lay_out(cache, s, TPERF_AXIS_OWN, fast, s->divisors->domain);
    if (made) cache->stamp = stamp;
    return made;
}

// The index of a layout combined with the folded axes' parts; UINT32_MAX if out of memory.
static uint32_t find_placed(tperf_layout_cache *cache, const tperf_placement_problem *s,
                            uint32_t layout, const int64_t *fast) {
    tperf_layout *of = &cache->layouts[layout];
    for (uint32_t i = of->placed; i != UINT32_MAX; i = cache->placed[i].next)
        if (memcmp(&cache->placed[i].fast[TPERF_AXIS_OWN], &fast[TPERF_AXIS_OWN],
                   (TPERF_AXES_MAX - TPERF_AXIS_OWN) * sizeof *fast) == 0)
            return i;
    if (!grow(s->heap, (void **)&cache->placed, &cache->placed_capacity, cache->n_placed + 1,
              sizeof *cache->placed))
        return UINT32_MAX;
    tperf_placed *placed = &cache->placed[cache->n_placed];
    memcpy(placed->fast, fast, sizeof placed->fast);
    placed->next = of->placed;
    of->placed = (uint32_t)cache->n_placed;
    return (uint32_t)cache->n_placed++;
}

// The parts that an axis may have in a domain.
typedef struct parts {
    const tperf_part *begin, *end;
    bool demanded; // the user demands this one; larger ones do not count
} parts;

// A list of placements that is being made: the replicas' and stages' possible parts are combined with every layout.
typedef struct making {
    tperf_placement_cache *found;
    tperf_layout_cache *cache;
    const tperf_placement_problem *problem;
    parts replicas, stages;
    // A demanded part of a folded axis may need smaller parts of those that it folds over.
    bool may_underfill;
    size_t exchanges;       // index of the first exchange groups for these stages
    int64_t dense, experts; // copies of a dense weight, and of an expert's, in all domains
} making;

// Whether the groups of axes that are reduced separately lie alike. With further tiers, all own axes before them count.
static bool same_apart(const tperf_placement_problem *s, const tperf_exchange_groups *groups,
                       const int64_t *fast) {
    const tperf_grid *grid = s->grid;
    bool alike = true;
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++) {
        alike = alike && groups->apart_fast[i] == fast[i];
        if (grid->axes[i].apart > 0 && (s->tiered ? !alike : groups->apart_fast[i] != fast[i]))
            return false;
    }
    return true;
}

// The copies of a weight, all together.
static tperf_group copies_of(const making *m, const int64_t *fast, int64_t in_domain,
                             bool experts) {
    const tperf_placement_problem *s = m->problem;
    if (s->tiered) return tperf_grid_copies_group(s->grid, s->sizes, fast, experts);
    return (tperf_group){experts ? m->experts : m->dense, in_domain, 1, 1};
}

static bool lie_alike(const tperf_group *a, const tperf_group *b) {
    return a->fast == b->fast && a->near == b->near && a->far == b->far;
}

// Adds groups of replicas to the cache and returns their index; UINT32_MAX if out of memory.
static uint32_t add_exchange(const making *m, const int64_t *fast, tperf_group dense,
                             tperf_group experts) {
    tperf_placement_cache *found = m->found;
    const tperf_placement_problem *s = m->problem;
    if (!grow(s->heap, (void **)&found->exchanges, &found->exchanges_capacity,
              found->n_exchanges + 1, sizeof *found->exchanges))
        return UINT32_MAX;
    tperf_exchange_groups *groups = &found->exchanges[found->n_exchanges];
    groups->all_dense = dense;
    groups->all_experts = experts;
    memcpy(groups->apart_fast, fast, sizeof groups->apart_fast);
    groups->dense = tperf_grid_replicas_among(s->grid, s->sizes, fast, dense, m->dense);
    groups->experts = tperf_grid_replicas_among(s->grid, s->sizes, fast, experts, m->dense);
    return (uint32_t)found->n_exchanges++;
}

// The index of the groups of replicas among those for these stages; UINT32_MAX if out of memory.
static uint32_t find_exchange(const making *m, const tperf_layout *layout, const int64_t *fast) {
    const tperf_placement_cache *found = m->found;
    const tperf_placement_problem *s = m->problem;
    int64_t dense = layout->dense * fast[TPERF_AXIS_REPLICAS];
    int64_t experts = layout->experts * fast[TPERF_AXIS_REPLICAS];
    int64_t spread = s->folds ? tperf_grid_spread(s->grid, fast) : 1;
    if (spread > 1) experts /= spread;
    tperf_group all_dense = copies_of(m, fast, dense, false),
                all_experts = copies_of(m, fast, experts, true);
    for (size_t i = found->n_exchanges; i-- > m->exchanges;) {
        const tperf_exchange_groups *groups = &found->exchanges[i];
        if (lie_alike(&groups->all_dense, &all_dense) &&
            lie_alike(&groups->all_experts, &all_experts) && same_apart(s, groups, fast))
            return (uint32_t)i;
    }
    return add_exchange(m, fast, all_dense, all_experts);
}

static bool is_demanded(const tperf_placement_problem *s, const int64_t *fast) {
    for (int i = TPERF_AXIS_OWN; i < s->grid->n; i++)
        if (s->demanded[i] && fast[i] != s->demanded[i]) return false;
    return true;
}

static bool add_entry(const making *m, uint32_t layout, const int64_t *fast,
                      const tperf_part *stages) {
    tperf_placement_cache *found = m->found;
    const tperf_placement_problem *s = m->problem;
    tperf_placement_entry entry = {
        find_placed(m->cache, s, layout, fast),
        find_exchange(m, &m->cache->layouts[layout], fast),
        (uint32_t)(stages - m->stages.begin),
        (uint32_t)fast[TPERF_AXIS_REPLICAS],
        stages->gpus,
    };
    if (entry.placed == UINT32_MAX || entry.exchange == UINT32_MAX ||
        !grow(s->heap, (void **)&found->placements, &found->placements_capacity,
              found->n_placements + 1, sizeof *found->placements))
        return false;
    found->placements[found->n_placements++] = entry;
    return true;
}

static bool add_placement(const making *m, uint32_t layout, const tperf_part *replicas,
                          const tperf_part *stages) {
    const tperf_placement_problem *s = m->problem;
    int64_t fast[TPERF_AXES_MAX];
    memcpy(fast, m->cache->layouts[layout].fast, sizeof fast);
    fast[TPERF_AXIS_REPLICAS] = replicas->gpus;
    fast[TPERF_AXIS_STAGES] = stages->gpus;
    if (s->folds) tperf_grid_fold(s->grid, s->sizes, fast);
    if (s->folds && !is_demanded(s, fast)) return true;
    return add_entry(m, layout, fast, stages);
}

// The layout with these parts of the own axes; UINT32_MAX if out of memory.
static uint32_t find_layout(tperf_layout_cache *cache, const tperf_placement_problem *s,
                            const int64_t *fast) {
    int64_t own[TPERF_AXES_MAX] = {0};
    for (int i = TPERF_AXIS_OWN; i < s->grid->n; i++)
        own[i] = takes(s, i) ? fast[i] : 1;
    for (uint32_t i = 0; i < cache->n_layouts; i++)
        if (memcmp(cache->layouts[i].fast, own, sizeof own) == 0) return i;
    return add_layout(cache, s, own, 0) ? (uint32_t)cache->n_layouts - 1 : UINT32_MAX;
}

// Adds the placement that the order of ranks implies, if there is one.
static bool add_ranked(const making *m) {
    const tperf_placement_problem *s = m->problem;
    int64_t fast[TPERF_AXES_MAX] = {0}, gpus = 1;
    if (!tperf_grid_rank(s->grid, s->order, s->sizes, s->divisors->domain, fast)) return true;
    for (int i = 0; i < s->grid->n; i++)
        if (takes(s, i)) gpus *= fast[i];
    if (s->fills && gpus != s->divisors->domain) return true;
    const tperf_part *stages = m->stages.begin;
    while (stages->gpus != fast[TPERF_AXIS_STAGES])
        stages++;
    uint32_t layout = find_layout(m->cache, s, fast);
    return layout != UINT32_MAX && add_entry(m, layout, fast, stages);
}

static parts parts_of(const tperf_placement_problem *s, int axis) {
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

// Adds the parts of the replicas that fill the domain beside a layout and a part of the stages: no axis could have a
// larger part. Under the published rules the domain is full (Q16). *end: replicas' parts from here on are too large,
// here and for larger parts of the stages.
static bool add_placements_for(const making *m, uint32_t index, const tperf_part *stages,
                               const tperf_part **end) {
    const tperf_placement_problem *s = m->problem;
    const tperf_layout *layout = &m->cache->layouts[index];
    uint32_t room = (uint32_t)layout->room, left = room / stages->gpus; // at least 1
    if (s->fills && left * stages->gpus != room) return true;
    while (*end > m->replicas.begin && (*end)[-1].gpus > left)
        (*end)--;
    uint32_t too_few = s->fills                                  ? left - 1
                       : m->may_underfill || layout->step > left ? 0
                                                                 : left / (uint32_t)layout->step;
    for (const tperf_part *r = *end; r-- > m->replicas.begin && r->gpus > too_few;) {
        bool more_replicas = r->next <= left && !m->replicas.demanded && !m->may_underfill;
        bool more_stages = stages->next <= room / r->gpus && !m->stages.demanded;
        bool larger = !s->fills && (more_replicas || more_stages);
        if (!larger && !add_placement(m, index, r, stages)) return false;
    }
    return true;
}

static bool demands_folded(const tperf_placement_problem *s) {
    for (int i = TPERF_AXIS_OWN; s->folds && i < s->grid->n; i++)
        if (s->demanded[i] && !takes(s, i)) return true;
    return false;
}

static int by_placed(const void *a, const void *b) {
    const tperf_placement_entry *x = a, *y = b;
    if (x->placed != y->placed) return x->placed < y->placed ? -1 : 1;
    if (x->stages != y->stages) return x->stages < y->stages ? -1 : 1;
    return (x->replicas < y->replicas) - (x->replicas > y->replicas);
}

// Groups the placements from `begin` on into runs.
static bool add_runs(tperf_placement_cache *found, const tperf_placement_problem *s, size_t begin) {
    tperf_placement_entry *p = found->placements;
    if (s->folds && found->n_placements > begin)
        qsort(p + begin, found->n_placements - begin, sizeof *p, by_placed);
    for (size_t i = begin; i < found->n_placements; i++) {
        if (i > begin && p[i].placed == p[i - 1].placed) {
            found->runs[found->n_runs - 1].end++;
            continue;
        }
        if (!grow(s->heap, (void **)&found->runs, &found->runs_capacity, found->n_runs + 1,
                  sizeof *found->runs))
            return false;
        found->runs[found->n_runs++] = (tperf_placement_run){p[i].placed, i + 1};
    }
    return true;
}

static const tperf_placement_list *add_placements(tperf_placement_cache *found,
                                                  tperf_layout_cache *cache,
                                                  const tperf_placement_problem *s) {
    making m = {.found = found,
                .cache = cache,
                .problem = s,
                .replicas = parts_of(s, TPERF_AXIS_REPLICAS),
                .stages = parts_of(s, TPERF_AXIS_STAGES),
                .may_underfill = demands_folded(s),
                .exchanges = found->n_exchanges,
                .dense = tperf_grid_copies(s->grid, s->sizes, false),
                .experts = tperf_grid_copies(s->grid, s->sizes, true)};
    m.experts /= tperf_grid_spread(s->grid, s->sizes);
    size_t begin = found->n_placements, first_run = found->n_runs;
    if (s->order && !add_ranked(&m)) return NULL;
    for (uint32_t i = 0; i < cache->n_layouts && !s->order; i++) {
        const tperf_part *end = m.replicas.end;
        for (const tperf_part *p = m.stages.begin;
             p < m.stages.end && p->gpus <= cache->layouts[i].room; p++)
            if (!add_placements_for(&m, i, p, &end)) return NULL;
    }
    if (!add_runs(found, s, begin) || !grow(s->heap, (void **)&found->lists, &found->lists_capacity,
                                            found->n_lists + 1, sizeof *found->lists))
        return NULL;
    found->lists[found->n_lists] = (tperf_placement_list){s->sizes[TPERF_AXIS_STAGES],
                                                          begin,
                                                          found->n_placements,
                                                          first_run,
                                                          found->n_runs,
                                                          m.exchanges,
                                                          found->n_exchanges,
                                                          m.stages.begin,
                                                          m.stages.end};
    return &found->lists[found->n_lists++];
}

const tperf_placement_list *tperf_placement_cache_find(tperf_placement_cache *found,
                                                       tperf_layout_cache *cache,
                                                       const tperf_placement_problem *problem) {
    const tperf_placement_list *list =
        tperf_placement_cache_known(found, cache, problem->sizes[TPERF_AXIS_STAGES]);
    return list ? list : add_placements(found, cache, problem);
}

void tperf_layout_cache_release(tperf_layout_cache *cache) {
    tperf_heap_free(cache->layouts);
    tperf_heap_free(cache->placed);
    *cache = (tperf_layout_cache){0};
}

void tperf_placement_cache_release(tperf_placement_cache *found) {
    tperf_heap_free(found->lists);
    tperf_heap_free(found->placements);
    tperf_heap_free(found->runs);
    tperf_heap_free(found->exchanges);
    *found = (tperf_placement_cache){0};
}

// Larger parts of the first own axes first, then of the replicas and the stages.
static int neighbours_first(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    for (int i = 0; i < TPERF_AXES_MAX; i++) {
        int axis = (i + TPERF_AXIS_OWN) % TPERF_AXES_MAX;
        if (x[axis] != y[axis]) return x[axis] > y[axis] ? -1 : 1;
    }
    return 0;
}

static bool copy_placements(const tperf_placement_cache *found, const tperf_layout_cache *cache,
                            const tperf_heap *heap, tperf_placements *placements) {
    placements->fast = tperf_heap_new(heap, found->n_placements, sizeof *placements->fast);
    if (!placements->fast) return false;
    placements->n = found->n_placements;
    for (size_t i = 0; i < placements->n; i++) {
        const tperf_placement_entry *entry = &found->placements[i];
        int64_t *fast = placements->fast[i];
        memcpy(fast, cache->placed[entry->placed].fast, sizeof placements->fast[i]);
        fast[TPERF_AXIS_REPLICAS] = entry->replicas;
        fast[TPERF_AXIS_STAGES] = entry->stages;
    }
    qsort(placements->fast, placements->n, sizeof *placements->fast, neighbours_first);
    return true;
}

bool tperf_grid_placements(const tperf_grid *grid, const tperf_heap *heap, const int64_t *sizes,
                           const int64_t *demanded, int64_t domain, tperf_placements *placements) {
    *placements = (tperf_placements){0};
    int64_t gpus = 1;
    for (int i = 0; i < grid->n; i++)
        if (!grid->axes[i].folds) gpus *= sizes[i];
    tperf_divisors divisors;
    if (!tperf_divisors_init(&divisors, heap, gpus, domain)) return false;
    tperf_placement_problem problem = {
        .heap = heap,
        .grid = grid,
        .sizes = sizes,
        .demanded = demanded,
        .divisors = &divisors,
        .folds = tperf_grid_may_fold(grid, sizes, demanded),
    };
    tperf_layout_cache cache = {0};
    tperf_placement_cache found = {0};
    bool done = tperf_layout_cache_make(&cache, &problem, 1) &&
                tperf_placement_cache_find(&found, &cache, &problem) &&
                copy_placements(&found, &cache, heap, placements);
    tperf_placement_cache_release(&found);
    tperf_layout_cache_release(&cache);
    tperf_divisors_release(&divisors);
    return done;
}

void tperf_placements_release(tperf_placements *placements) {
    tperf_heap_free(placements->fast);
    *placements = (tperf_placements){0};
}
