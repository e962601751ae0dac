/* pool.h: our threads.
 *
 * A job is a number of units, taken one by one by whoever is free; the caller takes part. Which
 * thread runs a unit, and how many threads there are, must not change what it computes.
 *
 * There is one pool a process, made at first use. When it is busy with another caller's job, a job
 * runs on its caller alone: nothing waits, so nothing can deadlock or oversubscribe. A forked child
 * forgets the parent's workers and makes its own when it needs them.
 *
 * For the sake of others' code there is a second kind of job, whose units wait for each other. */
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
    bool together;
    fenv_t environment; /* the caller's, for its helpers: rounding and subnormals are its choice */
    int64_t asked;      /* when the caller last asked run.poll, in ns */
};

/* Runs all units; ATTN_OK, or ATTN_E_CANCELLED when run.poll ended it, with units left undone.
 * The fields above the line are the caller's, those below are set here. */
attn_status attn_pool_run(struct attn_job *job);

/* Runs all units at the same time, each on a thread of its own: unit and thread are one number, at most
 * ATTN_MAX_THREADS. False, and nothing was run, when the system has not so many threads. Units may wait
 * for each other, and must neither fork nor run such a job themselves.
 *
 * Such jobs run one at a time in a process, so that what belongs to a thread's number belongs to one
 * thread. They wait for a busy pool, but not while its caller is within run.poll, which may want a lock
 * that they hold, or be where they come from: then, and when the pool can't grow enough, threads are
 * made for the job. So whoever runs one may hold any lock that others take in run.poll only. A fork and
 * the process's exit wait until no other thread has run one for 50 ms; after an exit none begins. */
bool attn_pool_run_together(struct attn_job *job);

/* Whether a unit should return early. To be asked at least every few ms: this is also where the
 * calling thread asks run.poll. */
bool attn_job_stops(struct attn_job *job, int thread);

#endif
