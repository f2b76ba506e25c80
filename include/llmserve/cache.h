/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache managers: where each sequence's cached state lies.
 *
 * The pool of a device is cut into equal *unit blocks*. A unit holds one kind of vector
 * (K, V or X) of block_tokens consecutive tokens of one sequence, in every layer. So n
 * tokens in KV form take 2 * ceil(n / block_tokens) units: a K list and a V list; in
 * hidden form an X list of x_units units per block. The manager decides which unit, which
 * direction, which tier and when to copy; it never touches the memory itself.
 *
 * One step, as the core drives it [step]:
 *
 *   begin            opens the transaction
 *   (scheduler.plan) may reserve, preempt, mark and roll back through lls_cache_service;
 *                    a plan that is refused is undone by rollback(0): the state at begin,
 *                    byte for byte as audit shows it
 *   preempt, reserve the core, for what the plan names and the scheduler has not yet done
 *   offload, upload  for what the plan moves beside the steps
 *   commit
 *   table            of each sequence that runs, for the engine
 *   copies           of this step, for the engine
 *   computed         after the forward pass: the tokens are in their slots now
 *
 * Outside the transaction: admit at arrival, release when a request ends.
 *
 * Where every layer has a sliding window (host->engine->window_tokens), blocks of which
 * all tokens are before lls_window_begin are read by no later step. A manager may take
 * them back, in computed or later, and leave them out of the front of its tables; it
 * still counts their tokens as cached. It may as well keep everything. A table that
 * begins too late is refused by the core, as one that has a gap.
 *
 * Hand-over between instances needs nothing more. Here the request is reserved for what
 * is cached of it elsewhere (its view's cached_tokens, of which a window may make the
 * first ones needless here too), and computed says when that has been copied. There its
 * blocks stay as they are until release, with a copy of the view whose tokens are NULL.
 *
 * The core checks what a manager answers. Of an answer that it excludes (counts beyond
 * the pool or the context, unknown enums, entries or copies outside of the pool) it logs
 * a line, counts a breach and uses nothing: a request whose table is bad ends with ERROR,
 * and all that are alive do if a copy is.
 *
 * The manager never removes a request on its own: reserve with LLS_MAY_DISPLACE may
 * displace slots of others, removal is the scheduler's PREEMPT.
 */
#ifndef LLMSERVE_CACHE_H
#define LLMSERVE_CACHE_H

#include <llmserve/host.h>
#include <llmserve/plugin.h>
#include <llmserve/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where INT8 blocks may lie: [cache] int8. */
enum lls_int8 {
  LLS_INT8_OFF,
  LLS_INT8_SWAPPED, /* on the host */
  LLS_INT8_ALL,     /* on the device too */
};

/* The pool a manager is made for. */
struct lls_cache_geometry {
  uint32_t size;
  uint32_t block_tokens; /* slots of a unit block */
  uint64_t unit_bytes;
  uint32_t device_units, host_units;
  uint32_t x_units; /* units of one block of X; 0 = the engine has no hidden form */
  uint32_t int8;    /* enum lls_int8 */
  /* version 1 ends here */
};

enum lls_tier { LLS_TIER_DEVICE, LLS_TIER_HOST };

struct lls_capacity {
  uint32_t size;
  uint32_t total_units;
  uint32_t free_units;     /* can be reserved now, counting what is only kept for reuse */
  uint32_t reserved_units; /* by the open transaction */
  uint64_t unit_bytes;
  /* version 1 ends here */
};

/* An estimate; the truth is reserve. */
struct lls_need {
  uint32_t size;
  uint32_t new_units;     /* to be taken for tokens not yet cached */
  uint32_t restore_units; /* to be taken to bring back what is on the host */
  /* version 1 ends here */
};

/* The cached part of one sequence, and where it is. */
struct lls_cache_info {
  uint32_t size;
  uint32_t residency;    /* enum lls_residency */
  uint32_t form;         /* enum lls_form */
  uint32_t device_units; /* held, shared ones included */
  uint32_t owned_units;  /* of those, freed if this request alone lets go */
  uint32_t host_units;
  uint32_t cached_tokens;  /* computed, wherever they are */
  uint32_t missing_tokens; /* of those, not on the device */
  uint32_t shared_tokens;  /* of the cached ones, those that others have in common */
  uint32_t free_slots;     /* of its blocks, per list: tokens that take no new unit */
  /* version 1 ends here */
};

struct lls_form_info { /* in arrays: it never grows */
  uint32_t form;       /* enum lls_form */
  double ratio;        /* bytes of a token over those in KV form */
  int64_t restore_ns;  /* extra time per token and step, LLS_NEVER if unknown */
  const char *why_not; /* NULL if offered, else the reason it is off */
};

/* Results of reserve; negative values are errors. */
enum lls_reserve_result {
  LLS_RESERVE_OK = 0,
  LLS_RESERVE_LATER = 1, /* not now: memory or a transfer in flight */
  LLS_RESERVE_NEVER = 2, /* can't fit even alone */
};

