/* The pool under load: every unit of every job runs once, whoever calls, forks or cancels. Meant to
 * be run plainly, under ThreadSanitizer, and under AddressSanitizer. Only the main thread makes
 * claims. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <fenv.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../csrc/core/pool.h"

enum { MOST_UNITS = 200, MOST_THREADS = 8, CALLERS = 4 };

/* What a job's units write, and what they find wrong. */
struct tally {
    int64_t value[MOST_UNITS]; /* not atomic: each is one unit's own */
    atomic_int runs[MOST_UNITS];
    atomic_int inside[MOST_THREADS]; /* units that run right now under a thread's number */
    atomic_int wrong, active;
    int nested;     /* units of a job that each unit runs itself */
    unsigned pause; /* microseconds a unit takes */
};

static void count_unit(struct attn_job *job, ptrdiff_t unit, int thread);

static int64_t run_sum(struct tally *tally, ptrdiff_t units, int threads, attn_run run,
                       attn_status *status)
{
    struct attn_job job = {.unit = count_unit, .context = tally, .units = units, .run = run};
    int64_t sum = 0;
    job.run.threads = threads;
    *status = attn_pool_run(&job);
    for (ptrdiff_t unit = 0; unit < units; unit++)
        sum += tally->value[unit];
    return sum;
}

/* Σ (unit² + 1) for unit < units */
static int64_t right_sum(int64_t units)
{
    return (units - 1) * units * (2 * units - 1) / 6 + units;
}

static void count_unit(struct attn_job *job, ptrdiff_t unit, int thread)
{
    struct tally *tally = job->context;
    atomic_fetch_add(&tally->active, 1);
    if (thread < 0 || thread >= MOST_THREADS || thread >= job->run.threads
        || atomic_fetch_add(&tally->inside[thread], 1) != 0)
        atomic_fetch_add(&tally->wrong, 1); /* two threads of one number, or one too many */
    atomic_fetch_add(&tally->runs[unit], 1);
    tally->value[unit] = (int64_t)unit * unit + 1;
    if (tally->pause > 0)
        usleep(tally->pause);
    if (tally->nested > 0) {
        struct tally inner = {.nested = 0};
        attn_status status;
        if (run_sum(&inner, tally->nested, 3, (attn_run){0}, &status) != right_sum(tally->nested)
            || status != ATTN_OK)
            atomic_fetch_add(&tally->wrong, 1);
    }
    if (thread >= 0 && thread < MOST_THREADS)
        atomic_fetch_sub(&tally->inside[thread], 1);
    atomic_fetch_sub(&tally->active, 1);
}

/* Runs jobs of random sizes; returns how many went wrong. Each caller has numbers of its own. */
static int run_jobs(int jobs, uint64_t seed, int nested)
{
    struct rng rng = {seed};
    int wrong = 0;
    for (int i = 0; i < jobs; i++) {
        struct tally tally = {.nested = nested};
        const ptrdiff_t units = rng_below(&rng, MOST_UNITS + 1);
        attn_status status;
        const int64_t sum = run_sum(&tally, units, 1 + (int)rng_below(&rng, MOST_THREADS),
                                    (attn_run){0}, &status);
        bool right = status == ATTN_OK && sum == right_sum(units) && tally.wrong == 0;
        for (ptrdiff_t unit = 0; unit < units; unit++)
            right = right && tally.runs[unit] == 1;
        wrong += !right;
    }
    return wrong;
}

struct load {
    int jobs, nested;
};

static int call(int number, const void *argument)
{
    const struct load *load = argument;
    return run_jobs(load->jobs, 100 + (uint64_t)number, load->nested);
}

/* Polls: how often, and by whom. */
struct poll {
    int asked, stop_at, forks, wrong;
    pthread_t caller;
};

static int ask(void *context)
{
    struct poll *poll = context;
    if (!pthread_equal(poll->caller, pthread_self()))
        poll->wrong++;
    return ++poll->asked >= poll->stop_at && poll->stop_at > 0;
}

static void check_cancel(void)
{
    struct tally tally = {.pause = 5000};
    struct poll poll = {.stop_at = 1, .caller = pthread_self()};
    attn_status status;
    claim(NULL, "a job that poll ends stops early, is cancelled, and leaves nobody running");
    run_sum(&tally, MOST_UNITS, 4, (attn_run){.poll = ask, .context = &poll}, &status);
    int runs = 0;
    for (int unit = 0; unit < MOST_UNITS; unit++)
        runs += tally.runs[unit];
    expect(status == ATTN_E_CANCELLED, "status %d", (int)status);
    expect(poll.asked == 1, "asked %d times", poll.asked);
    expect(runs < MOST_UNITS, "all units ran");
    expect(tally.active == 0 && tally.wrong == 0, "%d units still run", tally.active);

    struct tally slow = {.pause = 120000};
    poll.asked = 0;
    claim(NULL, "poll is not asked again while a job that it ended waits for its workers");
    run_sum(&slow, 16, 4, (attn_run){.poll = ask, .context = &poll}, &status);
    expect(status == ATTN_E_CANCELLED && poll.asked == 1, "asked %d times", poll.asked);

    claim(NULL, "poll is asked on the calling thread, and a job that it lets go on is complete");
    for (int threads = 1; threads <= 4; threads += 3) {
        struct tally whole = {.pause = 1000};
        struct poll patient = {.stop_at = -1, .caller = pthread_self()};
        const int64_t sum = run_sum(&whole, MOST_UNITS, threads,
                                    (attn_run){.poll = ask, .context = &patient}, &status);
        expect(status == ATTN_OK && sum == right_sum(MOST_UNITS), "status %d", (int)status);
        expect(threads > 1 || patient.asked > 0, "never asked");
        expect(patient.wrong == 0, "asked on another thread");
    }
}

