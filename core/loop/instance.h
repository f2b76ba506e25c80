/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One instance: an engine with its pool, the three policies, the requests, and the state
 * of the step under way. Internal to core/loop; everything in it belongs to [step] unless
 * a comment says otherwise.
 *
 * The step (step.c) reads: drain, plan, place, run, commit. From above downwards, so that
 * no file calls one above it (t/house/circles.t):
 *   step.c           the order of the phases, and what is counted
 *   adoption.c       after a reload: new policies hear of the live requests
 *   plan.c           ask the scheduler, check the answer, strikes and fall-back
 *   plan_memory.c    the copies that a scheduler sees of all it gets
 *   fallback.c       the order that always works
 *   placement.c      carry out the plan in the cache transaction; the engine's batch
 *   transfer.c       sequences between the tiers
 *   migrate_take.c   requests of other instances are taken over
 *   migrate.c        requests between instances
 *   left.c           and their blocks between the tiers, where they were
 *   peer_load.c      what instances tell each other of their load
 *   mask_turns.c     masks of grammars: whose are made, and who waits for it
 *   commit.c         tokens come back: append, stop, finish, tell policies and main
 *   cache_service.c  what of the transaction a scheduler may do itself, inside plan
 *   transaction.c    the verbs of the cache transaction
 *   cache_answers.c  what the cache manager says, checked
 *   lifecycle.c      a request arrives, changes state, ends
 * A phase is lls_instance_<verb>; other functions have the prefix of their file.
 */
#ifndef LLS_LOOP_INSTANCE_H
#define LLS_LOOP_INSTANCE_H

#include <llmserve/cache.h>
#include <llmserve/predictor.h>
#include <llmserve/scheduler.h>

#include <pthread.h>
#include <stdatomic.h>

#include "core/base/check.h"
#include "core/base/pack.h"
#include "core/cost/cost.h"
#include "core/cost/samples.h"
#include "core/engine/engine.h"
#include "core/loop/fetch.h"
#include "core/loop/request_list.h"
#include "core/loop/loop.h"
#include "core/loop/mailbox.h"
#include "core/loop/peer_load.h"
#include "core/loop/plan_memory.h"
#include "core/loop/policies.h"
#include "core/loop/policy_host.h"
#include "core/loop/policy_stats.h"
#include "core/loop/pulls.h"
#include "core/loop/request.h"
#include "core/obs/log.h"
#include "core/plugin/loader.h"

/* One thing done to the cache in the open transaction, so that rollback can undo marks.
 */
struct lls_placement {
  struct lls_live *live;
  uint32_t mark_before; /* the manager's mark when it was done */
};

struct lls_transaction {
  bool open;
  struct lls_placement *done; /* (capacity) in order, each request once */
  uint32_t n_done, capacity;
  bool displaced; /* slots of requests that the plan does not name, maybe */
};

/* The plan of this step, carried out: rows of the engine's batch. */
struct lls_step_batch {
  struct lls_live **live;                /* (max_sequences) */
  struct lls_engine_sequence *sequences; /* (max_sequences) */
  struct lls_block_table *tables;        /* (max_sequences) */
  struct lls_step_result *results;       /* (max_sequences) */
  struct lls_chunk_shape *chunks;        /* (max_sequences) scratch for the cost model */
  uint32_t *decode_context;              /* (max_sequences) likewise */
  uint32_t n;
  /* (max_sequences) whose last row waits for its mask: mask_turns.c */
  struct lls_live **held;
  uint32_t n_held;
  bool swaps; /* something is copied from or to the host */
};

/* Which policies took over in a reload and are to be told of what is alive. */
struct lls_succession {
  bool replaced, imported; /* imported: it knows them from its predecessor */
};

struct lls_adoption {
  bool any;
  LLS_EACH_KIND_OF(struct lls_succession);
};

enum lls_left_place { LLS_LEFT_HERE, LLS_LEFT_HOST, LLS_LEFT_MOVING };

/* Where the blocks are of a request that has left; left.c says who may touch it when. */
struct lls_left {
  _Atomic uint32_t place; /* enum lls_left_place */
  int64_t since_ns;       /* by the clock of the instance that has the blocks */
  uint64_t transfer;      /* the cache manager's, if started */
  uint32_t target;        /* instance that it is offered to */
  bool to_host, started;
  bool shifted;                  /* so `blocks` is where it is, and no list before */
  struct lls_block_table blocks; /* its lists are in entries */
};

