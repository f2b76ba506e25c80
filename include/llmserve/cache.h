/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache managers: where each sequence's cached state is stored.
 *
 *     model's layers       groups (data)         manager (a plugin)       kernels
 *     5 attend to all  --> 0 FULL      5 units   5u 5u 5u 5u ... 5u   --> base + unit
 *     25 have a window --> 1 WINDOW   50 units   -- -- 50u ... 50u           x unit_bytes
 *     (30 keep a state --> 2 STATE   983 units   read, written)
 *
 *     pool: one array of equal units, u            |u|u|u|u|u|u|u|u|u| ... |
 *
 * The engine makes the groups from the model's configuration: one at least, at most 8.
 * A group of kind STATE is the last one.
 *
 * The pool of a device is an array of equal *units*. A *block* is what a group of layers
 * keeps of block_tokens consecutive tokens of one sequence, in one form: block_units
 * consecutive units, as host->engine->groups says for that form. So n tokens take
 * ceil(n / block_tokens) blocks of each group, and a sequence has a list of blocks for
 * each group. The manager decides which units, which direction, which form, which tier
 * and when to copy; it never touches the memory itself.
 *
 * One step, as the core drives it [step]:
 *
 *   begin            opens the transaction
 *   (scheduler.plan) may reserve, preempt, mark and roll back through lls_cache_service;
 *                    if the plan is refused, rollback(0) restores the state at begin,
 *                    byte for byte as audit shows it
 *   preempt, reserve the core calls them for plan items not yet done by the scheduler
 *   offload, upload  for the plan's asynchronous transfers
 *   commit
 *   table            of each sequence that runs, for the engine
 *   copies           of this step, for the engine
 *   computed         after the forward pass: the tokens are in their slots now
 *
 * Outside of the transaction: admit at arrival, release when a request ends.
 *
 * Blocks of a group of which all tokens are before lls_group_begin are read by no later
 * step. A manager may take them back, in computed or later, and leave them out of the
 * front of its tables; it still counts their tokens as cached. It may as well keep
 * everything. A table that begins too late is refused by the core, as one that has a gap.
 *
 * Hand-over between instances uses the same callbacks. On the target instance, memory
 * is reserved for the tokens cached on the source (the cached_tokens of the request's
 * view; with a window the first of them may be unnecessary on the target, too), and
 * computed is called when they have been copied. On the source, the request's blocks
 * remain unchanged until release, with a copy of the view whose tokens are NULL.
 *
 * The core checks a manager's results. If one is impossible (counts beyond the pool or
 * the context, unknown enums, entries or copies outside of the pool), the core logs a
 * line, counts a breach and does not use the result: a request with a bad table ends
 * with ERROR; after a bad copy all requests do.
 *
 * The manager never removes a request on its own: reserve with LLS_MAY_DISPLACE may
 * displace slots of other requests; only the scheduler's PREEMPT removes a request.
 */
#ifndef LLMSERVE_CACHE_H
#define LLMSERVE_CACHE_H

#include <llmserve/host.h>
#include <llmserve/plugin.h>
#include <llmserve/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The pool a manager is made for. */
struct lls_cache_geometry {
  uint32_t size;
  uint32_t block_tokens; /* slots of a block */
  uint64_t unit_bytes;
  uint32_t device_units, host_units;
  uint32_t disk_units; /* 0: this version keeps no blocks on disk */
  /* The forms that full blocks of group 0 are to take in a tier; NONE: that in which
   * steps compute. [cache] int8. */
  uint32_t device_form, host_form;
  uint32_t shows_changes; /* 1: `changes` is called after each step; 0: never */
  /* version 1 ends here */
};

