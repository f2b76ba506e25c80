/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workloads: the arrival of each request, and the true length of its answer.
 *
 * llmserve-sim and llmserve-bench build the same workload from the same options
 * (options.h) and hand out its items through the same issuer (issue.h), so the results
 * of the two tools can be compared.
 *
 *   source          lengths; optionally times, texts, ids   reader.h  csv.c  jsonl.c
 *     |                                                     chats.c  lengths.h
 *     |                                                     synthetic.c
 *   selection       filters, sampling, how many             workload.c
 *     |
 *   arrivals        trace times, Poisson, Gamma, batches    arrivals.c
 *     |
 *   classes, SLOs   shares, groups, scales, tenants         slo.c
 *     |
 *   items, sorted by arrival
 *
 * Everything random comes from random.h, whose values depend on (seed, stream, index)
 * only: the same options give the same bytes, and a change of a workload's arrivals
 * does not change its lengths.
 */
#ifndef LLS_WORKLOAD_H
#define LLS_WORKLOAD_H

#include <llmserve/types.h>

#include "core/base/error.h"
#include "tools/workload/options.h"

/* A request to send. It and everything that it points to belongs to its workload. */
struct lls_item {
  /* time since the workload's beginning; LLS_NEVER: see batch and lls_item_follows */
  int64_t arrival_ns;
  /* 0: sent at its arrival; else the number of its batch, from 1, which is sent when
   * the previous batch has ended */
  uint32_t batch;
  uint32_t index;          /* index in the workload */
  uint32_t prompt_tokens;  /* 1.. */
  uint32_t output_tokens;  /* 1.., the true length: never visible to a scheduler */
  uint32_t max_new_tokens; /* the client's limit, visible to schedulers */
  uint32_t request_class;  /* enum lls_class */
  int32_t priority;
  uint32_t tenant; /* 0: none */
  struct lls_slo slo;
  double acceptance; /* of a guess of its answer's tokens (llmserve-sim) */
  bool has_acceptance;
  const char *label; /* such as "r17": unique, and equal in both tools */
  const char *text;  /* the prompt in UTF-8, or NULL if the source has none */

  /* The source of its token ids; see lls_item_fill. */
  const int32_t *ids;     /* (prompt_tokens), or NULL */
  const uint64_t *hashes; /* (n_hashes) equal hashes mean equal blocks of ids */
  uint32_t n_hashes;
  uint32_t hash_tokens; /* tokens of each block */

  /* The conversation of which it is a turn, and how the turns follow each other; see
   * sessions.h. */
  const char *session;     /* its name, equal in both tools; NULL: of none */
  uint32_t session_number; /* 1.. in order of appearance; 0: of none */
  uint32_t turn;           /* 0.. */
  uint32_t previous, next; /* index of the turn before and after it, or LLS_NO_ITEM */
  uint32_t growth;         /* enum lls_growth; for readers */
  uint32_t kept_tokens;    /* its first tokens are these of the turn before */
  const char *tool;        /* the tool that the client runs after it; NULL: none */
  /* LLS_NEVER: unknown, or none follows; else the next turn is sent so long after this
   * one has ended */
  int64_t wait_ns;
  int64_t delay_ns; /* for readers: wait_ns of the turn before, or LLS_NEVER */
};

#define LLS_NO_ITEM UINT32_MAX

/* Is the item sent when the turn before it has ended, and its wait is over? */
static inline bool lls_item_follows(const struct lls_item *item)
{
  return item->batch == 0 && item->arrival_ns == LLS_NEVER;
}

struct lls_workload {
  /* (n_items) by arrival, then index; then turns that follow others; items of batches
   * last */
  struct lls_item *items;
  uint32_t n_items;
  uint32_t n_sessions;     /* session numbers are 1..n_sessions */
  uint32_t n_tenants;      /* tenants are 1..n_tenants; 0: no tenants */
  int64_t last_arrival_ns; /* arrival of the last item that is sent by its time */
  uint64_t seed;
  const char *source; /* the file or dataset that it was made from, for reports */
  struct lls_arena *arena;
};

/* Does the workload have random tokens as prompts? A model's answers to these are
 * meaningless. */
bool lls_workload_is_random(const struct lls_workload_options *);
/* Builds the workload of the options; all files are read before any request is sent. */
int lls_workload_build(const struct lls_workload_options *, struct lls_workload *out,
                       struct lls_error *err);
void lls_workload_free(struct lls_workload *);

/*
 * Fills the item's prompt (prompt_tokens) with ids in low..high-1: its own ids if it
 * has them (-ERANGE if one is not below high), else pseudo-random ones. Blocks with
 * equal hashes get equal ids; the kept tokens of a turn are the prompt of the turn
 * before, and ids in place of its answer; all others get their own.
 */
int lls_item_fill(const struct lls_workload *, const struct lls_item *, int32_t low,
                  int32_t high, int32_t *ids);

#define LLS_ITEM_TENANT_BYTES 24
/* Writes a tenant's name to out, and returns it: "" for 0, or "tenant-7"; equal in both
 * tools. */
const char *lls_item_tenant(uint32_t tenant, char out[LLS_ITEM_TENANT_BYTES]);

/* Writes the items in our own CSV format (formats.c). Read back, it has the same times,
 * lengths, classes, SLOs and sessions; texts, ids and batches are left out. */
int lls_workload_write(const struct lls_workload *, const char *path,
                       struct lls_error *err);
/* Writes LABEL,LENGTH lines for the predictor `fixed`, the papers' oracle. */
int lls_workload_write_lengths(const struct lls_workload *, const char *path,
                               struct lls_error *err);

#endif