/* Slots of others, but of none that is reserved in this transaction. A request that loses
 * any is PREEMPTED from commit on, as info's missing_tokens tell, and can be run again.
 */
enum lls_reserve_flags { LLS_MAY_DISPLACE = 1 };
/*
 * Flags of release: what others may still find of an ended request. KEEP_PREFIX comes
 * with every end, however the request ended, and when one that was handed over has left:
 * full blocks may stay in an index for as long as their memory is not needed. Without it
 * nothing of it may be found again, and what follows a block that goes must go too.
 */
enum lls_release_flags { LLS_KEEP_PREFIX = 1 };

/*
 * The cache as a scheduler may use it inside plan [step]: the manager's own functions
 * behind checks of the core. Every function takes `context` first. Beside what the
 * comments name: -ENOENT for a request that isn't alive, -EPERM for a change outside of
 * plan, -ENOTSUP for what this manager doesn't have.
 */
struct lls_cache_service {
  uint32_t size;
  uint32_t block_tokens;
  void *context;
  int (*capacity)(void *, uint32_t tier, struct lls_capacity *);
  /* The units that `tokens` tokens beyond the cached ones would take. There may be more
   * than are pending: the room that the rest of an answer will need is asked for so.
   * `form` as for reserve: NONE is the form it has, or the cache's choice. Prefixes are
   * not counted. */
  int (*need)(void *, const struct lls_request *, uint32_t tokens, uint32_t form,
              struct lls_need *);
  /* Where the transaction stands, and back to there: all that was reserved and preempted
   * since is undone. Marks begin at 0 in each plan. */
  uint32_t (*mark)(void *);
  int (*rollback)(void *, uint32_t mark);
  /* enum lls_reserve_result: room for `tokens` tokens beyond the cached ones, 1 to
   * lls_request_pending, and for what is missing of them; once per request and plan. A
   * request that is reserved must be run by the same plan, if by fewer tokens, or rolled
   * back. A waiting request first takes the prefix that others have of it: its tokens
   * count from there, and info shows them; the request's view does from the next step on.
   * `form` counts for the first tokens of a request alone: NONE is the cache's choice. */
  int (*reserve)(void *, const struct lls_request *, uint32_t tokens, uint32_t form,
                 uint32_t flags);
  /* At once, so that later reserves see its memory; the plan must name it too. */
  int (*preempt)(void *, const struct lls_request *, uint32_t mode);
  int (*info)(void *, const struct lls_request *, struct lls_cache_info *);
  /* Tokens of a waiting request that are cached already by others; 0 without sharing. A
   * plan runs the others, pending less these: the core cuts what is more. */
  uint32_t (*prefix)(void *, const struct lls_request *);
  /* How many there are, of which at most `max` were written. */
  int (*forms)(void *, struct lls_form_info *, size_t max);
  /* Time to copy so many units, by the cost service; enum lls_link. */
  int64_t (*transfer_ns)(void *, uint32_t units, uint32_t link);
  /* version 1 ends here */
};

/*
 * State that any cache manager can read: an exported blob of this version begins with
 * which sequence holds which units of the pool, so that after a reload another manager
 * can take them over. An import of another's blob takes the sequences it can hold as they
 * lie; those it leaves out are prefilled again.
 *
 * The section: a struct lls_holdings, then for each sequence a struct lls_holding and the
 * numbers of its K, V and X units, uint32_t each. Neither struct ever grows: another
 * layout has another version.
 */
#define LLS_STATE_HOLDINGS 0x80000001u

struct lls_holdings { /* it never grows */
  uint64_t bytes; /* of the section, this struct included; the manager's own follows */
  uint32_t block_tokens, device_units, n;
  uint32_t reserved;
};

struct lls_holding { /* in arrays: it never grows */
  uint64_t request;
  uint32_t slot, form, cached_tokens;
  uint32_t kv_count; /* K units, and as many V units */
  uint32_t x_count;
  uint32_t reserved;
};

/* A full block of a prefix that no request holds. */
struct lls_kept_block { /* in arrays: it never grows */
  uint32_t parent;      /* index, in the same array, of the block before it; LLS_NO_BLOCK:
                           it is the first of a prompt */
  uint32_t k_unit, v_unit;
  uint32_t reserved;
  struct lls_key key;
};

#define LLS_NO_BLOCK UINT32_MAX

/* Required unless marked optional. An optional pair is given together or not at all. */
struct lls_cache_vtable {
  uint32_t api_version;
  uint32_t size;

  /* [main] params and failures as for a scheduler (scheduler.h). */
  int (*create)(const struct lls_host *, const void *params,
                const struct lls_cache_geometry *, void **self);
  void (*destroy)(void *self);