/* A manager's abilities, read before create. */
struct lls_cache_caps {
  uint32_t size;
  /* 1u << enum lls_group_kind: groups that it keeps by their rule. A manager that does
   * not give back what leaves a window leaves WINDOW out: then it is not shown such a
   * group, or keeps all of it; and no request is longer than the pool. If it cannot keep
   * the engine's groups together, create returns -ENOTSUP with a sentence. */
  uint32_t kinds;
  /* 1u << enum lls_form: of a form that the geometry asks for and that is left out it
   * makes none, and the core says so. */
  uint32_t forms;
  /* Most groups of layers that it keeps; 0: one. If a model has more the engine joins
   * those that forget first, in the end to one group, which keeps what any of its layers
   * reads. A manager that leaves WINDOW out gets one. */
  uint32_t groups;
  /* version 1 ends here */
};

/* The tokens of a waiting request that it need not compute, since others have them. */
struct lls_prefix {
  uint32_t size;
  uint32_t tokens; /* 0: nothing */
  /* of these, tokens that have to be copied to the device first */
  uint32_t on_host, on_disk;
  /* tokens that others have in FULL groups: more than `tokens` if what they had in other
   * groups is gone; 0: not said. */
  uint32_t branch;
  /* version 1 ends here */
};

/* How a request leaves. */
struct lls_release {
  uint32_t size;
  uint32_t flags;                    /* enum lls_release_flags */
  const struct lls_session *session; /* NULL: of none */
  /* version 1 ends here */
};

struct lls_capacity {
  uint32_t size;
  uint32_t total_units;
  uint32_t free_units;     /* can be reserved now, including blocks that are only kept
                            * for reuse */
  uint32_t reserved_units; /* units that the open transaction has reserved */
  uint64_t unit_bytes;
  /* version 1 ends here */
};

/* An estimate; only reserve gives a definite answer. */
struct lls_need {
  uint32_t size;
  uint32_t new_units;     /* needed for tokens not yet cached */
  uint32_t restore_units; /* needed on the device for tokens on the host */
  /* version 1 ends here */
};

/* The cached part of one sequence, and where it is. */
struct lls_cache_info {
  uint32_t size;
  uint32_t residency;    /* enum lls_residency */
  uint32_t form;         /* enum lls_form */
  uint32_t device_units; /* held, including shared units */
  uint32_t owned_units;  /* units freed when this request alone releases its blocks */
  uint32_t host_units;
  uint32_t cached_tokens;  /* computed, on any tier */
  uint32_t missing_tokens; /* cached tokens that are not on the device */
  uint32_t shared_tokens;  /* cached tokens shared with other requests */
  uint32_t free_slots;     /* free slots in its blocks, per list: tokens that need no
                            * new unit */
  /* version 1 ends here */
};

struct lls_form_info { /* an array element: it never grows */
  uint32_t form;       /* enum lls_form */
  double ratio;        /* bytes of a token, relative to KV form */
  int64_t restore_ns;  /* extra time per token and step, LLS_NEVER if unknown */
  const char *why_not; /* NULL if offered, else the reason why not */
};

/* Results of reserve; negative values are errors. */
enum lls_reserve_result {
  LLS_RESERVE_OK = 0,
  LLS_RESERVE_LATER = 1, /* not now: too little memory, or a transfer in flight */
  LLS_RESERVE_NEVER = 2, /* can't fit even alone */
};

/* The request may take slots of other requests, except those reserved in this
 * transaction. A request that loses slots is PREEMPTED from commit on, with
 * missing_tokens in its info, and can be run again. */
enum lls_reserve_flags { LLS_MAY_DISPLACE = 1 };
/*
 * Flags of release: what other requests may still find of an ended request. KEEP_PREFIX
 * is set at every end, whatever its reason, and when a request that was handed over has
 * left: full blocks may stay in an index while their memory is not needed. Without it
 * no block of the request may be found again, nor any block that follows one of them.
 */
enum lls_release_flags { LLS_KEEP_PREFIX = 1 };

/*
 * The cache as a scheduler may use it inside plan [step]: the manager's functions, with
 * checks by the core. Every function takes `context` first. Besides the errors in the
 * comments: -ENOENT for a request that is not alive, -EPERM for a change outside of
 * plan, -ENOTSUP for functions that this manager lacks.
 */
