/* cpu.c: see cpu.h. Instruction sets by the compiler's run-time (CPUID together with XGETBV, so that
 * registers which the system does not save do not count); processors by affinity and cgroup. */
#define _GNU_SOURCE
#include "cpu.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(__x86_64__)
/* Not all compilers' __builtin_cpu_supports know this one. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}
#endif

bool attn_cpu_has(const char *isa)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (strcmp(isa, "avx2") == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    if (strcmp(isa, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
               && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
               && __builtin_cpu_supports("fma");
#elif defined(__aarch64__)
    if (strcmp(isa, "neon") == 0)
        return true;
#endif
    return strcmp(isa, "generic") == 0;
}

#if defined(__linux__)
/* The first line of /proc/self/cgroup that names `controller` ("" for version 2), its path part. */
static bool cgroup_path(const char *controller, char *path, size_t size)
{
    char line[512];
    bool found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        char *names = strchr(line, ':'), *at = names ? strchr(names + 1, ':') : NULL;
        if (!at)
            continue;
        *at = '\0';
        at[1 + strcspn(at + 1, "\n")] = '\0';
        char *rest = names + 1;
        for (char *name = rest; name && !found; name = rest) {
            rest = strchr(name, ',');
            if (rest)
                *rest++ = '\0';
            found = strcmp(name, controller) == 0;
        }
        if (found)
            snprintf(path, size, "%s", at + 1);
    }
    if (file)
        fclose(file);
    return found;
}

/* Reads the numbers of a cgroup's file, at most two; returns how many were there ("max" is none). */
static int read_numbers(const char *root, const char *path, const char *name, long long *first,
                        long long *second)
{
    char full[640];
    snprintf(full, sizeof full, "/sys/fs/cgroup%s%s/%s", root, path, name);
    FILE *file = fopen(full, "re");
    if (!file)
        return 0;
    const int found = fscanf(file, "%lld %lld", first, second);
    fclose(file);
    return found > 0 ? found : 0;
}

/* Quota over period, rounded up: the least of the process's own cgroup and its parents, in either
 * version of cgroups; 0 for none. A container may not see its own path, but it sees the root. */
static long long cgroup_processors(void)
{
    char path[512];
    long long least = 0;
    for (int version = 2; version >= 1; version--) {
        if (!cgroup_path(version == 2 ? "" : "cpu", path, sizeof path))
            continue;
        for (bool root = false; !root;) {
            root = path[0] == '\0' || strcmp(path, "/") == 0;
            if (root)
                path[0] = '\0';
            long long quota = 0, period = 0, none;
            if (version == 2)
                read_numbers("", path, "cpu.max", &quota, &period);
            else if (read_numbers("/cpu", path, "cpu.cfs_quota_us", &quota, &none) == 1)
                read_numbers("/cpu", path, "cpu.cfs_period_us", &period, &none);
            if (quota > 0 && period > 0) {
                const long long count = (quota + period - 1) / period;
                least = least == 0 || count < least ? count : least;
            }
            char *slash = strrchr(path, '/');
            *(slash ? slash : path) = '\0';
        }
    }
    return least;
}
#endif

int attn_cpu_count(void)
{
    long long count = sysconf(_SC_NPROCESSORS_ONLN);
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        count = CPU_COUNT(&set);
    const long long quota = cgroup_processors();
    if (quota > 0 && quota < count)
        count = quota;
#endif
    return count > 0 ? (int)count : 1;
}
