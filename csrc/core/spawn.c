/* spawn.c: see spawn.h. */
#define _GNU_SOURCE
#include "spawn.h"

#include <signal.h>

enum { STACK_BYTES = 512 * 1024 };

int attn_spawn(int wanted, void *(*body)(void *), void *argument, pthread_t *handles)
{
    pthread_attr_t attributes;
    static const int fault[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    sigset_t all, before;
    int made = 0;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof fault / sizeof *fault; i++)
        sigdelset(&all, fault[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    if (!handles)
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (pthread_t thread; made < wanted; made++) {
        if (pthread_create(handles ? &handles[made] : &thread, &attributes, body, argument) != 0)
            break;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return made;
}

/* Threads made for one job. None begins before all are there. */
struct crew {
    struct attn_job *job;
    pthread_mutex_t gate; /* held until `complete` is known */
    bool complete;
};

static void *recruit(void *argument)
{
    struct crew *crew = argument;
    struct attn_job *job = crew->job;
    pthread_mutex_lock(&crew->gate);
    const bool complete = crew->complete;
    pthread_mutex_unlock(&crew->gate);
    if (complete) {
        const int thread = (int)atomic_fetch_add(&job->next, 1);
        fesetenv(&job->environment);
        job->unit(job, thread, thread);
    }
    return NULL;
}

bool attn_spawn_for(struct attn_job *job)
{
    const int wanted = (int)job->units - 1;
    pthread_t handles[ATTN_MAX_THREADS];
    struct crew crew = {.job = job, .gate = PTHREAD_MUTEX_INITIALIZER};
    atomic_store(&job->next, 1);
    pthread_mutex_lock(&crew.gate);
    const int made = attn_spawn(wanted, recruit, &crew, handles);
    crew.complete = made == wanted;
    pthread_mutex_unlock(&crew.gate);
    if (crew.complete)
        job->unit(job, 0, 0);
    for (int i = 0; i < made; i++)
        pthread_join(handles[i], NULL);
    return crew.complete;
}