struct lls_cache_service {
  uint32_t size;
  uint32_t block_tokens;
  void *context;
  int (*capacity)(void *, uint32_t tier, struct lls_capacity *);
  /* The units needed for `tokens` tokens beyond the cached ones. `tokens` may exceed
   * the pending ones, to ask for the memory that the rest of an answer will need.
   * `form` as for reserve: NONE is the request's form, or the cache's choice. Prefixes
   * are not counted. */
  int (*need)(void *, const struct lls_request *, uint32_t tokens, uint32_t form,
              struct lls_need *);
  /* mark returns the position in the transaction; rollback undoes everything reserved
   * and preempted since that position. Marks begin at 0 in each plan. */
  uint32_t (*mark)(void *);
  int (*rollback)(void *, uint32_t mark);
  /* Returns enum lls_reserve_result. Reserves memory for `tokens` tokens beyond the
   * cached ones, 1 to lls_request_pending, and for missing_tokens; once per request and
   * plan. The same plan must run a reserved request, perhaps with fewer tokens, or roll
   * back. A waiting request first takes the prefix that the cache shares with it:
   * `tokens` counts from the end of the prefix, and info includes it; the request's
   * view does from the next step on. `form` applies to the first tokens of a request
   * only: NONE is the cache's choice. */
  int (*reserve)(void *, const struct lls_request *, uint32_t tokens, uint32_t form,
                 uint32_t flags);
  /* Takes effect at once, so that later calls of reserve can use the memory; the plan
   * must contain the preemption, too. */
  int (*preempt)(void *, const struct lls_request *, uint32_t mode);
  int (*info)(void *, const struct lls_request *, struct lls_cache_info *);
  /* Returns how many tokens of a waiting request are cached already for other requests;
   * 0 without sharing. A plan runs the rest, pending minus these: the core cuts the
   * excess. */
  uint32_t (*prefix)(void *, const struct lls_request *);
  /* Returns the number of forms, of which at most `max` were written. */
  int (*forms)(void *, struct lls_form_info *, size_t max);
  /* Returns the time to copy `units`, by the cost service; enum lls_link. */
  int64_t (*transfer_ns)(void *, uint32_t units, uint32_t link);
  /* As prefix, with all that the manager says of it. -ENOTSUP: it shares nothing. */
  int (*prefix_info)(void *, const struct lls_request *, struct lls_prefix *);
  /* version 1 ends here */
};

/*
 * State that any cache manager can read: an exported blob of this version begins with
 * the units of the pool that each sequence holds, so that after a reload another
 * manager can take them over. An import from another manager takes the sequences that
 * it can represent in place; all others are prefilled again.
 *
 * The section: a struct lls_holdings, then for each sequence a struct lls_holding, and
 * for each of its lists a struct lls_held_list and the first units of its blocks,
 * uint32_t each. None of the structs ever grows: another layout has another version.
 */
#define LLS_STATE_HOLDINGS 0x80000002u

struct lls_holdings { /* a larger one gets a new number: the struct never grows */
  uint64_t bytes; /* size of the section, including this struct; the manager's own state
                     follows */
  uint32_t block_tokens, device_units, n;
  uint32_t reserved;
};

struct lls_holding { /* an array element: it never grows */
  uint64_t request;
  uint32_t slot, cached_tokens;
  uint32_t n_lists;
  uint32_t reserved;
};

/* Whole blocks from the left, in token order. Of two lists of one group the HIDDEN one
 * has the blocks that the other's are restored from. */
struct lls_held_list { /* in arrays: it never grows */
  uint32_t group, form;
  uint32_t first_token, n_blocks;
};

/* A full block of a prefix that no request holds. */
struct lls_kept_block { /* in arrays: it never grows */
  uint32_t parent;      /* index, in the same array, of a block of the tokens before it;
                           LLS_NO_BLOCK: it is the first of a prompt */
  uint32_t group, form;
  uint32_t unit; /* its first */
  struct lls_key key;
};

#define LLS_NO_BLOCK UINT32_MAX

