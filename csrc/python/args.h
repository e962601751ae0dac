/* args.h: from Python objects to the core's types.
 *
 * A `take` function returns 0, or -1 with a Python error set that names the argument. It judges types
 * and single numbers only: how shapes fit together is the core's matter (core/check.c). */
#ifndef ATTN_ARGS_H
#define ATTN_ARGS_H

#include "python.h"

enum { MOST_HELD = 12, MOST_INTEGERS = 3 };

/* One call: what it asks of the core, and the owner of every reference behind it. */
struct call {
    attn_problem problem;
    attn_shape shape;
    attn_fault fault;
    attn_run run;
    PyArrayObject *query;               /* borrowed from held: gives results their type */
    PyArrayObject *out, *weights, *lse; /* owned */
    int64_t integer[MOST_INTEGERS];     /* where options that came as Python ints live */
    int num_integers, num_held;
    PyObject *held[MOST_HELD];
};

void call_clear(struct call *call);

/* Anything numpy.asarray takes, as an array of one of our types; mask: bool too. None: no view. */
int take_array(struct call *call, PyObject *object, const char *name, attn_view *view);
int take_mask(struct call *call, PyObject *object, attn_view *view);

/* None, a number or an array of numbers, copied as int64 or as float64. */
int take_integers(struct call *call, PyObject *object, const char *name, attn_view *view);
int take_floats(struct call *call, PyObject *object, const char *name, attn_view *view);

int take_double(PyObject *object, const char *name, double *number);
/* An int, or what serves as one; beyond ptrdiff_t it is the largest or least. */
int take_index(PyObject *object, const char *name, const char *wanted, ptrdiff_t *number);
int take_bool(PyObject *object, const char *name, bool *flag);
int take_window(PyObject *object, ptrdiff_t *left, ptrdiff_t *right);
int take_threads(PyObject *object, const char *name, int *threads);

/* out=: an array that can be written and shares no memory with the arrays held so far. */
int take_out(struct call *call, PyObject *object);

/* Sets the view of an array of our types and of at most ATTN_MAX_AXES, which the caller keeps alive. */
void view_of(PyArrayObject *array, attn_view *view);

#endif