  /* [step] Of a tier, and of tokens not yet cached in that form, as the service describes
   * them: any number of tokens, form NONE too. -ENOTSUP for what it doesn't have. */
  int (*capacity)(void *self, uint32_t tier, struct lls_capacity *out);
  int (*need)(void *self, const struct lls_request *, uint32_t tokens, uint32_t form,
              struct lls_need *out);
  int (*begin)(void *self);
  uint32_t (*mark)(void *self);               /* 0 after begin */
  int (*rollback)(void *self, uint32_t mark); /* the transaction stays open */
  int (*commit)(void *self);                  /* closes; can't fail for want of memory */
  /* enum lls_reserve_result: room for `tokens` beyond info's cached_tokens, and what is
   * missing of those back on the device by copies of this step. No step computes more
   * than engine->max_step_tokens, so room for that many is enough where the rest will do
   * with what leaves the window. What it took before it said LATER or NEVER the core
   * rolls back. */
  int (*reserve)(void *self, const struct lls_request *, uint32_t tokens, uint32_t form,
                 uint32_t flags);
  /* In the transaction. RECOMPUTE gives everything back; SWAP moves it to the host by
   * copies of this step, -ENOSPC if the host is full, -ENOTSUP without a host tier. */
  int (*preempt)(void *self, const struct lls_request *, uint32_t mode);
  /* At arrival; an error, with its sentence through host->fail, ends the request with
   * CAPACITY: it is not released. */
  int (*admit)(void *self, const struct lls_request *);
  /* At its end, in whatever state it is; lls_release_flags. */
  void (*release)(void *self, const struct lls_request *, uint32_t flags);
  int (*info)(void *self, const struct lls_request *, struct lls_cache_info *out);
  /* After commit. Lists stay valid until the request's computed or the next begin. */
  int (*table)(void *self, const struct lls_request *, struct lls_block_table *out);
  /* After commit: how many copies this step has, in order; valid until the next begin. */
  size_t (*copies)(void *self, const struct lls_copy **out);
  /* cached_tokens of the request have been computed. Once per request of the batch. */
  void (*computed)(void *self, const struct lls_request *, uint32_t cached_tokens);
  uint32_t (*preempt_modes)(void *self); /* 1u << enum lls_preempt_mode it can do */
  /* All its state as text, the same for the same state; -EIO if it contradicts itself.
   * Tests and llmserve-plugin-check call it at any time, also in a transaction. */
  int (*audit)(void *self, const struct lls_sink *);

  /* All that follow are optional. */

  /* [step] A waiting request takes the blocks others have of its prefix, in the
   * transaction; how many tokens: pure query with take = false. Always fewer than it has,
   * since its last token has to be computed: a manager that says more is asked for no
   * prefix any more. reserve follows for the rest. From then on info says that so many
   * tokens are cached and that it is on the device, and the request runs in this very
   * step or is rolled back. Asked again with take = true, which the core does not, what
   * it has taken stays taken and is the answer. The blocks are those in which the same
   * tokens follow the same tokens from the first one on: equal blocks behind others hold
   * other K and V. */
  uint32_t (*prefix)(void *self, const struct lls_request *, bool take);
  /* As in lls_cache_service. Without it all sequences keep KV form, and the engine sets
   * no memory aside for another. */
  int (*forms)(void *self, struct lls_form_info *out, size_t max);
  /* In the transaction: start moving a sequence to the host, and back, by ASYNC copies of
   * this step and the next ones; *transfer is the manager's number of it. info says
   * MOVING until it is there. offload, upload and on_transfer go together. */
  int (*offload)(void *self, const struct lls_request *, uint64_t *transfer);
  int (*upload)(void *self, const struct lls_request *, uint64_t *transfer);
  /* A step is over, and with it all its ASYNC copies. Once for each transfer that is
   * under way. */
  void (*on_transfer)(void *self, uint64_t transfer);
  /* As a scheduler's (scheduler.h). */
  void (*stats)(void *self, const struct lls_sink *);

  /* [main] Between two steps. New parameters without a new plugin; a failure leaves
   * everything as it was. */
  int (*reconfigure)(void *self, const void *params);
  /* A pair: what the manager knows that takes over in a reload; LLS_STATE_HOLDINGS. */
  int (*export_state)(void *self, struct lls_blob *out);
  int (*import_state)(void *self, const struct lls_blob *);

  /* It gives back what is before the window, so that a sequence may be longer than the
   * pool: the core then limits no request to the tokens that the pool holds. */
  bool gives_back;

  /* [main] A pair: prefixes that outlive the process ([cache] kept_prompts), asked for
   * when nothing is alive: at the end, and before the first request. What is most worth
   * keeping comes first, each block after its parent, at most `max` of them; how many.
   * Their units hold numbers of the pool's own element. */
  size_t (*kept)(void *self, struct lls_kept_block *out, size_t max);
  /* Takes the first of these, in the same order, as if requests had left them, and says
   * which units are theirs; how many it took. The core then fills these units. */
  size_t (*adopt)(void *self, struct lls_kept_block *, size_t n);

  /* It makes full blocks int8 where the geometry asks for it, each of one unit instead of
   * two: the core then says that so many more tokens fit. Without it [cache] int8 is of
   * no use, and the core says so. */
  bool makes_int8;
  /* version 1 ends here */
};

#ifdef __cplusplus
}
#endif

#endif
