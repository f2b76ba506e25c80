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
 *   (scheduler.plan) may reserve, preempt, mark and roll back through lls_cache_service
 *   preempt, reserve the core, for what the plan names and the scheduler has not yet done
 *   commit           or rollback(0) if the plan was refused: the state before begin,
 *                    byte for byte as audit shows it (K4)
 *   copies, table    read out for the engine
 *   computed         after the forward pass: the tokens are in their slots now
 *
 * Outside the transaction: admit at arrival, release when a request ends.
 *
 * The manager never removes a request on its own (abi-needs 10.2): reserve with
 * MAY_DISPLACE may displace slots of others, removal is the scheduler's PREEMPT.
 */
#ifndef LLMSERVE_CACHE_H
#define LLMSERVE_CACHE_H

#include <llmserve/host.h>
#include <llmserve/plugin.h>
#include <llmserve/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum lls_int8 { /* [cache] int8; K12 */
                LLS_INT8_OFF,
                LLS_INT8_SWAPPED, /* on the host */
                LLS_INT8_ALL,     /* on the device too */
};

struct lls_cache_geometry { /* K1 */
  uint32_t size;
  uint32_t layers, kv_heads, head_dim, hidden;
  uint32_t block_tokens;  /* slots of a unit block */
  uint32_t element_bytes; /* of the cache's own type */
  uint64_t unit_bytes;
  uint32_t device_units, host_units;
  uint32_t x_units; /* units of one block of X; 0 = the engine has no hidden form */
  uint32_t int8;    /* enum lls_int8: where INT8 blocks may lie */
  /* version 1 ends here */
};

enum lls_tier { LLS_TIER_DEVICE, LLS_TIER_HOST, LLS_TIER_REGION /* + region number */ };

struct lls_capacity { /* K2 */
  uint32_t size;
  uint32_t total_units;
  uint32_t free_units;     /* can be reserved now, counting what is only kept for reuse */
  uint32_t reserved_units; /* by the open transaction */
  uint64_t unit_bytes;
  /* version 1 ends here */
};

struct lls_need { /* K3 an estimate; the truth is reserve */
  uint32_t size;
  uint32_t new_units;     /* to be taken for tokens not yet cached */
  uint32_t restore_units; /* to be taken to bring back what is on the host */
  /* version 1 ends here */
};

struct lls_cache_info { /* K7 */
  uint32_t size;
  uint32_t residency;    /* enum lls_residency */
  uint32_t form;         /* enum lls_form */
  uint32_t device_units; /* held, shared ones included */
  uint32_t owned_units;  /* of those, freed if this request alone lets go */
  uint32_t host_units;
  uint32_t cached_tokens;  /* computed, wherever they are */
  uint32_t missing_tokens; /* of those, not on the device */
  uint32_t shared_tokens;
  uint32_t free_slots; /* of its blocks, per list: tokens that take no new unit */
  /* version 1 ends here */
};

struct lls_form_info { /* K10 */
  uint32_t form;       /* enum lls_form */
  double ratio;        /* bytes over those of KV form (eta for HIDDEN) */
  int64_t restore_ns;  /* extra time per token and step, LLS_NEVER if unknown */
  const char *why_not; /* NULL if offered, else the reason it is off */
};

/* K5; negative values are errors */
enum lls_reserve_result {
  LLS_RESERVE_OK = 0,
  LLS_RESERVE_LATER = 1, /* not now: memory or a transfer in flight */
  LLS_RESERVE_NEVER = 2, /* can't fit even alone */
};

enum lls_reserve_flags { LLS_MAY_DISPLACE = 1 };
enum lls_release_flags { LLS_KEEP_HOST = 1, LLS_KEEP_PREFIX = 2 };

/*
 * What a scheduler may ask of the cache inside plan [step]: the manager's own functions
 * behind checks of the core. Every function takes `context` first.
 */
struct lls_cache_service {
  uint32_t size;
  uint32_t block_tokens;
  void *context;
  int (*capacity)(void *, uint32_t tier, struct lls_capacity *); /* K2 */
  int (*need)(void *, const struct lls_request *, uint32_t tokens, uint32_t form,
              struct lls_need *);         /* K3 */
  uint32_t (*mark)(void *);               /* K4 */
  int (*rollback)(void *, uint32_t mark); /* K4 */
  /* K5 Room for `tokens` tokens beyond the cached ones, and for what is missing of them;
   * asking again for room that is there changes nothing. A request that is reserved must
   * be run by the same plan, if by fewer tokens, or rolled back. A waiting request first
   * takes the prefix that others have of it: its tokens count from there. */
  int (*reserve)(void *, const struct lls_request *, uint32_t tokens, uint32_t form,
                 uint32_t flags);
  /* PL3 now, so that later reserves see its memory; the plan must name it too. */
  int (*preempt)(void *, const struct lls_request *, uint32_t mode);
  int (*info)(void *, const struct lls_request *, struct lls_cache_info *); /* K7 */
  /* Tokens of a waiting request that are cached already by others; 0 without sharing. A
   * plan runs the others, pending less these: the core cuts what is more. */
  uint32_t (*prefix)(void *, const struct lls_request *);
  int (*forms)(void *, struct lls_form_info *, size_t max);             /* K10 */
  int (*victims)(void *, uint64_t *requests, size_t max);               /* K15 */
  int (*peers)(void *, uint32_t block, uint64_t *requests, size_t max); /* K15 */
  uint32_t (*headroom)(void *);                                         /* K16 */
  int64_t (*transfer_ns)(void *, uint32_t units, uint32_t link);        /* K17 */
  /* version 1 ends here */
};

