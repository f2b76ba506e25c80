/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of the last few hundred finished requests with their phases, from which GET
 * /admin/events shows the past to clients that connect later. account.c copies 300
 * bytes into it when a request ends.
 */
#ifndef LLS_API_LIVES_H
#define LLS_API_LIVES_H

#include <jansson.h>

#include "core/api/tenants.h"
#include "core/instance/life.h"

#define LLS_LIVES_KEPT      512
#define LLS_LIFE_LABEL_MAX  40
#define LLS_LIFE_TENANT_MAX 24

struct lls_life_record {
  char label[LLS_LIFE_LABEL_MAX]; /* the client's request id, cut */
  char tenant[LLS_LIFE_TENANT_MAX];
  uint64_t request;
  uint32_t request_class, prompt_tokens, generated_tokens, shared_tokens, preemptions;
  const char *outcome;      /* static */
  bool judged;              /* the request had deadlines */
  enum lls_verdict verdict; /* valid if judged */
  int64_t arrival_ns, ended_ns;
  struct lls_life life;
};

struct lls_lives {
  uint64_t n; /* requests ended so far; request number i is at ring[i % LLS_LIVES_KEPT] */
  struct lls_life_record ring[LLS_LIVES_KEPT];
};

/* Returns the next record of the ring; the caller fills it in. */
struct lls_life_record *lls_lives_next(struct lls_lives *);

/* Returns [phase, ms after the first phase began, phase, ms, ...]. */
json_t *lls_life_json(const struct lls_life *);

/*
 * Returns the newest records from number *from on, at most `most`, oldest first, as rows
 * (doc/api.md), and advances *from to the number of the next record. now_ns and unix_ms
 * are the same moment, on the records' clock and in Unix time.
 */
json_t *lls_lives_json(const struct lls_lives *, uint64_t *from, uint32_t most,
                       int64_t now_ns, int64_t unix_ms);

#endif
