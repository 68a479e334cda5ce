// writer.h: tasks written one after the other, inside src/step.
#ifndef TPERF_STEP_WRITER_H
#define TPERF_STEP_WRITER_H

#include "tperf/step.h"

typedef struct tperf_writer {
    const tperf_step *step;
    tperf_task_list *list;
    double now;  // when what is written next starts
    int section; // of what is written
    int64_t layer;
    bool no_memory; // something could not be written: the list is no good
} tperf_writer;

enum {
    TPERF_ON_COMPUTE = 1 << TPERF_COMPUTE,
    TPERF_ON_HOST = 1 << TPERF_HOST,
    TPERF_ON_COPY = 1 << TPERF_COPY
};

static inline unsigned tperf_tiers(double fast_bytes, double nic_bytes) {
    return (fast_bytes > 0 ? 1U << TPERF_FAST : 0) | (nic_bytes > 0 ? 1U << TPERF_NICS : 0);
}

// Adds a task that starts at task.start and stops at task.stop; none where it takes no time. The writer's section and
// layer are filled in.
void tperf_write(tperf_writer *w, tperf_task task);

// The same from now on for its seconds, which what is written next waits for.
void tperf_write_next(tperf_writer *w, tperf_task task);

// One pass of an op. put_off: seconds of its kernel that a later pass for weight gradients takes.
void tperf_write_op(tperf_writer *w, const tperf_op *op, const tperf_pass *pass,
                    const tperf_pass_cost *cost, double put_off, bool again);

// What tperf_write_op put off.
void tperf_write_weight_grad(tperf_writer *w, const tperf_op *op, const tperf_pass_cost *cost,
                             double put_off);

#endif
