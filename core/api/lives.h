/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last few hundred requests that ended, with their phases: what GET /admin/events
 * draws of the past. Written by account.c when a request ends, 300 bytes copied; who
 * looks later still finds them.
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
  bool judged;              /* it had deadlines */
  enum lls_verdict verdict; /* then */
  int64_t arrival_ns, ended_ns;
  struct lls_life life;
};

struct lls_lives {
  uint64_t n; /* that ended so far; the last ones are kept, each at its number */
  struct lls_life_record ring[LLS_LIVES_KEPT];
};

/* The place of the next one, to be filled in. */
struct lls_life_record *lls_lives_next(struct lls_lives *);

/* [phase, ms after the first, phase, ms, ...] */
json_t *lls_life_json(const struct lls_life *);

/*
 * Those from number *from on, at most `most`, oldest first, as rows (doc/api.md); *from
 * is then the number of the next one. now_ns is when unix_ms was, by the clock of the
 * records.
 */
json_t *lls_lives_json(const struct lls_lives *, uint64_t *from, uint32_t most,
                       int64_t now_ns, int64_t unix_ms);

#endif
