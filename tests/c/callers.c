/* callers.c: threads that call the core at the same time; see check.h. */
#include "check.h"

#include <pthread.h>

enum { MOST_CALLERS = 8 };

struct caller {
    int (*body)(int number, const void *argument);
    const void *argument;
    int number, wrong;
};

static void *call(void *argument)
{
    struct caller *caller = argument;
    caller->wrong = caller->body(caller->number, caller->argument);
    return NULL;
}

int run_callers(int count, int (*body)(int number, const void *argument), const void *argument,
                int (*meanwhile)(void))
{
    pthread_t threads[MOST_CALLERS];
    struct caller callers[MOST_CALLERS];
    for (int i = 0; i < count; i++) {
        callers[i] = (struct caller){.body = body, .argument = argument, .number = i};
        pthread_create(&threads[i], NULL, call, &callers[i]);
    }
    int wrong = meanwhile ? meanwhile() : 0;
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        wrong += callers[i].wrong;
    }
    return wrong;
}