/*
 * State that any cache manager can read: an exported blob of this version begins with who
 * holds which units of the pool, so that after a reload another manager can take them
 * over. An import of another's blob takes the sequences it can hold as they lie; those it
 * leaves out are prefilled again.
 *
 * The section: a struct lls_holdings, then for each sequence a struct lls_holding and the
 * numbers of its K, V and X units, uint32_t each.
 */
#define LLS_STATE_HOLDINGS 0x80000001u

struct lls_holdings {
  uint64_t bytes; /* of the section, this struct included; the manager's own follows */
  uint32_t block_tokens, device_units, n;
  uint32_t reserved;
};

struct lls_holding {
  uint64_t request;
  uint32_t slot, form, cached_tokens;
  uint32_t kv_count; /* K units, and as many V units */
  uint32_t x_count;
  uint32_t reserved;
};

/* Required unless marked optional. An optional pair is given together or not at all. */
struct lls_cache_vtable {
  uint32_t api_version;
  uint32_t size;

  /* K1 [main] */
  int (*create)(const struct lls_host *, const void *params,
                const struct lls_cache_geometry *, void **self);
  void (*destroy)(void *self); /* [main] */

  /* [step] */
  int (*capacity)(void *self, uint32_t tier, struct lls_capacity *out);
  int (*need)(void *self, const struct lls_request *, uint32_t tokens, uint32_t form,
              struct lls_need *out);
  int (*begin)(void *self);
  uint32_t (*mark)(void *self);
  int (*rollback)(void *self,
                  uint32_t mark); /* to 0: everything since begin; stays open */
  int (*commit)(void *self);      /* closes; can't fail for want of memory */
  /* For `tokens` beyond info's cached_tokens; enum lls_reserve_result or -errno. */
  int (*reserve)(void *self, const struct lls_request *, uint32_t tokens, uint32_t form,
                 uint32_t flags);
  /* In the transaction. RECOMPUTE gives everything back; SWAP moves it to the host by
   * copies of this step, -ENOSPC if the host is full, -ENOTSUP without a host tier. */
  int (*preempt)(void *self, const struct lls_request *, uint32_t mode);
  int (*admit)(void *self, const struct lls_request *); /* at arrival */
  void (*release)(void *self, const struct lls_request *,
                  uint32_t flags); /* K6 at its end */
  int (*info)(void *self, const struct lls_request *, struct lls_cache_info *out);
  /* K13 After commit. Lists stay valid until the request's computed or the next begin. */
  int (*table)(void *self, const struct lls_request *, struct lls_block_table *out);
  /* K14 After commit: all copies of this step, in order; valid until the next begin. */
  size_t (*copies)(void *self, const struct lls_copy **out);
  /* cached_tokens of the request have been computed. Once per request of the batch. */
  void (*computed)(void *self, const struct lls_request *, uint32_t cached_tokens);
  uint32_t (*preempt_modes)(void *self); /* 1u << enum lls_preempt_mode it can do */
  int (*audit)(void *self, const struct lls_sink *); /* K19 full state; 0 or -EIO */

  /* optional [step] */
  /* A waiting request takes the blocks others have of its prefix, in the transaction; how
   * many tokens, fewer than it has: pure query with take = false. What it has taken
   * already stays taken. */
  uint32_t (*prefix)(void *self, const struct lls_request *, bool take);
  int (*forms)(void *self, struct lls_form_info *out, size_t max);
  int (*restore)(void *self, const struct lls_request *); /* K9 in the transaction */
  int (*can_switch)(void *self, const struct lls_request *, uint32_t form);     /* K11 */
  int (*set_element)(void *self, const struct lls_request *, uint32_t element); /* K11 */
  double (*bytes_per_token)(void *self, uint32_t element);                      /* K12 */
  int (*victims)(void *self, uint64_t *requests, size_t max);                   /* K15 */
  int (*peers)(void *self, uint32_t block, uint64_t *requests, size_t max);     /* K15 */
  uint32_t (*headroom)(void *self);                                             /* K16 */
  int64_t (*transfer_ns)(void *self, uint32_t units, uint32_t link);            /* K17 */
  int (*set_quota)(void *self, uint32_t region, uint32_t units);                /* K18 */
  int (*offload)(void *self, const struct lls_request *, uint64_t *transfer);   /* K8 */
  int (*upload)(void *self, const struct lls_request *,
                uint64_t *transfer); /* K8, pair */
  int (*migrate)(void *self, const struct lls_request *, uint32_t instance,
                 uint64_t *transfer);                                  /* K8 */
  void (*on_transfer)(void *self, uint64_t transfer, uint32_t status); /* with K8 */
  void (*stats)(void *self, const struct lls_sink *);                  /* K20 */
  int (*reconfigure)(void *self, const void *params); /* [main], between steps */
  int (*export_state)(void *self, struct lls_blob *out);
  int (*import_state)(void *self, const struct lls_blob *); /* pair */
  const void *(*extension)(void *self, const char *id);
  /* version 1 ends here */
};

#ifdef __cplusplus
}
#endif

#endif
