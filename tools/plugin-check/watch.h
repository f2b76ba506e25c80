/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin under watch. The loop gets a vtable of ours, which forwards every call to
 * the plugin's and checks the arguments and results; the plugin gets a struct lls_host
 * of ours, which forwards its calls to the core.
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

struct transfer { /* a transfer of a sequence to the host or back */
  const struct lls_request *request;
  uint64_t id;    /* the manager's id; valid if `under_way` */
  uint32_t quiet; /* consecutive steps without a copy of this transfer */
  bool under_way, to_host, new, listed, heard;
};

struct memory { /* the memory of one instance, shared by all generations of the plugin */
  const void *instance;
  struct shadow shadow;
  /* transfers in flight by slot; an import continues them */
  struct transfer *transfers;
};

struct watch { /* shared by all generations of a plugin in one scene */
  struct findings *findings;
  FILE *journal; /* every decision of the plugin is written here; NULL: nowhere */
  bool late;     /* the plugin is a predictor that answers asynchronously */
  bool light;    /* time is measured, so costly checks are skipped */
  /* reserve may refuse anything: the pool may be smaller than the plugin plans with */
  bool any_refusal;
  /* steps between audits, since an audit costs as much as many steps; 0: never */
  uint32_t audit_every;
  struct memory memories[MAX_INSTANCES];
  struct witness *caches;              /* list of the active cache managers */
  uint32_t needs;                      /* enum lls_scheduler_needs */
  uint32_t n_transfers, n_handed_over; /* transfers planned; handovers that ended */
  uint32_t n_drafts;                   /* calls of draft that gave tokens */
  uint32_t n_states_refused;           /* refusals of import_state */
  /* CPU time in ns of the most costly callback of each step */
  int64_t samples[MAX_SAMPLES];
  uint32_t n_samples;
  void *latest;           /* self of the instance created last */
  struct witness *newest; /* the witness of it */
  char failure[512];      /* message of the last host->fail */
};

struct watched { /* a loaded plugin as the loop sees it */
  struct watch *watch;
  const struct lls_plugin_module *real;
  struct lls_plugin_module module; /* the real module with our vtable */
};

struct handed { /* the plugin's parameters as the loop sees them */
  struct watched *watched;
  const void *params;
};

struct mark {
  uint32_t mark;
  char *text; /* the audit's text, malloc'ed */
};

struct left_behind { /* the contents of a list when it was last asked for */
  uint64_t request;
  uint32_t tokens;
  struct lls_group_list list;      /* of group 0 */
  struct lls_block_entry *entries; /* the list's, malloc'ed */
};

struct placed { /* a request known to the cache manager, by slot */
  const struct lls_request *request;
  struct lls_group_list list; /* of this step, of group 0 */
  uint32_t context;           /* cached tokens before this step */
  bool in_step, preempted;
  /* left: handed over, as far as known; returned: no instance took it */
  bool left, returned;
  struct left_behind left_behind;
};

struct witness { /* a created instance of a plugin; `self` of our callbacks */
  struct watch *watch;
  const struct lls_plugin_module *real;
  void *self;
  const struct lls_host *core;
  struct lls_host host;
  const char *callback; /* the running callback; NULL: none */
  enum tag tag;
  pthread_t thread; /* the thread that runs it */
  /* cache managers */
  struct lls_cache_geometry geometry;
  struct memory *memory; /* memory of the plugin's instance */
  struct witness *next;  /* next witness in watch->caches */
  struct placed *placed; /* (n_slots) */
  uint32_t n_slots;
  bool audited;
  struct mark *marks;
  uint32_t n_marks, capacity_marks;
  uint64_t step;
  struct shown *shown; /* the blocks that `changes` has shown; watch_changes.c */
  bool has_shown;      /* changes was called once */
  bool is_at_rest;     /* nothing has left since the last call of changes */
};

/* The running callback. watch_leave takes the value that watch_enter returned. */
struct call {
  const char *callback;
  enum tag tag;
};
struct call watch_enter(struct witness *, const char *callback, enum tag);
void watch_leave(struct witness *, struct call);
int64_t watch_cpu_ns(void);
/* Forwards the plugin's statistics; reports those that the core would drop. */
void watch_stats(struct witness *, void (*stats)(void *self, const struct lls_sink *),
                 const struct lls_sink *);
void watch_sample(struct watch *, int64_t ns);

/* Frees the watch's memory; called after the last destroy. */
void watch_free(struct watch *);
/* Puts our vtable over the module's, in out->module. */
void watch_module(struct watched *out, struct watch *, const struct lls_plugin_module *);
/* watch_changes.c: follows what a manager says of its blocks. */
void watch_changes(struct lls_cache_vtable *ours);
void watch_changes_prefix(struct witness *, const struct lls_request *, uint32_t tokens);
void watch_changes_free(struct witness *);
void watch_scheduler(struct watched *);
void watch_cache(struct watched *);
void watch_predictor(struct watched *);
void watch_drafter(struct watched *);

/* watch_audit.c: sets the audit callback; returns the whole state as text, malloc'ed;
 * checks that the state after rollback(mark) equals `before`. */
void watch_audits(struct lls_cache_vtable *);
char *watch_audit(struct witness *);
void watch_compare(struct witness *, const char *before, uint32_t mark);

/* watch_transaction.c: sets the callbacks; drops marks from n on. */
void watch_transactions(struct lls_cache_vtable *);
void watch_forget_marks(struct witness *, uint32_t n);

/* watch_transfer.c: sets the callbacks; the functions below are called by the other
 * watch files. */
void watch_transfers(struct lls_cache_vtable *);
void watch_transfers_begin(struct witness *);
void watch_transfers_committed(struct witness *);
void watch_transfers_copy(struct witness *, const struct lls_copy *, size_t index);

/* watch_handover.c: notes that r's table was asked for; that its tokens were copied
 * from the instance that it comes from. */
void watch_keep_list(struct witness *, const struct lls_request *,
                     const struct lls_group_list *);
void watch_taken_over(struct witness *, const struct lls_request *);
/* Reports that r's blocks have changed since it was handed over. */
void watch_found_gone(struct witness *, const struct lls_request *, uint32_t token,
                      const char *list);

/* Begins a create: makes the witness, with the host for the plugin. */
struct witness *watch_create(const struct handed *, const struct lls_host *core);
/* Ends a create; rc is the result of the plugin's create. */
int watch_created(struct witness *, int rc, void **self);

/* PASS: a callback that is forwarded without checks. */
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
/* Forwards import_state. Refusing state is legal: the plugin then begins empty. */
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
/* Defines create, destroy and reconfigure for a plugin that is not a cache manager. */
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

/* Replaces a callback of the plugin, if it has it, by our function of the same name. */
#define WATCHED(VTABLE, NAME) (VTABLE)->NAME = (VTABLE)->NAME != NULL ? NAME : NULL

#endif