/* Blocks of a session that are to stay in a tier, or to come to it. */
struct lls_retained {
  uint32_t size;
  uint32_t tier;    /* enum lls_tier */
  uint64_t session; /* id */
  const struct lls_key *keys;
  uint32_t n_keys;
  int64_t until_ns; /* of retain, by lls_host.now: then they are as any others */
  /* version 1 ends here */
};

enum lls_block_change_kind {
  LLS_BLOCK_STORED = 1,  /* waiting requests may find the block in the tier from now on */
  LLS_BLOCK_REMOVED = 2, /* they find it there no more */
};

/* A full block that came to a tier or left it. */
struct lls_block_change { /* in arrays: it never grows */
  uint32_t kind;          /* enum lls_block_change_kind */
  uint32_t group, tier;
  uint32_t reserved;
  struct lls_key key;
};

/* Required unless marked optional. An optional pair is given together or not at all. */
struct lls_cache_vtable {
  uint32_t api_version;
  uint32_t size;
  const struct lls_cache_caps *caps;

  /* [main] params and failures as for a scheduler (scheduler.h). */
  int (*create)(const struct lls_host *, const void *params,
                const struct lls_cache_geometry *, void **self);
  void (*destroy)(void *self);

  /* [step] capacity of a tier; need of tokens not yet cached in that form, as described
   * in the service: any number of tokens, also for form NONE. -ENOTSUP for a tier or
   * form that it lacks. */
  int (*capacity)(void *self, uint32_t tier, struct lls_capacity *out);
  int (*need)(void *self, const struct lls_request *, uint32_t tokens, uint32_t form,
              struct lls_need *out);
  int (*begin)(void *self);
  uint32_t (*mark)(void *self);               /* 0 after begin */
  int (*rollback)(void *self, uint32_t mark); /* the transaction stays open */
  int (*commit)(void *self);                  /* closes the transaction; cannot fail
                                               * for lack of memory */
  /* Returns enum lls_reserve_result. Reserves memory for `tokens` beyond info's
   * cached_tokens, and brings missing tokens back to the device by copies of this step.
   * No step computes more than engine->max_step_tokens, so memory for that many is
   * enough if the remaining tokens can reuse blocks that leave the window. After LATER
   * or NEVER the core rolls back this call. */
  int (*reserve)(void *self, const struct lls_request *, uint32_t tokens, uint32_t form,
                 uint32_t flags);
  /* In the transaction. RECOMPUTE frees all blocks; SWAP moves them to the host by
   * copies of this step: -ENOSPC if the host is full, -ENOTSUP without a host tier. */
  int (*preempt)(void *self, const struct lls_request *, uint32_t mode);
  /* At arrival. An error, with its sentence in host->fail, ends the request with
   * CAPACITY; release is then not called. */
  int (*admit)(void *self, const struct lls_request *);
  /* At its end, in whatever state it is. */
  void (*release)(void *self, const struct lls_request *, const struct lls_release *);
  int (*info)(void *self, const struct lls_request *, struct lls_cache_info *out);
  /* After commit. Lists stay valid until computed is called for the request, or the
   * next begin. */
  int (*table)(void *self, const struct lls_request *, struct lls_block_table *out);
  /* After commit: returns how many copies this step has, in order; valid until the next
   * begin. */
  size_t (*copies)(void *self, const struct lls_copy **out);
  /* The request has cached_tokens computed tokens now: perhaps fewer than were reserved.
   * Only these may be found by others; what is behind is written again. Called once per
   * request of the batch. */
  void (*computed)(void *self, const struct lls_request *, uint32_t cached_tokens);
  uint32_t (*preempt_modes)(void *self); /* 1u << enum lls_preempt_mode, for each
                                          * supported mode */
  /* Writes all state as text, identical for identical states; -EIO if the state
   * contradicts itself. Tests and llmserve-plugin-check call it at any time, also in a
   * transaction. */
  int (*audit)(void *self, const struct lls_sink *);

  /* All callbacks below are optional. */

