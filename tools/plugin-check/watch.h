/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin under watch. The loop is given a vtable of ours, which passes every call on to
 * the plugin's and looks at what goes in and comes out; the plugin is given a struct
 * lls_host of ours, which passes its calls on to the core.
 *
 * What is watched: thread tags (a [step] function of the host outside of a [step]
 * callback), the sentences that go with failures, views that a scheduler writes to,
 * predictions out of range, and of a cache manager that rollback restores what audit
 * showed, that its answers agree with its memory, that every slot it points to still
 * holds the token it was computed for (shadow.h), that what moves beside the steps gets
 * where it was sent (watch_transfer.c), and that blocks of a request which another
 * instance takes over stay as they are until release (watch_handover.c).
 */
#ifndef CHECK_WATCH_H
#define CHECK_WATCH_H

#include <pthread.h>
#include <stdio.h>

#include "core/plugin/loader.h"
#include "tools/plugin-check/findings.h"
#include "tools/plugin-check/shadow.h"

enum tag { TAG_NONE, TAG_MAIN, TAG_STEP };

#define MAX_SAMPLES   4096
#define MAX_INSTANCES 4

struct transfer { /* of a sequence to the host or back */
  const struct lls_request *request;
  uint64_t id;    /* the manager's; `under_way` says whether there is one */
  uint32_t quiet; /* steps in a row without a copy of it */
  bool under_way, to_host, new, listed, heard;
};

struct memory { /* of one instance, whichever generation of the plugin runs it */
  const void *instance;
  struct shadow shadow;
  struct transfer *transfers; /* by slot: an import goes on with them */
};

struct watch { /* of all generations of a plugin in one scene */
  struct findings *findings;
  FILE *journal;    /* every decision of the plugin, NULL = not kept */
  bool late;        /* a predictor that answers in its own time */
  bool light;       /* time is measured: nothing costly is looked at */
  bool any_refusal; /* of reserve is right: the pool may be smaller than what it plans */
  uint32_t audit_every; /* steps: audit costs as much as many; 0 = never */
  struct memory memories[MAX_INSTANCES];
  struct witness *caches;              /* cache managers at work */
  uint32_t needs;                      /* of a scheduler: enum lls_scheduler_needs */
  uint32_t n_transfers, n_handed_over; /* planned, or come to their ends */
  uint32_t n_states_refused;           /* by import_state */
  int64_t samples[MAX_SAMPLES];        /* ns of CPU time of what costs most per step */
  uint32_t n_samples;
  void *latest;      /* self of the instance created last */
  char failure[512]; /* sentence of the last host->fail */
};

struct watched { /* a loaded plugin as the loop gets it */
  struct watch *watch;
  const struct lls_plugin_module *real;
  struct lls_plugin_module module; /* the real one with our vtable */
};

struct handed { /* its parameters as the loop gets them */
  struct watched *watched;
  const void *params;
};

struct mark {
  uint32_t mark;
  char *text; /* audit's, malloc'ed */
};

struct left_behind { /* what a table said when it was asked for last */
  uint64_t request;
  uint32_t tokens;
  struct lls_block_table table;
  struct lls_block_entry *entries; /* malloc'ed: of the table */
};

struct placed { /* a request that the cache manager knows, by slot */
  const struct lls_request *request;
  struct lls_block_table table; /* of this step */
  uint32_t context;             /* tokens cached before this step */
  bool in_step, preempted;
  bool left, returned; /* handed over, for all we know; and nobody took it */
  struct left_behind left_behind;
};

struct witness { /* one created instance; `self` of our callbacks */
  struct watch *watch;
  const struct lls_plugin_module *real;
  void *self;
  const struct lls_host *core;
  struct lls_host host;
  const char *callback; /* that runs now, NULL = none */
  enum tag tag;
  pthread_t thread; /* that runs it */
  /* cache managers */
  struct lls_cache_geometry geometry;
  struct memory *memory; /* of its instance */
  struct witness *next;  /* of watch->caches */
  struct placed *placed; /* (n_slots) */
  uint32_t n_slots;
  bool audited;
  struct mark *marks;
  uint32_t n_marks, capacity_marks;
  uint64_t step;
};

/* The callback that runs; leave takes the value that enter gave. */
struct call {
  const char *callback;
  enum tag tag;
};
struct call watch_enter(struct witness *, const char *callback, enum tag);
void watch_leave(struct witness *, struct call);
int64_t watch_cpu_ns(void);
/* The plugin's stats; what nobody would see of them is found. */
void watch_stats(struct witness *, void (*stats)(void *self, const struct lls_sink *),
                 const struct lls_sink *);
void watch_sample(struct watch *, int64_t ns);