static int jobs_in_child(void) { return run_jobs(20, 7, 0) > 0; }

static int grandchild(void)
{
    if (run_jobs(5, 8, 0) > 0)
        return 1;
    return child_succeeded(fork_child(jobs_in_child)) && run_jobs(5, 9, 0) == 0 ? 0 : 1;
}

static int forks_left;

static int fork_now_and_then(void)
{
    int wrong = 0;
    for (int i = 0; i < forks_left; i++)
        wrong += !child_succeeded(fork_child(jobs_in_child));
    return wrong;
}

/* A unit that looks at the rounding of the thread it runs on, long enough for others to take part. */
static void rounding_unit(struct attn_job *job, ptrdiff_t unit, int thread)
{
    struct tally *tally = job->context;
    (void)thread;
    tally->value[unit] = fegetround() == FE_TOWARDZERO;
    usleep(1000);
}

static void check_environment(void)
{
    struct tally tally = {.nested = 0};
    struct attn_job job = {.unit = rounding_unit, .context = &tally, .units = 40};
    int same = 0;
    claim(NULL, "workers round as their caller does");
    job.run.threads = 4;
    fesetround(FE_TOWARDZERO);
    const attn_status status = attn_pool_run(&job);
    fesetround(FE_TONEAREST);
    for (ptrdiff_t unit = 0; unit < job.units; unit++)
        same += (int)tally.value[unit];
    expect(status == ATTN_OK && same == job.units, "%d of %td units", same, job.units);
}

/* A poll that forks once. The child's copy of the job has lost its workers; it may run jobs of its
 * own, and finds the old one cancelled. */
static int fork_in_poll(void *context)
{
    struct poll *poll = context;
    if (poll->asked++ > 0)
        return 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        poll->forks = -1;
        poll->wrong += run_jobs(10, 11, 0);
        return 0;
    }
    poll->forks = child > 0;
    poll->wrong += !child_succeeded(child);
    return 0;
}

static void check_fork_in_poll(void)
{
    struct tally tally = {.pause = 2000};
    struct poll poll = {0};
    attn_status status;
    claim(NULL, "a fork within poll: the parent's job is complete, the child's is cancelled");
    const int64_t sum = run_sum(&tally, MOST_UNITS, 4,
                                (attn_run){.poll = fork_in_poll, .context = &poll}, &status);
    if (poll.forks == -1) /* the child */
        _exit(status == ATTN_E_CANCELLED && poll.wrong == 0 && run_jobs(10, 12, 0) == 0 ? 0 : 1);
    expect(poll.forks == 1, "did not fork");
    expect(poll.wrong == 0, "the child failed");
    expect(status == ATTN_OK && sum == right_sum(MOST_UNITS), "the parent's status is %d",
           (int)status);
    expect(run_jobs(20, 13, 0) == 0, "later jobs failed");
}

static void check_forks(int many)
{
    claim(NULL, "a child forked from a warm pool computes right");
    expect(fork_now_and_then() == 0, "a child failed or hung");
    expect(run_jobs(20, 3, 0) == 0, "the parent's jobs failed afterwards");
    claim(NULL, "a child's child computes right, and so does the child afterwards");
    expect(child_succeeded(fork_child(grandchild)), "it failed or hung");
    claim(NULL, "a child forked while other threads run jobs computes right");
    expect(run_callers(CALLERS, call, &(struct load){.jobs = many / 4}, fork_now_and_then) == 0,
           "a child or a caller failed");
    check_fork_in_poll();
}

void stress_pool(bool quick, bool forks)
{
    const int many = quick ? 300 : 5000;
    forks_left = quick ? 5 : 40;

    claim(NULL, "%d short jobs on 1 to %d threads run each unit once, under a number of its own",
          many, MOST_THREADS);
    expect(run_jobs(many, 1, 0) == 0, "some were wrong");
    claim(NULL, "jobs of %d callers at once are right", CALLERS);
    expect(run_callers(CALLERS, call, &(struct load){.jobs = many / 4}, NULL) == 0,
           "some were wrong");
    claim(NULL, "jobs within units are right");
    expect(run_jobs(many / 20, 2, 20) == 0, "some were wrong");
    claim(NULL, "jobs within units of %d callers are right", CALLERS);
    expect(run_callers(CALLERS, call, &(struct load){.jobs = many / 40, .nested = 10}, NULL) == 0,
           "some were wrong");
    check_cancel();
    check_environment();
    if (forks)
        check_forks(many);
}
