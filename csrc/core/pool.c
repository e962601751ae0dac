/* pool.c: see pool.h.
 *
 * A job is published by filling `pool.job` and then setting the number of free seats; a worker that
 * takes a seat works on whatever job is there, and the caller, once no units are left, takes back the
 * seats that nobody took and waits only for the workers that sat down. So a worker that wakes late
 * costs nothing.
 *
 * A job that runs together has a unit for each seat instead, and its caller waits until all seats
 * were taken and left: it must not do the unit of a worker that is late, which would come to wait for
 * a unit that nobody has begun. */
#define _GNU_SOURCE
#include "pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "cpu.h"
#include "spawn.h"

enum {
    MOST_WORKERS = ATTN_MAX_THREADS - 1,
    POLL_NS = 50 * 1000 * 1000,
    SPIN_NS = 50 * 1000,
    QUIET_NS = 50 * 1000 * 1000,
};

static struct {
    pthread_mutex_t lock; /* guards sleeping and waking, and what follows */
    pthread_cond_t wake, done, change;
    struct attn_job *job; /* whose caller has the pool; NULL when it is free */
    bool polling;         /* that caller is within run.poll */
    bool ended;           /* the process is at its end */
    bool together;        /* a job runs together, or waits for the pool to do so */
    pthread_t last;       /* caller of the latest such job */
    int64_t parted;       /* when that ended; 0: there was none */
    int64_t others;       /* when the latest one of any other caller ended */

    int workers;      /* that were made; only who has the pool changes it */
    atomic_bool spin; /* idle workers spin before they sleep */
    unsigned forks;   /* that lie between the first process and this one */

    atomic_uint published; /* counts jobs: what idle workers watch */
    atomic_int seats;      /* that are still free in this job */
    atomic_int left;       /* workers that finished this job */
} pool = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .wake = PTHREAD_COND_INITIALIZER,
    .change = PTHREAD_COND_INITIALIZER,
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

/* Who polls may wait for anything, even for a caller that waits for the pool. So those are told. */
static void set_polling(const struct attn_job *job, bool polling)
{
    pthread_mutex_lock(&pool.lock);
    if (pool.job == job) {
        pool.polling = polling;
        pthread_cond_broadcast(&pool.change);
    }
    pthread_mutex_unlock(&pool.lock);
}

