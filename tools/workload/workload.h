/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workloads: which requests come when, and how long their answers really are.
 *
 * llmserve-sim and llmserve-bench build the same workload from the same options
 * (options.h) and hand out its items through the same issuer (issue.h), so a result of
 * one can be laid beside a result of the other.
 *
 *   source          lengths, maybe times, texts or ids      reader.h  csv.c jsonl.c
 * chat.c |                                                     lengths.h synthetic.c
 *   selection       filters, sampling, how many             build.c
 *     |
 *   arrivals        trace times, Poisson, Gamma, batches    arrivals.c
 *     |
 *   classes, SLOs   shares, groups, scales, tenants         slo.c
 *     |
 *   items, sorted by arrival
 *
 * Everything random comes from random.h, whose value depends on (seed, stream, index) and
 * nothing else: the same options give the same bytes, and changing the arrivals of a
 * workload leaves its lengths as they were.
 */
#ifndef LLS_WORKLOAD_H
#define LLS_WORKLOAD_H

#include <llmserve/types.h>

#include "core/base/error.h"
#include "tools/workload/options.h"

/* One request to come. Belongs to its workload, as all it points to. */
struct lls_item {
  int64_t arrival_ns;      /* after the workload's beginning; LLS_NEVER: see batch */
  uint32_t batch;          /* 0: arrives by itself; else its batch, 1 the first, which is
                              sent when the batch before has ended */
  uint32_t index;          /* of the item in the workload */
  uint32_t prompt_tokens;  /* 1.. */
  uint32_t output_tokens;  /* 1.., the true length: never shown to a scheduler */
  uint32_t max_new_tokens; /* what the client asks for; schedulers see it */
  uint32_t request_class;  /* enum lls_class */
  int32_t priority;
  uint32_t tenant; /* 0: none */
  struct lls_slo slo;
  const char *label; /* "r17": unique, and the same in both tools */
  const char *text;  /* the prompt, UTF-8, or NULL where the source has none */

  /* Where its token ids come from; see lls_item_fill. */
  const int32_t *ids;     /* (prompt_tokens), or NULL */
  const uint64_t *hashes; /* (n_hashes) equal ones stand for equal blocks of ids */
  uint32_t n_hashes;
  uint32_t hash_tokens; /* of one block */
};

struct lls_workload {
  struct lls_item *items; /* (n_items) by arrival, then index; those of batches last */
  uint32_t n_items;
  uint32_t n_tenants;      /* tenants are 1..n_tenants; 0: there are none */
  int64_t last_arrival_ns; /* of the items that arrive by themselves */
  uint64_t seed;
  const char *source; /* what it was read from or made of, for reports */
  struct lls_arena *arena;
};

/* Its prompts are random tokens, after which a model may say anything. */
bool lls_workload_is_random(const struct lls_workload_options *);
/* Builds what the options say; every file is read before anything is sent. */
int lls_workload_build(const struct lls_workload_options *, struct lls_workload *out,
                       struct lls_error *err);
void lls_workload_free(struct lls_workload *);

/*
 * The item's prompt (prompt_tokens) as ids in low..high-1: its own ids if it has them
 * (then -ERANGE if one is not below high), else pseudo-random ones. Blocks of equal
 * hashes get equal ids, everything else its own.
 */
int lls_item_fill(const struct lls_workload *, const struct lls_item *, int32_t low,
                  int32_t high, int32_t *ids);

#define LLS_ITEM_TENANT_BYTES 24
/* The name of a tenant, written to out: "" for 0, or "tenant-7"; the same in
 * both tools. */
const char *lls_item_tenant(uint32_t tenant, char out[LLS_ITEM_TENANT_BYTES]);

/* Writes the items in our own CSV (formats.c), which reads back with the same times,
 * lengths, classes and SLOs; texts, ids and batches are left out. */
int lls_workload_write(const struct lls_workload *, const char *path,
                       struct lls_error *err);
/* LABEL,LENGTH lines: what the predictor `fixed` reads, the papers' oracle. */
int lls_workload_write_lengths(const struct lls_workload *, const char *path,
                               struct lls_error *err);

#endif