  /* [step] A waiting request takes the blocks others have of its prefix, in the
   * transaction; out says how many tokens: pure query with take = false. Whole blocks, or
   * all tokens but the last. Always fewer than it has,
   * since its last token has to be computed: a manager that says more is asked for no
   * prefix any more. reserve follows for the rest. From then on info says that so many
   * tokens are cached and that it is on the device, and the request runs in this very
   * step or is rolled back. Asked again with take = true, which the core does not, what
   * it has taken stays taken and is the answer. The blocks are those in which the same
   * tokens follow the same tokens from the first one on: equal blocks behind others hold
   * other K and V. */
  int (*prefix)(void *self, const struct lls_request *, bool take,
                struct lls_prefix *out);
  /* As in lls_cache_service. Without it all sequences keep KV form, and the engine sets
   * no memory aside for another. */
  int (*forms)(void *self, struct lls_form_info *out, size_t max);
  /* In the transaction: start moving a sequence to the host, or back, by ASYNC copies
   * of this step and later ones; *transfer is a number of the manager's for it. info
   * says MOVING until the move is complete. offload, upload and on_transfer go
   * together. */
  int (*offload)(void *self, const struct lls_request *, uint64_t *transfer);
  int (*upload)(void *self, const struct lls_request *, uint64_t *transfer);
  /* A step has ended, and with it all its ASYNC copies. Called once for each transfer
   * under way. */
  void (*on_transfer)(void *self, uint64_t transfer);
  /* Like a scheduler's (scheduler.h). */
  void (*stats)(void *self, const struct lls_sink *);

  /* [main] Between two steps. Sets new parameters without reloading the plugin; after a
   * failure nothing has changed. */
  int (*reconfigure)(void *self, const void *params);
  /* A pair: state that is taken over in a reload; see LLS_STATE_HOLDINGS. */
  int (*export_state)(void *self, struct lls_blob *out);
  int (*import_state)(void *self, const struct lls_blob *);

  /* A pair, outside of transactions: prefixes that outlive the process. kept is called at
   * the end, when nothing is alive ([cache] kept_prompts). What is most worth
   * keeping comes first, each block after its parent, at most `max` of them; how many.
   * They are in the form that steps write, forms[0]; those of all groups count, since a
   * prefix needs all. */
  size_t (*kept)(void *self, struct lls_kept_block *out, size_t max);
  /* Takes the first of these, as if requests had left them, perhaps in place of others,
   * and says where they lie; how many it took. The core fills these units at once. */
  size_t (*adopt)(void *self, struct lls_kept_block *, size_t n);

  /* [step] A pair, in the transaction. retain keeps the blocks of these keys that are in
   * the tier, up to the first that is not, until a time: their memory is not free until
   * then. It takes the place of what the session had retained in that tier: none from
   * now on if until_ns has passed. fetch brings to the tier what the keys have in
   * others, by copies of this step and later ones, and blocks that the tier has leave
   * last. Both return how many tokens of the keys are in the tier, kept or not, or soon
   * will be; -ENOTSUP: the manager has no such tier; -ENOSPC: more than it keeps for all
   * sessions together, or has room for; -EBUSY: a request that runs is about to change
   * it. */
  int (*retain)(void *self, const struct lls_retained *);
  int (*fetch)(void *self, const struct lls_retained *);

  /* [step] Between two steps, if the geometry's shows_changes is 1. Writes what has
   * changed since the last call among the blocks that waiting requests may find, at most
   * `max` changes; returns how many. The rest is of the next call. A block that came and
   * left since the last call may be left out. A manager that has just been created, with
   * or without a state that it took over, has shown nothing yet. In every group and tier
   * STORED and REMOVED alternate for a key, and STORED is first. */
  size_t (*changes)(void *self, struct lls_block_change *out, size_t max);

  /* [step] Outside of a transaction: returns true if commit would list copies that no
   * verb has asked for. The core then makes steps although no request is alive, so that
   * such copies do not wait for the next request. */
  bool (*wants_step)(void *self);

  /* version 1 ends here */
};

#ifdef __cplusplus
}
#endif

#endif
