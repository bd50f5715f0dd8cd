/* SPDX-License-Identifier: MIT-0 */
/* What every compiled model shares: status codes and the version of the binary interface. */
#ifndef AOT_AOT_H
#define AOT_AOT_H

#include <stddef.h>
#include <stdint.h>

#include "port.h"

/* Changes when a context, a status code or a signature changes incompatibly. */
#define AOT_ABI_VERSION 2

typedef enum aot_status {
    AOT_OK = 0,
    AOT_NULL = 1,         /* a pointer that must not be NULL is NULL */
    AOT_BAD_NDIM = 2,     /* a tensor has another number of axes */
    AOT_BAD_SHAPE = 3,    /* a tensor has another shape */
    AOT_BAD_DTYPE = 4,    /* a tensor has another element type, or vector lanes */
    AOT_BAD_DEVICE = 5,   /* a tensor is not in CPU memory */
    AOT_BAD_STRIDES = 6,  /* a tensor is not compact and row-major */
    AOT_BAD_ALIGN = 7,    /* a tensor's data is not aligned to its element */
    AOT_OVERLAP = 8,      /* an output shares memory with an input, an output or the arena */
    AOT_ARENA_SMALL = 9,  /* the arena has fewer bytes than the model needs */
    AOT_ARENA_ALIGN = 10, /* the arena's address is not aligned as the model needs */
    AOT_NOT_INIT = 11,    /* the context was not initialised by this model's init */
    AOT_BUSY = 12,        /* a run is under way in the context, or in an entry without one */
    AOT_NO_ARENA = 13,    /* the arena is NULL; NAME_arena() gives the built-in one */
    AOT_NO_WEIGHTS = 14,  /* run before the weights were set */
    AOT_BAD_WEIGHTS = 15, /* the weights do not belong to this model, or are damaged */
    AOT_BAD_INDEX = 16,   /* no such input or output */
    AOT_BAD_ARGS = 17,    /* a call through a generic interface has wrong arguments */
    AOT_VENDOR = 18,      /* a vendor's library reported an error */
    AOT_TOO_LONG = 19,    /* a string has more bytes than the model has room for */
    AOT_BAD_CPU = 20,     /* the CPU lacks a unit that the library was built for */
    AOT_MORE = 21,        /* no error: the run goes on with more rows, or with the next step */
    AOT_BAD_ROWS = 22,    /* no rows are pushed, or more than the input has left */
    AOT_ABORTED = 23,     /* NAME_abort ended the run */
    AOT_NO_THREADS = 24,  /* threads could not be started: runs have one */
    AOT_OUT_OF_RANGE = 25 /* an index among the data points beyond its axis */
} aot_status;

/* One sentence in English; never NULL. */
static inline const char *aot_status_text(aot_status status) {
    switch (status) {
    case AOT_OK:
        return "ok";
    case AOT_NULL:
        return "a pointer is NULL";
    case AOT_BAD_NDIM:
        return "a tensor has the wrong number of axes";
    case AOT_BAD_SHAPE:
        return "a tensor has the wrong shape";
    case AOT_BAD_DTYPE:
        return "a tensor has the wrong element type";
    case AOT_BAD_DEVICE:
        return "a tensor is not in CPU memory";
    case AOT_BAD_STRIDES:
        return "a tensor is not compact and row-major";
    case AOT_BAD_ALIGN:
        return "a tensor's data is not aligned to its element type";
    case AOT_OVERLAP:
        return "an output overlaps an input, another output or the arena";
    case AOT_ARENA_SMALL:
        return "the arena is too small";
    case AOT_ARENA_ALIGN:
        return "the arena is not aligned";
    case AOT_NOT_INIT:
        return "the context is not initialised";
    case AOT_BUSY:
        return "a run is under way";
    case AOT_NO_ARENA:
        return "the arena is NULL (NAME_arena() gives the built-in one)";
    case AOT_NO_WEIGHTS:
        return "the weights are not set";
    case AOT_BAD_WEIGHTS:
        return "the weights do not fit the model or are damaged";
    case AOT_BAD_INDEX:
        return "there is no input or output with this index";
    case AOT_BAD_ARGS:
        return "wrong number or kind of arguments";
    case AOT_VENDOR:
        return "a vendor library reported an error";
    case AOT_TOO_LONG:
        return "a string is too long (--max-string)";
    case AOT_BAD_CPU:
        return "the CPU lacks a unit that the library was built for";
    case AOT_MORE:
        return "the run goes on: it needs more rows, or the next step";
    case AOT_BAD_ROWS:
        return "no rows are pushed, or more than the input has left";
    case AOT_ABORTED:
        return "the run was aborted";
    case AOT_NO_THREADS:
        return "threads could not be started: runs have one";
    case AOT_OUT_OF_RANGE:
        return "an index among the data points beyond its axis";
    default:
        return "unknown status";
    }
}

/* How far a run is whose input comes by rows. Private. */
typedef struct aot_push {
    const unsigned char *rows; /* row `first` */
    size_t pitch;              /* bytes from row to row */
    int32_t plane;             /* elements from channel to channel */
    int32_t first, given;      /* the first row at `rows`; how many have come */
    uint32_t step;             /* in the table of steps */
    uint16_t *made;            /* rows that every call has made */
} aot_push;

#endif /* AOT_AOT_H */