/* Requests between two instances; migrate.c, left.c. */
struct lls_migration {
  struct lls_request_list offered; /* by others, not yet here */
  /* of these, those that have room here and whose blocks come from another process, which
   * takes as long as it takes; no policy but the cache manager sees them meanwhile */
  struct lls_request_list fetching;
  struct lls_request *left; /* (slots) of those that left: as the manager knows them */
  uint32_t n_left;          /* whose blocks are still here */
  struct lls_live *late;    /* that are offered after this step; linked by next */
  struct lls_left *shelf;   /* (slots) where those are; others read it too */
  uint32_t *shifting; /* (max_requests) slots of those asked for, the oldest first */
  uint32_t n_shifting;
  struct lls_block_entry *entries; /* (slots, max_entries) */
  uint32_t max_entries;
  struct lls_live **taken;       /* (max_taken) in this step */
  struct lls_engine_pull *pulls; /* (max_taken) of each */
  struct lls_pulls copies;       /* of all */
  uint32_t n_taken, max_taken, n_pulls;
};

struct lls_instance {
  /* It is in another process, and this is what is known of it here (far.h): no thread
   * steps it, its mail is sent there, and of the rest there is what peers may touch. */
  bool far;
  struct lls_fetches *fetches; /* blocks from other processes; NULL: there are none */
  /* The trail of the thread that runs its steps, which alone may touch it; NULL: there is
   * none, or it is parked, and main may. */
  _Atomic(const void *) owner;
  struct lls_engine *engine;
  struct lls_engine_caps caps;
  struct lls_topology topology;
  struct lls_instance_info info;
  struct lls_cost_model *cost;
  struct lls_step_samples *samples; /* of its steps; NULL: it is far */
  const struct lls_log *log;
  struct lls_loop_observer observer;
  struct lls_policies policies;
  struct lls_cache_service service;
  uint32_t preempt_mode;           /* chosen from the scheduler's preferences */
  struct lls_adoption adoption;    /* what the next step has to tell new policies */
  uint64_t seed;                   /* of the policies' random streams */
  char *model_name, *model_folder; /* for the embedding service, or NULL */
  char *prompts_folder;            /* where prompts are kept, or NULL */
  uint64_t prompts_bytes;          /* at most; 0: none are kept */

  struct lls_request_table *table; /* by_slot is ours, the rest is main's */
  struct lls_request_list waiting, running, preempted, moving;
  /* (n_peers) all of the server's, this one among them, by index. Of the others only the
   * inbox, the engine as a source of blocks, what left for here (migration.shelf), the
   * board of its load and `broken` may be touched. */
  struct lls_instance *const *peers;
  uint32_t n_peers;
  const _Atomic uint64_t *cancelled; /* (slots) id last cancelled there; main writes */
  struct lls_migration migration;
  struct lls_peer_loads *loads; /* NULL: there is one instance alone */

  struct lls_plan plan;               /* its items are allocated once */
  struct lls_plan_memory plan_memory; /* what the scheduler gets instead */
  uint64_t *alive; /* (max_requests) of adoption: ids in order of arrival */
  uint64_t step;   /* number of the one under way */
  struct lls_transaction transaction;
  struct lls_step_batch batch;
  int64_t idle_until_ns; /* of an empty plan, else 0 */
  uint32_t empty_plans;  /* in a row, with work to do */

  int32_t *eos_tokens; /* (n_eos_tokens) the model's */
  uint32_t n_eos_tokens;
  uint32_t strikes; /* so far; limits.strikes are too many */
  struct lls_loop_limits limits;
  int64_t device_ns;  /* that the last step with tokens took */
  int64_t mask_ns;    /* and for masks of grammars the last one that made any */
  uint64_t mask_debt; /* mask_budget.c: units of work that steps did beyond their limit */
  struct lls_inbox_content content; /* scratch of drain */

  struct lls_inbox *inbox;
  struct lls_outbox *outbox;
  int64_t (*clock)(void *context);      /* the only source of time */
  int64_t (*plan_clock)(void *context); /* of plan calls, for the plan budget */
  void *clock_context;

  /* Called once the device has a step to compute: calls lls_instance_count and sends the
   * events. NULL: both are done at once. deferred: they have still to be done. */
  void (*overlap)(void *context);
  void *overlap_context;
  bool deferred;

  struct lls_loop_status status; /* filled step by step */
  struct lls_loop_policy_stats policy_stats;
  int64_t policy_stats_ns; /* when they were taken, LLS_NEVER = they are to be */
  bool policy_stats_taken; /* and have not been shown to others */
  bool answered;           /* what main asked for is there, and it has not been woken */
  bool failed;
  struct lls_error failure;
  /* [any] It failed, or nothing is heard of its process: its blocks are worth nothing. */
  atomic_bool broken;
  _Atomic uint32_t returns; /* [any] how often it was broken and is not any more */
  uint64_t clear;           /* the number of the last lls_inbox_clear */
  _Atomic uint64_t cleared; /* [any] the same, once its events are published */
};

