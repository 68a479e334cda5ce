// writer.h: tasks written one after the other, inside src/step.
#ifndef TPERF_STEP_WRITER_H
#define TPERF_STEP_WRITER_H

#include "tperf/step.h"

typedef struct tp_writer {
    const tp_step *step;
    tp_task_list *list;
    double now;  // when what is written next starts
    int section; // of what is written
    int64_t layer;
    bool no_memory; // something could not be written: the list is no good
} tp_writer;

enum { TP_ON_COMPUTE = 1 << TP_COMPUTE, TP_ON_HOST = 1 << TP_HOST, TP_ON_COPY = 1 << TP_COPY };

static inline unsigned tp_tiers(double fast_bytes, double nic_bytes) {
    return (fast_bytes > 0 ? 1U << TP_FAST : 0) | (nic_bytes > 0 ? 1U << TP_NICS : 0);
}

// Adds a task that starts at task.start and stops at task.stop; none where it takes no time. The writer's section and
// layer are filled in.
void tp_write(tp_writer *w, tp_task task);

// The same from now on for its seconds, which what is written next waits for.
void tp_write_next(tp_writer *w, tp_task task);

// One pass of an op. put_off: seconds of its kernel that a later pass for weight gradients takes.
void tp_write_op(tp_writer *w, const tp_op *op, const tp_pass *pass, const tp_pass_cost *cost,
                 double put_off, bool again);

// What tp_write_op put off.
void tp_write_weight_grad(tp_writer *w, const tp_op *op, const tp_pass_cost *cost, double put_off);

#endif
