/* pool.c: see pool.h.
 *
 * A job is published by filling `pool.job` and then setting the number of free seats; a worker that
 * takes a seat works on whatever job is there, and the caller, once no units are left, takes back the
 * seats that nobody took and waits only for the workers that sat down. So a worker that wakes late
 * costs nothing. */
#define _GNU_SOURCE
#include "pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "cpu.h"

enum {
    MOST_WORKERS = ATTN_MAX_THREADS - 1,
    STACK_BYTES = 512 * 1024,
    POLL_NS = 50 * 1000 * 1000,
    SPIN_NS = 50 * 1000,
};

static struct {
    pthread_mutex_t busy; /* held by the caller whose job this is */
    pthread_mutex_t lock; /* guards sleeping and waking */
    pthread_cond_t wake, done;
    int workers;      /* that were made; only the holder of busy changes it */
    atomic_bool spin; /* idle workers spin before they sleep */
    unsigned forks;   /* that lie between the first process and this one */

    struct attn_job *job;
    atomic_uint published; /* counts jobs: what idle workers watch */
    atomic_int seats;      /* that are still free in this job */
    atomic_int left;       /* workers that finished this job */
} pool = {
    .busy = PTHREAD_MUTEX_INITIALIZER,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .wake = PTHREAD_COND_INITIALIZER,
};
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The clock of timed waits. Apple's conditions know no other. */
#if defined(__APPLE__)
static const clockid_t wait_clock = CLOCK_REALTIME;
#else
static const clockid_t wait_clock = CLOCK_MONOTONIC;
#endif

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool attn_job_stops(struct attn_job *job, int thread)
{
    if (thread == 0 && job->run.poll && !atomic_load(&job->stop)) {
        const int64_t time = now();
        if (time - job->asked >= POLL_NS) {
            job->asked = time;
            if (job->run.poll(job->run.context) != 0)
                atomic_store(&job->stop, true);
        }
    }
    return atomic_load_explicit(&job->stop, memory_order_relaxed);
}

static void work(struct attn_job *job, int thread)
{
    ptrdiff_t unit;
    while ((unit = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < job->units
           && !attn_job_stops(job, thread))
        job->unit(job, unit, thread);
}

/* Takes a free seat: its number is the thread's, 1 or more; 0 when there is none. */
static int take_seat(void)
{
    int free_seats = atomic_load(&pool.seats);
    while (free_seats > 0
           && !atomic_compare_exchange_weak(&pool.seats, &free_seats, free_seats - 1))
        ;
    return free_seats;
}

static void wait_for_job(unsigned seen)
{
    const int64_t start = pool.spin ? now() : 0;
    while (pool.spin && now() - start < SPIN_NS)
        for (int i = 0; i < 32; i++) {
            if (atomic_load_explicit(&pool.published, memory_order_relaxed) != seen)
                return;
            relax();
        }
    pthread_mutex_lock(&pool.lock);
    while (atomic_load(&pool.published) == seen)
        pthread_cond_wait(&pool.wake, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

static void *worker(void *first_seen)
{
    unsigned seen = (unsigned)(uintptr_t)first_seen;
    for (;;) {
        wait_for_job(seen);
        seen = atomic_load(&pool.published);
        const int seat = take_seat();
        if (seat == 0)
            continue;
        fesetenv(&pool.job->environment);
        work(pool.job, seat);
        pthread_mutex_lock(&pool.lock);
        atomic_fetch_add(&pool.left, 1);
        pthread_cond_signal(&pool.done);
        pthread_mutex_unlock(&pool.lock);
    }
    return NULL;
}

/* Fork: the lock is held across it, so that the child finds the pool whole. The workers are not
 * there any more; their stacks are lost. A job that was running can't be completed in the child:
 * should its caller be the one who forked (from within run.poll), the call ends as cancelled and
 * leaves the pool, which is as new, alone. */
static void before_fork(void) { pthread_mutex_lock(&pool.lock); }
static void after_fork_in_parent(void) { pthread_mutex_unlock(&pool.lock); }

static void make_done(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#if !defined(__APPLE__)
    pthread_condattr_setclock(&attributes, wait_clock);
#endif
    pthread_cond_init(&pool.done, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void after_fork_in_child(void)
{
    pthread_mutex_init(&pool.busy, NULL);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wake, NULL);
    make_done();
    pool.workers = 0;
    atomic_store(&pool.seats, 0);
    pool.forks++;
    if (pool.job)
        atomic_store(&pool.job->stop, true);
    pool.job = NULL;
}

static void start(void)
{
    make_done();
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* Makes workers until there are `wanted`, or until the system gives no more. They block all
 * signals but their own faults, which thus reach the program's own threads. */
static void hire(int wanted)
{
    pthread_attr_t attributes;
    static const int fault[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    sigset_t all, before;
    if (pool.workers >= wanted)
        return;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof fault / sizeof *fault; i++)
        sigdelset(&all, fault[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    while (pool.workers < wanted) {
        pthread_t thread;
        void *seen = (void *)(uintptr_t)atomic_load(&pool.published);
        if (pthread_create(&thread, &attributes, worker, seen) != 0)
            break;
        pool.workers++;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pool.spin = pool.workers < attn_cpu_count();
}

/* Waits until `sitting` workers have left, asking run.poll meanwhile; false in a child that poll
 * forked, where there are none. */
static bool wait_for_workers(struct attn_job *job, int sitting)
{
    const unsigned forks = pool.forks;
    const int64_t begin = now();
    while (atomic_load(&pool.left) < sitting && now() - begin < SPIN_NS)
        for (int i = 0; i < 32; i++)
            relax();
    pthread_mutex_lock(&pool.lock);
    while (atomic_load(&pool.left) < sitting) {
        struct timespec until;
        clock_gettime(wait_clock, &until);
        until.tv_nsec += POLL_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&pool.done, &pool.lock, &until) == ETIMEDOUT) {
            pthread_mutex_unlock(&pool.lock); /* poll may do anything, fork too */
            attn_job_stops(job, 0);
            if (pool.forks != forks)
                return false;
            pthread_mutex_lock(&pool.lock);
        }
    }
    pthread_mutex_unlock(&pool.lock);
    return true;
}

attn_status attn_pool_run(struct attn_job *job)
{
    atomic_store(&job->next, 0);
    atomic_store(&job->stop, false);
    job->asked = job->run.poll ? now() : 0;

    int helpers = job->run.threads - 1;
    if (helpers > job->units - 1)
        helpers = (int)job->units - 1;
    if (helpers > MOST_WORKERS)
        helpers = MOST_WORKERS;
    pthread_once(&once, start);
    if (helpers <= 0 || pthread_mutex_trylock(&pool.busy) != 0) {
        work(job, 0);
    } else {
        hire(helpers);
        fegetenv(&job->environment);
        pool.job = job;
        atomic_store(&pool.left, 0);
        assert(atomic_load(&pool.seats) == 0);
        const int seats = helpers < pool.workers ? helpers : pool.workers;
        pthread_mutex_lock(&pool.lock);
        atomic_store(&pool.seats, seats);
        atomic_fetch_add(&pool.published, 1);
        pthread_cond_broadcast(&pool.wake);
        pthread_mutex_unlock(&pool.lock);

        const unsigned forks = pool.forks;
        work(job, 0);
        if (pool.forks != forks || !wait_for_workers(job, seats - atomic_exchange(&pool.seats, 0)))
            return ATTN_E_CANCELLED;
        pool.job = NULL;
        pthread_mutex_unlock(&pool.busy);
    }
    return atomic_load(&job->stop) ? ATTN_E_CANCELLED : ATTN_OK;
}