static inline int64_t lls_instance_now(const struct lls_instance *in)
{
  return in->clock(in->clock_context);
}

/* [step] The calling thread runs the steps from now on, or (false) leaves it to main. */
static inline void lls_instance_own(struct lls_instance *in, bool own)
{
  atomic_store(&in->owner, own ? &lls_trail : NULL);
}

/* True if the calling thread may touch what is [step]. */
static inline bool lls_instance_is_owned(const struct lls_instance *in)
{
  const void *owner = atomic_load(&in->owner);
  return owner == NULL || owner == &lls_trail;
}

#define LLS_ON_STEP(IN) LLS_CHECK(lls_instance_is_owned(IN))

/* Requests that live here. */
static inline uint32_t lls_instance_alive(const struct lls_instance *in)
{
  return in->waiting.n + in->running.n + in->preempted.n + in->moving.n +
         in->migration.offered.n + in->migration.fetching.n;
}

/* Steps are to be made: for them, or for what others have asked of those that left. */
static inline bool lls_instance_has_work(const struct lls_instance *in)
{
  return lls_instance_alive(in) > 0 || in->migration.n_shifting > 0;
}

/* Does the work that was left `deferred`. */
static inline void lls_instance_catch_up(struct lls_instance *in)
{
  if (in->deferred)
    in->overlap(in->overlap_context);
}

/* ---- instance.c, whoever has the status */
/* Its histograms are of this process's bounds: of one that is new, or came from another.
 */
void lls_loop_status_bind(struct lls_loop_status *);

/* ---- instance.c [main] */
/* Its engine, caps and info; of all instances before the first is made. */
void lls_instance_describe(struct lls_instance *, const struct lls_loop_options *,
                           const struct lls_loop_instance *, uint32_t index);
/* Mailboxes, table, peers, topology and clocks are set by the caller before. */
int lls_instance_init(struct lls_instance *, const struct lls_loop_options *,
                      struct lls_error *err);
void lls_instance_fini(struct lls_instance *); /* also after a failed init */

/* ---- invariants.c: nothing without --enable-checks */
void lls_instance_check(const struct lls_instance *); /* [step] between two steps */

/* ---- step.c */
/* One step. *busy: something ran. False return: stop was asked for or the engine failed.
 */
bool lls_instance_step(struct lls_instance *, bool *busy);
/* Brings the status up to date; lls_instance_step does, unless it leaves it `deferred`.
 */
void lls_instance_count(struct lls_instance *);
/* Takes the inbox, except for the things that only a step can do. */
void lls_instance_receive(struct lls_instance *, int64_t now_ns);
/* How long nothing needs to be done, LLS_NEVER = until something is posted. */
int64_t lls_instance_idle_ns(const struct lls_instance *);

/* ---- plan.c */
/* Asks for a plan inside the open transaction; in->plan holds a checked plan, perhaps
 * empty. */
