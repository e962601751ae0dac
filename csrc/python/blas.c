/* blas.c: NumPy's OpenBLAS on our threads.
 *
 * OpenBLAS cuts a call into jobs, whose number it chooses, and hands them to a callback that is set in
 * it. Its level-3 jobs wait for each other, so they run together or never end. No job calls Python, nor
 * OpenBLAS's threaded functions. The caller may hold the GIL while it waits for the pool: only
 * run.poll takes the GIL there, and nobody waits for a pool whose caller is in run.poll.
 *
 * A job gets the number of a thread, to which OpenBLAS ties scratch memory and the mailbox of its own
 * thread of that number. Those still serve LU decompositions, which know no callback: a job under the
 * same number would wipe out what such a mailbox holds. Its own threads count from 0, so ours count
 * down from the last number that it was built for, and must not meet them. */
#include "calls.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../core/pool.h"

typedef void do_job(int thread, void *data, int extra);
typedef void run_jobs(int sync, do_job *job, int jobs, size_t size, void *data, int extra);

/* What NumPy's library offers; empty when it is no OpenBLAS. */
static struct {
    void (*set_callback)(run_jobs *callback);
    char *(*config)(void);
    int (*threads)(void);
    int most_threads; /* that it was built for */
} blas;
static pthread_once_t looked = PTHREAD_ONCE_INIT;
static atomic_bool sharing;

/* OpenBLAS's function under one of the names that builds give it: SciPy's wheels have a prefix, and
 * those with 64-bit integers a suffix. */
static void *find_function(void *library, const char *name)
{
    static const char *const prefixes[] = {"", "scipy_"}, *const suffixes[] = {"", "64_", "_64"};
    for (int i = 0; i < 6; i++) {
        char symbol[80];
        snprintf(symbol, sizeof symbol, "%sopenblas_%s%s", prefixes[i / 3], name, suffixes[i % 3]);
        void *function = dlsym(library, symbol);
        if (function)
            return function;
    }
    return NULL;
}

/* Looks in the library that NumPy's own functions are from, and in those that it was linked with.
 * Before 0.3.29 OpenBLAS has no scratch for threads that it did not make. */
static void find_openblas(void)
{
    Dl_info numpy;
    void *library = NULL;
    if (dladdr(PyArray_API[0], &numpy))
        library = dlopen(numpy.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        return;
    blas.set_callback = (void (*)(run_jobs *))find_function(library,
                                                            "set_threads_callback_function");
    blas.config = (char *(*)(void))find_function(library, "get_config");
    blas.threads = (int (*)(void))find_function(library, "get_num_threads");
    if (!blas.set_callback || !blas.config || !blas.threads)
        return;
    int version[3] = {0};
    const char *most = strstr(blas.config(), "MAX_THREADS=");
    if (most
        && sscanf(blas.config(), "OpenBLAS %d.%d.%d", &version[0], &version[1], &version[2]) == 3
        && (version[0] * 1000 + version[1]) * 1000 + version[2] >= 3029)
        sscanf(most, "MAX_THREADS=%d", &blas.most_threads);
}

/* Whether its numbers and ours don't meet: n jobs have the upper n, its n - 1 threads the lower. */
static bool can_share(void)
{
    pthread_once(&looked, find_openblas);
    return blas.most_threads > 0 && blas.most_threads <= ATTN_MAX_THREADS
           && 2 * blas.threads() - 1 <= blas.most_threads;
}

struct blas_call {
    do_job *job;
    char *data;
    size_t size;
    int extra;
};

static void run_one(struct attn_job *job, ptrdiff_t unit, int thread)
{
    const struct blas_call *call = job->context;
    call->job(blas.most_threads - 1 - thread, call->data + (size_t)unit * call->size, call->extra);
}

/* What OpenBLAS calls. When threads have run out since they were tried there is no way but to wait
 * for some. */
static void run_on_pool(int sync, do_job *job, int jobs, size_t size, void *data, int extra)
{
    struct blas_call call = {job, data, size, extra};
    struct attn_job together = {.unit = run_one, .context = &call, .units = jobs};
    (void)sync; /* it always waits */
    while (!attn_pool_run_together(&together))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void do_nothing(struct attn_job *job, ptrdiff_t unit, int thread)
{
    (void)job, (void)unit, (void)thread;
}

/* Whether the system has as many threads as OpenBLAS will ask for; they then wait in the pool. */
static bool can_run_together(int threads)
{
    struct attn_job job = {.unit = do_nothing, .units = threads};
    PyThreadState *state = PyEval_SaveThread();
    const bool could = attn_pool_run_together(&job);
    PyEval_RestoreThread(state);
    return could;
}

PyObject *py_share_threads_with_numpy(PyObject *module, PyObject *enable)
{
    bool wanted;
    (void)module;
    if (take_bool(enable, "enable", &wanted) < 0)
        return NULL;
    if (wanted && !sharing && can_share() && can_run_together(blas.threads())) {
        blas.set_callback(run_on_pool);
        sharing = true;
    } else if (!wanted && sharing) {
        blas.set_callback(NULL);
        sharing = false;
    }
    return PyBool_FromLong(sharing);
}

PyObject *py_numpy_blas(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    const bool able = can_share();
    return Py_BuildValue("(zO)", blas.config ? blas.config() : NULL, able ? Py_True : Py_False);
}