/* Frees what it owns; after the last destroy. */
void watch_free(struct watch *);
/* Our vtable over the module's, in out->module. */
void watch_module(struct watched *out, struct watch *, const struct lls_plugin_module *);
void watch_scheduler(struct watched *);
void watch_cache(struct watched *);
void watch_predictor(struct watched *);

/* watch_audit.c: the callback; the whole state as text, malloc'ed; and whether it is that
 * of `before` again, after rollback(mark). */
void watch_audits(struct lls_cache_vtable *);
char *watch_audit(struct witness *);
void watch_compare(struct witness *, const char *before, uint32_t mark);

/* watch_transaction.c: the callbacks; marks from n on are of no interest any more. */
void watch_transactions(struct lls_cache_vtable *);
void watch_forget_marks(struct witness *, uint32_t n);

/* watch_transfer.c: the callbacks, and what the others tell it. */
void watch_transfers(struct lls_cache_vtable *);
void watch_transfers_begin(struct witness *);
void watch_transfers_committed(struct witness *);
void watch_transfers_copy(struct witness *, const struct lls_copy *, size_t index);

/* watch_handover.c: r's table has been asked for; and its tokens have been copied from
 * the instance that it comes from. */
void watch_keep_table(struct witness *, const struct lls_request *,
                      const struct lls_block_table *);
void watch_taken_over(struct witness *, const struct lls_request *);
/* r's blocks are not what they were when it was handed over. */
void watch_found_gone(struct witness *, const struct lls_request *, uint32_t token,
                      const char *list);

/* Begins a create: the witness, with the host that the plugin is to be given. */
struct witness *watch_create(const struct handed *, const struct lls_host *core);
/* Ends it; rc of the plugin's create. */
int watch_created(struct witness *, int rc, void **self);

/* PASS: a callback that is passed on without being looked at. */
#define PASS_VOID(KIND, NAME, TAG, PARAMETERS, ...)                                      \
  static void NAME PARAMETERS                                                            \
  {                                                                                      \
    struct witness *w = self;                                                            \
    struct call call = watch_enter(w, #NAME, TAG);                                       \
    w->real->KIND.NAME(__VA_ARGS__);                                                     \
    watch_leave(w, call);                                                                \
  }
#define PASS(RESULT, KIND, NAME, TAG, PARAMETERS, ...)                                   \
  static RESULT NAME PARAMETERS                                                          \
  {                                                                                      \
    struct witness *w = self;                                                            \
    struct call call = watch_enter(w, #NAME, TAG);                                       \
    RESULT result = w->real->KIND.NAME(__VA_ARGS__);                                     \
    watch_leave(w, call);                                                                \
    return result;                                                                       \
  }
/* Refused state is lost, which is legal: the plugin begins empty. */
#define PASS_IMPORT(KIND)                                                                \
  static int import_state(void *self, const struct lls_blob *blob)                       \
  {                                                                                      \
    struct witness *w = self;                                                            \
    struct call call = watch_enter(w, "import_state", TAG_MAIN);                         \
    int result = w->real->KIND.import_state(w->self, blob);                              \
    watch_leave(w, call);                                                                \
    w->watch->n_states_refused += result < 0;                                            \
    return result;                                                                       \
  }
/* create, destroy and reconfigure of a scheduler or predictor. */
#define WATCH_LIFE(KIND)                                                                 \
  static int create(const struct lls_host *core, const void *params, void **self)        \
  {                                                                                      \
    const struct handed *handed = params;                                                \
    struct witness *w = watch_create(handed, core);                                      \
    struct call call = watch_enter(w, "create", TAG_MAIN);                               \
    int rc = w->real->KIND.create(&w->host, handed->params, &w->self);                   \
    watch_leave(w, call);                                                                \
    return watch_created(w, rc, self);                                                   \
  }                                                                                      \
  static void destroy(void *self)                                                        \
  {                                                                                      \
    struct witness *w = self;                                                            \
    struct call call = watch_enter(w, "destroy", TAG_MAIN);                              \
    if (w->self != NULL)                                                                 \
      w->real->KIND.destroy(w->self);                                                    \
    watch_leave(w, call);                                                                \
    free(w);                                                                             \
  }                                                                                      \
  static int reconfigure(void *self, const void *params)                                 \
  {                                                                                      \
    struct witness *w = self;                                                            \
    const struct handed *handed = params;                                                \
    struct call call = watch_enter(w, "reconfigure", TAG_MAIN);                          \
    int rc = w->real->KIND.reconfigure(w->self, handed->params);                         \
    watch_leave(w, call);                                                                \
    return rc;                                                                           \
  }

/* A callback that the plugin has becomes ours of the same name. */
#define WATCHED(VTABLE, NAME) (VTABLE)->NAME = (VTABLE)->NAME != NULL ? NAME : NULL

#endif