void lls_instance_plan(struct lls_instance *);
void lls_instance_strike(struct lls_instance *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- fallback.c: the order that always works */
void lls_fallback_plan(struct lls_instance *, const struct lls_step_view *,
                       struct lls_plan *);

/* ---- transaction.c: its verbs, which all below use */
void lls_transaction_open(struct lls_instance *);
int lls_transaction_reserve(struct lls_instance *, struct lls_live *, uint32_t tokens,
                            uint32_t form, uint32_t flags);
int lls_transaction_preempt(struct lls_instance *, struct lls_live *, uint32_t mode);
/* Tokens that a first chunk need not compute since others have them: fewer than the
 * request has, whatever the manager says. */
uint32_t lls_transaction_prefix(struct lls_instance *, struct lls_live *, bool take);
/* Notes what was done for a request, for rollback. */
void lls_transaction_note(struct lls_instance *, struct lls_live *, uint32_t mark_before);
/* Undoes what was done since the manager's mark; 0 = everything. */
int lls_transaction_rollback(struct lls_instance *, uint32_t mark);
/* After the manager's commit: every request is LLS_PLACED_NOT again. */
void lls_transaction_close(struct lls_instance *);

/* ---- cache_answers.c: the manager's answers, checked */
/* Counts and logs an answer that the contract excludes; returns -EPROTO. */
int lls_cache_breach(struct lls_instance *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Each fills *out, with zeros on failure, and returns 0 or a negative errno. */
int lls_cache_capacity(struct lls_instance *, uint32_t tier, struct lls_capacity *out);
int lls_cache_info(struct lls_instance *, const struct lls_request *,
                   struct lls_cache_info *out);
int lls_cache_table(struct lls_instance *, const struct lls_request *,
                    struct lls_block_table *out);
int lls_cache_copies(struct lls_instance *, const struct lls_copy **list, uint32_t *n);

/* ---- placement.c */
/* Carries out in->plan, commits the transaction and fills in->batch. */
void lls_instance_place(struct lls_instance *);

/* ---- transfer.c: moved between the tiers while others compute */
bool lls_transfer_supported(const struct lls_instance *, const struct lls_cache_vtable *);
void lls_transfer_place(struct lls_instance *); /* of the plan, in the transaction */
void lls_transfer_start(struct lls_instance *, struct lls_live *); /* committed */
void lls_transfer_ended(struct lls_instance *); /* with the engine's step */

/* ---- migrate.c: from one instance to another; see there */
int lls_migrate_init(struct lls_instance *, uint32_t max_requests);
void lls_migrate_fini(struct lls_instance *);
/* For the content of the inbox: settled requests first, then each that is no arrival. */
void lls_migrate_settle(struct lls_instance *);
void lls_migrate_receive(struct lls_instance *, struct lls_live *);
/* Ends the offers of an instance that has failed: it cannot be copied from. */
void lls_migrate_drop_broken(struct lls_instance *);
void lls_migrate_leave(struct lls_instance *);      /* of the plan, committed */
void lls_migrate_offer_late(struct lls_instance *); /* after the step */
void lls_migrate_return_all(struct lls_instance *);
/* Others have taken over all that lives here, and what left: it is forgotten. */
void lls_migrate_forget_all(struct lls_instance *);
/* An offer goes back where it came from, for that reason. */
void lls_migrate_refuse(struct lls_instance *, struct lls_live *, uint32_t refusal);
/* It lives here, in the state that its blocks are in. */
void lls_migrate_settle_in(struct lls_instance *, struct lls_live *);
/* It is only offered again; other ranks may not be done with it. */
void lls_migrate_end_fetch(struct lls_instance *, struct lls_live *);

/* ---- migrate_take.c: offers that the plan takes; see there */
void lls_migrate_take(struct lls_instance *); /* of the plan, in the transaction */
void lls_migrate_pull(struct lls_instance *); /* committed: what is to be copied */
uint64_t lls_migrate_bytes(const struct lls_instance *); /* of this step's copies */
void lls_migrate_arrived(struct lls_instance *);         /* with the engine's step */
/* For the content of the inbox, after what is settled. */
void lls_migrate_fetched(struct lls_instance *);

/* ---- left.c: the blocks of those that have left, between the tiers; see there */
int lls_left_init(struct lls_instance *, uint32_t max_requests);
/* The same of one that is far, and like one that is here. */
int lls_left_init_far(struct lls_instance *, const struct lls_instance *like,
                      uint32_t slots);
void lls_left_fini(struct lls_instance *);
/* [any] From the process of `in`: where those of the request are now. */
void lls_left_receive_place(struct lls_instance *in, struct lls_unpack *, uint32_t slot);
/* It has just left. */
void lls_left_put(struct lls_instance *, uint32_t slot, uint32_t target);
/* It has ended, or come back; true: its transfer has begun. */
bool lls_left_drop(struct lls_instance *, uint32_t slot);
void lls_left_receive(struct lls_instance *);     /* what others ask for */
void lls_left_place(struct lls_instance *);       /* that, in the transaction */
void lls_left_ended(struct lls_instance *);       /* with the engine's step */
bool lls_left_moves(const struct lls_instance *); /* some are on their way */
void lls_left_look(struct lls_instance *); /* where the offers' blocks are, for a view */
void lls_left_ask(struct lls_instance *);  /* of the plan, committed */
/* The lists of an offer that is to be taken; false: it can't be copied. */
bool lls_left_find(struct lls_instance *, struct lls_live *);

/* ---- adoption.c: policies that took over hear of the live requests */
void lls_adoption_run(struct lls_instance *);

/* ---- cache_service.c */
void lls_cache_service_init(struct lls_instance *);

/* ---- lists.c: the tokens that the next draw of a request may take */
/* Before each draw. Without a grammar: sets exhausted if nothing is left. */
void lls_lists_set(struct lls_instance *, struct lls_live *);
/* Leaves of a grammar's mask what the lists allow too; false if nothing is left. */
bool lls_lists_cut(const struct lls_instance *, const struct lls_live *, uint32_t *mask,
                   uint32_t vocabulary);
/* How an answer ends that is exhausted: enum lls_finish_reason. */
uint32_t lls_lists_end(const struct lls_instance *, const struct lls_live *);

/* ---- constraint.c: answers that keep to a grammar */
/* -EINVAL where a grammar, if there is one, is for another vocabulary; or cannot wait for
 * its first mask, which takes long. */
int lls_constraint_check(const struct lls_grammar *, uint32_t vocabulary,
                         uint32_t prompt_tokens, struct lls_error *err);
/* Goes on with its mask, within so many units; how many it took. It is `whole`, or goes
 * on later. */
uint64_t lls_constraint_fill(struct lls_instance *, struct lls_live *, uint64_t work);
/* Leaves of the whole mask what the lists allow, once, before the token is drawn. */
void lls_constraint_cut(struct lls_instance *, struct lls_live *);
/* A drawn token: 0; or -errno where the answer cannot go on, which is logged and ends the
 * request. */
int lls_constraint_take(struct lls_instance *, struct lls_live *, int32_t token);
/* The answer is whole, and nothing can follow. */
bool lls_constraint_complete(const struct lls_instance *, const struct lls_live *);
/* Writes the tokens that alone can follow behind those of the request, as far as it may
 * have more, and takes them; how many. */
uint32_t lls_constraint_jump(struct lls_instance *, struct lls_live *);
/* True for a token that ends an answer and is none of its text. */
bool lls_constraint_hides(const struct lls_instance *, const struct lls_live *,
                          int32_t token);

/* ---- mask_budget.c: how much work for masks */
#define LLS_MASK_FREE 4000 /* units: some 40 us; 9 in 10 masks of schemas take 10 us */
/* Its last mask took few units, and so has this one. */
bool lls_masks_are_light(const struct lls_instance *, const struct lls_live *);
/* Takes off what was done for a request, and what no step has as yet from steps to come.
 */
void lls_masks_charge(struct lls_instance *, uint64_t *left, uint64_t took);
void lls_masks_owe(struct lls_instance *, uint64_t took); /* work that cannot wait */
/* The units of this step: no limit, or the limit less some of the debt. */
uint64_t lls_masks_begin(struct lls_instance *, bool beside_others);

/* ---- mask_turns.c: whose mask is made when */
/* A run that is placed waits for its mask, which is made in this step or later ones; true
 * if there is nothing of it to compute in this step. */
bool lls_masks_hold(struct lls_instance *, struct lls_live *);
void lls_masks_forget(struct lls_instance *, const struct lls_live *); /* it ends */
/* After the step: those that had no row stay as they were. */
void lls_masks_release(struct lls_instance *);
/* Before tokens are drawn, or without a step if all that could run is held; context: the
 * instance. */
void lls_masks_fill(void *context);

/* ---- commit.c */
void lls_instance_commit(struct lls_instance *, const struct lls_engine_result *,
                         int64_t started_ns);

/* ---- lifecycle.c: arrival, states, end */
/* The cache manager refused it with this code, and said why. */
void lls_lifecycle_log_refusal(const struct lls_instance *, const struct lls_live *,
                               int rc);
void lls_lifecycle_arrive(struct lls_instance *, struct lls_live *);
/* It was alive in a process that is gone. */
void lls_lifecycle_arrive_again(struct lls_instance *, struct lls_live *);
void lls_lifecycle_predict(struct lls_instance *, struct lls_live *);
/* Gives the request a prediction, of which lengths beyond the context are cut to it;
 * -EPROTO, and the request keeps what it has, if the contract excludes it. */
int lls_lifecycle_take_prediction(struct lls_instance *, struct lls_live *,
                                  const struct lls_prediction *);
/* Its predictor hears that it has ended, here at least: enum lls_finish_reason. */
void lls_lifecycle_tell_predictor(struct lls_instance *, const struct lls_live *,
                                  uint32_t reason);
void lls_lifecycle_finish(struct lls_instance *, struct lls_live *, uint32_t reason);
/* Ends everything alive, e.g. when the engine has failed. */
void lls_lifecycle_finish_all(struct lls_instance *, uint32_t reason);
void lls_lifecycle_set_state(struct lls_instance *, struct lls_live *, uint32_t state);
/* Brings the view's cache members up to date with the manager's info. */
void lls_lifecycle_refresh(struct lls_instance *, struct lls_live *);
void lls_lifecycle_refuse(struct lls_instance *, struct lls_live *, uint32_t refusal);

#endif
