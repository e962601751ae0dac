/* pool.h: our threads.
 *
 * A job is a number of units, taken one by one by whoever is free; the caller takes part. Which
 * thread runs a unit, and how many threads there are, must not change what it computes.
 *
 * There is one pool a process, made at first use. When it is busy with another caller's job, a job
 * runs on its caller alone: nothing waits, so nothing can deadlock or oversubscribe. A forked child
 * forgets the parent's workers and makes its own when it needs them. */
#ifndef ATTN_POOL_H
#define ATTN_POOL_H

#include <fenv.h>

#include "../attn.h"

struct attn_job {
    /* Runs one unit; threads of one job have different numbers, the caller's is 0. */
    void (*unit)(struct attn_job *job, ptrdiff_t unit, int thread);
    void *context;
    ptrdiff_t units;
    attn_run run;

    /* ---- */
    _Atomic ptrdiff_t next; /* unit to be taken */
    atomic_bool stop;
    fenv_t environment; /* the caller's, for its helpers: rounding and subnormals are its choice */
    int64_t asked;      /* when the caller last asked run.poll, in ns */
};

/* Runs all units; ATTN_OK, or ATTN_E_CANCELLED when run.poll ended it, with units left undone.
 * The fields above the line are the caller's, those below are set here. */
attn_status attn_pool_run(struct attn_job *job);

/* Whether a unit should return early. To be asked at least every few ms: this is also where the
 * calling thread asks run.poll. */
bool attn_job_stops(struct attn_job *job, int thread);

#endif
