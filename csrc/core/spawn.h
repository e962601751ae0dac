/* spawn.h: new threads. They block all signals but their own faults, which thus reach the program's own
 * threads. */
#ifndef ATTN_SPAWN_H
#define ATTN_SPAWN_H

#include <pthread.h>

#include "pool.h"

/* Makes threads until there are `wanted` or the system gives no more; returns how many. They are joined
 * by the handles, or detached where handles is NULL. */
int attn_spawn(int wanted, void *(*body)(void *), void *argument, pthread_t *handles);

/* Runs all units of a job at the same time, the caller's and those of threads made for it; false, and
 * none was run, when there can't be enough. */
bool attn_spawn_for(struct attn_job *job);

#endif
