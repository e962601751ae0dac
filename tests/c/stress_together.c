/* Jobs that run together: all units at the same time, each under a number that no other unit of the
 * process has, beside jobs of the other kind, within and around polls, and across forks. Only the
 * main thread makes claims. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "../../csrc/core/pool.h"

enum { MOST_UNITS = 12, CALLERS = 6, PLAIN_UNITS = 50 };

static atomic_int inside[MOST_UNITS]; /* units that run right now under a number */

struct meeting {
    atomic_int runs[MOST_UNITS];
    atomic_int come, wrong;
    int rounding;
};

/* No unit ends before all have begun. */
static void meet(struct attn_job *job, ptrdiff_t unit, int thread)
{
    struct meeting *meeting = job->context;
    if (thread != unit || atomic_fetch_add(&inside[unit], 1) != 0
        || fegetround() != meeting->rounding)
        atomic_fetch_add(&meeting->wrong, 1);
    atomic_fetch_add(&meeting->runs[unit], 1);
    atomic_fetch_add(&meeting->come, 1);
    while (atomic_load(&meeting->come) < job->units)
        sched_yield();
    atomic_fetch_sub(&inside[unit], 1);
}

static int meet_once(ptrdiff_t units)
{
    struct meeting meeting = {.rounding = fegetround()};
    struct attn_job job = {.unit = meet, .context = &meeting, .units = units};
    bool right = attn_pool_run_together(&job) && meeting.wrong == 0;
    for (ptrdiff_t unit = 0; unit < MOST_UNITS; unit++)
        right = right && meeting.runs[unit] == (unit < units);
    return !right;
}

/* Returns how many jobs of random sizes went wrong. */
static int meet_often(int jobs, uint64_t seed)
{
    struct rng rng = {seed};
    int wrong = 0;
    for (int i = 0; i < jobs; i++)
        wrong += meet_once(1 + (ptrdiff_t)rng_below(&rng, MOST_UNITS));
    return wrong;
}

/* A job of the other kind. */
struct tally {
    atomic_int runs;
    unsigned pause; /* microseconds a unit takes */
};

static void count_unit(struct attn_job *job, ptrdiff_t unit, int thread)
{
    struct tally *tally = job->context;
    (void)unit, (void)thread;
    atomic_fetch_add(&tally->runs, 1);
    if (tally->pause > 0)
        usleep(tally->pause);
}

static int count_units(unsigned pause, attn_run run)
{
    struct tally tally = {.pause = pause};
    struct attn_job job = {.unit = count_unit, .context = &tally, .units = PLAIN_UNITS, .run = run};
    return attn_pool_run(&job) != ATTN_OK || tally.runs != PLAIN_UNITS;
}

/* Every other caller runs jobs of the other kind. */
static int call(int number, const void *argument)
{
    const int jobs = *(const int *)argument;
    int wrong = 0;
    if (number % 2 == 0)
        return meet_often(jobs, (uint64_t)number);
    for (int i = 0; i < jobs; i++)
        wrong += count_units(0, (attn_run){.threads = 3});
    return wrong;
}

static int both_kinds(void) { return meet_often(10, 5) + count_units(0, (attn_run){.threads = 3}); }

static int both_kinds_in_child(void) { return both_kinds() > 0; }

static int fork_a_few(void)
{
    int wrong = 0;
    for (int i = 0; i < 10; i++)
        wrong += !child_succeeded(fork_child(both_kinds_in_child));
    return wrong;
}

struct poll {
    int asked, wrong;
    pthread_mutex_t lock;
};

static int meet_in_poll(void *context)
{
    struct poll *poll = context;
    poll->asked++;
    poll->wrong += meet_often(5, 6);
    return 0;
}

static int lock_in_poll(void *context)
{
    struct poll *poll = context;
    poll->asked++;
    pthread_mutex_lock(&poll->lock);
    pthread_mutex_unlock(&poll->lock);
    return 0;
}

static atomic_bool enough;

/* Wants the pool while it holds what poll wants. */
static void *meet_under_lock(void *context)
{
    struct poll *poll = context;
    while (!atomic_load(&enough)) {
        pthread_mutex_lock(&poll->lock);
        poll->wrong += meet_once(3);
        pthread_mutex_unlock(&poll->lock);
        usleep(100);
    }
    return NULL;
}

static void check_polls(void)
{
    struct poll poll = {.lock = PTHREAD_MUTEX_INITIALIZER};
    claim(NULL, "a job runs together within the poll of the one that has the pool");
    int wrong = count_units(10000,
                            (attn_run){.threads = 3, .poll = meet_in_poll, .context = &poll});
    expect(wrong == 0 && poll.wrong == 0 && poll.asked > 0, "asked %d times", poll.asked);

    claim(NULL, "a poll may wait for a lock whose holder wants the pool for such a job");
    pthread_t other;
    poll.asked = 0;
    pthread_create(&other, NULL, meet_under_lock, &poll);
    wrong = count_units(10000, (attn_run){.threads = 3, .poll = lock_in_poll, .context = &poll});
    atomic_store(&enough, true);
    pthread_join(other, NULL);
    expect(wrong == 0 && poll.wrong == 0 && poll.asked > 0, "asked %d times", poll.asked);
}

void stress_together(bool quick, bool forks)
{
    const int many = quick ? 200 : 5000;
    claim(NULL, "%d jobs run together, 1 to %d units, each once, under its own number", many,
          MOST_UNITS);
    expect(meet_often(many, 1) == 0, "some were wrong");
    claim(NULL, "the threads of such a job round as its caller does");
    fesetround(FE_TOWARDZERO);
    const int wrong = meet_often(5, 2);
    fesetround(FE_TONEAREST);
    expect(wrong == 0, "some did not");
    claim(NULL, "such jobs of some callers and other jobs of others are right");
    expect(run_callers(CALLERS, call, &(int){many / 10}, NULL) == 0, "some were wrong");
    check_polls();
    if (forks) {
        claim(NULL, "children forked meanwhile, and the parent, run both kinds");
        expect(run_callers(CALLERS, call, &(int){many / 10}, fork_a_few) == 0,
               "one failed or hung");
        expect(both_kinds() == 0, "the parent failed afterwards");
    }
}
