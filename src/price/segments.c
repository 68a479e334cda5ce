// segments.c: the segments of a pass, see tperf/price.h.
#include "base/minmax.h"
#include "price/overlap.h"

// A pass as it is walked.
typedef struct walk {
    const tperf_pass_in *pass;
    const tperf_platform *on;
    const int64_t *sizes;
    const tperf_placement *placement;
    tperf_segment_visitor *visit;
    void *context;
    double times; // that the op runs: what follows is of one run
    double now;   // start of the next segment, unless it runs beside others
} walk;

// A collective: `pieces` of `all` equal ones.
static tperf_pass_segment collective(const walk *w, const tperf_comm *comm, double pieces,
                                     double all) {
    double one = tperf_comm_time(comm, w->on, w->sizes, w->placement, all);
    return (tperf_pass_segment){
        .comm = comm, .pieces = pieces, .all = all, .seconds = pieces * one};
}

// All runs of a segment, as one.
static void visit(walk *w, tperf_pass_segment segment) {
    segment.start *= w->times;
    segment.stop *= w->times;
    segment.seconds *= w->times;
    segment.pieces *= w->times;
    if (segment.stop > segment.start) w->visit(w->context, &segment);
}

static void visit_next(walk *w, tperf_pass_segment segment) {
    segment.start = w->now;
    segment.stop = w->now = w->now + segment.seconds;
    visit(w, segment);
}

// A kernel waits for its gathers and broadcasts; its results are reduced or sent afterwards.
static bool comes_first(const tperf_comm *comm) {
    return comm->kind == TPERF_ALL_GATHER || comm->kind == TPERF_BROADCAST;
}

// Those of the collectives that overlap nothing, which come before the kernels or after them.
static void visit_waited(walk *w, bool first) {
    const tperf_pass *pass = w->pass->pass;
    for (int i = 0; i < pass->n_comms; i++) {
        const tperf_comm *comm = &pass->comms[i];
        bool waited =
            !comm->beside && comm->chunking == TPERF_UNCHUNKED && !tperf_comm_is_once(comm);
        if (waited && comes_first(comm) == first) visit_next(w, collective(w, comm, 1, 1));
    }
}

// The first of SUMMA's panels, which travels by itself.
static void visit_first_panel(walk *w, double all) {
    const tperf_pass *pass = w->pass->pass;
    for (int i = 0; i < pass->n_comms; i++)
        if (!tperf_comm_is_once(&pass->comms[i]))
            visit_next(w, collective(w, &pass->comms[i], 1, all));
}

// The collectives beside a product in chunks, which takes `work` seconds.
static void visit_chunks(walk *w, double work) {
    const tperf_pass *pass = w->pass->pass;
    double chunks = (double)pass->chunks, part = work / chunks;
    for (int i = 0; i < pass->n_comms; i++) {
        const tperf_comm *comm = &pass->comms[i];
        if (comm->chunking == TPERF_UNCHUNKED) continue;
        bool ring = comm->chunking == TPERF_RING;
        double pieces = ring ? 1 : chunks;
        tperf_pass_segment segment = collective(w, comm, pieces, pieces);
        segment.beside = true;
        segment.start = w->now + (ring ? 0 : part);
        segment.stop = segment.start +
                       tperf_larger(segment.seconds,
                                    (chunks - 1) * part + (ring ? 0 : segment.seconds / chunks));
        visit(w, segment);
    }
}

// The collectives beside the kernels, one after the other: of SUMMA's panels those after the first, each of which may
// wait for a product of `work` seconds in all.
static void visit_beside(walk *w, const tperf_comm_times *t, double all, double work) {
    const tperf_pass *pass = w->pass->pass;
    bool panels = w->pass->op->panels, exactly = w->on->rules->panels_overlap_exactly;
    double pieces = panels && exactly ? all - 1 : panels ? all : 1, stretch = 1, start = w->now;
    if (panels && exactly && t->waited > 0)
        stretch = tperf_larger(t->waited, work / all) / t->waited;
    for (int i = 0; i < pass->n_comms; i++) {
        const tperf_comm *comm = &pass->comms[i];
        bool beside = panels ? !tperf_comm_is_once(comm) : comm->beside;
        if (!beside) continue;
        tperf_pass_segment segment = collective(w, comm, pieces, all);
        segment.beside = true;
        segment.start = start;
        segment.stop = start = start + stretch * segment.seconds;
        visit(w, segment);
    }
}

double tperf_pass_segments(const tperf_pass_in *in, const tperf_platform *on, const int64_t *sizes,
                           const tperf_placement *placement, tperf_segment_visitor *visitor,
                           void *context) {
    double times = tperf_op_times(in->op);
    walk w = {in, on, sizes, placement, visitor, context, times, 0};
    const tperf_pass_cost *cost = in->cost;
    double panels = tperf_panels_of(in->op, placement->panels);
    double kernels = (cost->compute + cost->exposed_memory) / times, put_off = in->put_off / times;
    double chunks = cost->chunked * kernels;
    tperf_comm_times t = tperf_comm_times_of(in->pass, on, sizes, placement, panels, chunks);
    if (!t.chunked) chunks = 0;
    double window = tperf_larger(kernels - chunks - put_off, 0), own = kernels - put_off;
    double late = tperf_late_beside_kernels(in->op, on, &t, panels, window) + t.late_chunks;
    if (in->op->panels)
        visit_first_panel(&w, panels);
    else
        visit_waited(&w, true);
    if (t.chunked) visit_chunks(&w, chunks);
    // The kernels wait for each panel, or are slower for the collectives beside them.
    double slower = in->op->panels ? late : tperf_smaller(t.slowing_beside, late);
    visit(&w, (tperf_pass_segment){.start = w.now, .stop = w.now + own + slower, .seconds = own});
    visit_beside(&w, &t, panels, window);
    w.now += own + late;
    if (!in->op->panels) visit_waited(&w, false);
    return times * w.now;
}