bool attn_job_stops(struct attn_job *job, int thread)
{
    if (thread == 0 && job->run.poll && !atomic_load(&job->stop)) {
        const int64_t time = now();
        if (time - job->asked >= POLL_NS) {
            job->asked = time;
            set_polling(job, true);
            if (job->run.poll(job->run.context) != 0)
                atomic_store(&job->stop, true);
            set_polling(job, false);
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
        struct attn_job *job = pool.job;
        fesetenv(&job->environment);
        if (job->together)
            job->unit(job, seat, seat);
        else
            work(job, seat);
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
 * leaves the pool, which is as new, alone.
 *
 * Jobs that run together are others' code, which may hold a lock around them that would stay locked in
 * the child. So a fork waits until no other thread has run one for a while. */
static bool is_quiet(void)
{
    const bool mine = pthread_equal(pool.last, pthread_self());
    const int64_t parted = mine ? pool.others : pool.parted;
    return !pool.together && (parted == 0 || now() - parted >= QUIET_NS);
}

static void before_fork(void)
{
    pthread_mutex_lock(&pool.lock);
    while (!is_quiet()) {
        pthread_mutex_unlock(&pool.lock);
        nanosleep(&(struct timespec){.tv_nsec = QUIET_NS / 100}, NULL);
        pthread_mutex_lock(&pool.lock);
    }
}

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
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pthread_cond_init(&pool.change, NULL);
    make_done();
    pool.workers = 0;
    atomic_store(&pool.seats, 0);
    pool.forks++;
    if (pool.job)
        atomic_store(&pool.job->stop, true);
    pool.job = NULL;
    pool.polling = false;
}

/* The end: others' destructors take away what such jobs work on, so none may run from here on. */
static void at_exit(void)
{
    before_fork();
    pool.ended = true;
    pthread_mutex_unlock(&pool.lock);
}

static void start(void)
{
    make_done();
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    atexit(at_exit);
}

/* Makes workers until there are `wanted`, or as many as can be had. */
static void hire(int wanted)
{
    if (pool.workers >= wanted)
        return;
    void *seen = (void *)(uintptr_t)atomic_load(&pool.published);
    pool.workers += attn_spawn(wanted - pool.workers, worker, seen, NULL);
    pool.spin = pool.workers < attn_cpu_count();
}

/* Takes the pool for a job, if need be waiting for it, but not for a caller that polls. */
static bool enter(struct attn_job *job, bool waits)
{
    pthread_mutex_lock(&pool.lock);
    while (waits && pool.job && !pool.polling)
        pthread_cond_wait(&pool.change, &pool.lock);
    const bool entered = !pool.job;
    if (entered)
        pool.job = job;
    pthread_mutex_unlock(&pool.lock);
    return entered;
}

static void leave(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.job = NULL;
    pthread_cond_broadcast(&pool.change);
    pthread_mutex_unlock(&pool.lock);
}

/* Lets workers in. */
static void publish(int seats)
{
    pthread_mutex_lock(&pool.lock);
    assert(atomic_load(&pool.seats) == 0);
    atomic_store(&pool.left, 0);
    atomic_store(&pool.seats, seats);
    atomic_fetch_add(&pool.published, 1);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
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
    job->together = false;
    job->asked = job->run.poll ? now() : 0;

    int helpers = job->run.threads - 1;
    if (helpers > job->units - 1)
        helpers = (int)job->units - 1;
    if (helpers > MOST_WORKERS)
        helpers = MOST_WORKERS;
    pthread_once(&once, start);
    if (helpers <= 0 || !enter(job, false)) {
        work(job, 0);
    } else {
        hire(helpers);
        fegetenv(&job->environment);
        const int seats = helpers < pool.workers ? helpers : pool.workers;
        publish(seats);

        const unsigned forks = pool.forks;
        work(job, 0);
        if (pool.forks != forks || !wait_for_workers(job, seats - atomic_exchange(&pool.seats, 0)))
            return ATTN_E_CANCELLED;
        leave();
    }
    return atomic_load(&job->stop) ? ATTN_E_CANCELLED : ATTN_OK;
}

static bool run_on_workers(struct attn_job *job, int helpers)
{
    if (!enter(job, true))
        return false;
    hire(helpers);
    const bool enough = pool.workers >= helpers;
    if (enough) {
        publish(helpers);
        job->unit(job, 0, 0);
        wait_for_workers(job, helpers);
    }
    leave();
    return enough;
}

bool attn_pool_run_together(struct attn_job *job)
{
    const int helpers = (int)job->units - 1;
    assert(helpers >= 0 && helpers <= MOST_WORKERS);
    atomic_store(&job->stop, false);
    job->together = true;
    job->run = (attn_run){0};
    fegetenv(&job->environment);
    pthread_once(&once, start);

    pthread_mutex_lock(&pool.lock);
    while (pool.together || pool.ended)
        pthread_cond_wait(&pool.change, &pool.lock);
    pool.together = true;
    pthread_mutex_unlock(&pool.lock);

    bool done = true;
    if (helpers == 0)
        job->unit(job, 0, 0);
    else
        done = run_on_workers(job, helpers) || attn_spawn_for(job);

    pthread_mutex_lock(&pool.lock);
    pool.together = false;
    if (!pthread_equal(pool.last, pthread_self()))
        pool.others = pool.parted;
    pool.last = pthread_self();
    pool.parted = now();
    pthread_cond_broadcast(&pool.change);
    pthread_mutex_unlock(&pool.lock);
    return done;
}
