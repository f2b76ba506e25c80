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
  int64_t arrival_ns; /* time since the workload's beginning; LLS_NEVER: see batch */
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
  const char *label; /* such as "r17": unique, and equal in both tools */
  const char *text;  /* the prompt in UTF-8, or NULL if the source has none */

  /* The source of its token ids; see lls_item_fill. */
  const int32_t *ids;     /* (prompt_tokens), or NULL */
  const uint64_t *hashes; /* (n_hashes) equal hashes mean equal blocks of ids */
  uint32_t n_hashes;
  uint32_t hash_tokens; /* tokens of each block */
};

struct lls_workload {
  struct lls_item *items; /* (n_items) by arrival, then index; items of batches last */
  uint32_t n_items;
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
 * equal hashes get equal ids; all others get their own.
 */
int lls_item_fill(const struct lls_workload *, const struct lls_item *, int32_t low,
                  int32_t high, int32_t *ids);

#define LLS_ITEM_TENANT_BYTES 24
/* Writes a tenant's name to out, and returns it: "" for 0, or "tenant-7"; equal in both
 * tools. */
const char *lls_item_tenant(uint32_t tenant, char out[LLS_ITEM_TENANT_BYTES]);

/* Writes the items in our own CSV format (formats.c). Read back, it has the same times,
 * lengths, classes and SLOs; texts, ids and batches are left out. */
int lls_workload_write(const struct lls_workload *, const char *path,
                       struct lls_error *err);
/* Writes LABEL,LENGTH lines for the predictor `fixed`, the papers' oracle. */
int lls_workload_write_lengths(const struct lls_workload *, const char *path,
                               struct lls_error *err);

#endif
