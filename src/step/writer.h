// writer.h: writes tasks one after the other. Private to src/step.
#ifndef TPERF_STEP_WRITER_H
#define TPERF_STEP_WRITER_H

#include "tperf/step.h"

typedef struct tperf_writer {
    const tperf_step *step;
    tperf_task_list *list;
    double now;  // start of the next task
    int section; // of the next task
    int64_t layer;
    bool no_memory; // out of memory: the list is incomplete
} tperf_writer;

enum {
    TPERF_ON_COMPUTE = 1 << TPERF_COMPUTE,
    TPERF_ON_HOST = 1 << TPERF_HOST,
    TPERF_ON_COPY = 1 << TPERF_COPY
};

// Adds a route's bytes, so many times, to those that a task sends, and the ports to its resources.
void tperf_task_send(tperf_task *task, const tperf_route *route, double times);

// Adds a task from task.start to task.stop, unless its duration is 0. Fills in the writer's section and layer.
void tperf_write(tperf_writer *w, tperf_task task);

// Adds a task that starts now; the next one starts when it ends.
void tperf_write_next(tperf_writer *w, tperf_task task);

// Writes one pass of an op. put_off: seconds of its kernel delayed to a later weight-gradient pass.
void tperf_write_op(tperf_writer *w, const tperf_op *op, const tperf_pass *pass,
                    const tperf_pass_cost *cost, double put_off, bool again);

// Writes the collectives of so many layers' op that come once an iteration.
void tperf_write_once(tperf_writer *w, const tperf_op *op, double times);

// Writes the work that tperf_write_op delayed.
void tperf_write_weight_grad(tperf_writer *w, const tperf_op *op, const tperf_pass_cost *cost,
                             double put_off);

#endif
