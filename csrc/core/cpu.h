/* cpu.h: what this machine can do. */
#ifndef ATTN_CPU_H
#define ATTN_CPU_H

#include <stdbool.h>

/* Whether the CPU and the system run an ISA of that name: "generic", "avx2", "avx512", "neon". */
bool attn_cpu_has(const char *isa);

/* The processors that this process may use: its affinity, and what its cgroup's quota pays for. */
int attn_cpu_count(void);

#endif
