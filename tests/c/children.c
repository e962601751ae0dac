/* children.c: forked children; see check.h. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

pid_t fork_child(int (*body)(void))
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        _exit(body());
    }
    return child;
}

bool child_succeeded(pid_t child)
{
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
           && WEXITSTATUS(status) == 0;
}
