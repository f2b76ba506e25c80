/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of jobs in the order in which they last ran, linked by slot. Jobs that ran in a
 * step move to its end, so the oldest is always the first. A search of all 1,600 live
 * jobs for the oldest took as long as the rest of a plan.
 *
 * A job that arrives during a step is older than those that ran in it, so its place is
 * searched from the end.
 */
#include "alise.h"

#include <errno.h>
#include <stdlib.h>

#include <llmserve/policy/check.h>

#define NIL UINT32_MAX

struct alise_age {
  const struct lls_request *request; /* NULL: not in the list */
  int64_t ran_ns;
  uint32_t older, newer;
};

int alise_ages_init(struct alise_ages *a, uint32_t max_requests)
{
  a->oldest = a->newest = NIL;
  a->all = calloc(max_requests, sizeof *a->all);
  return a->all != NULL ? 0 : -ENOMEM;
}

void alise_ages_free(struct alise_ages *a)
{
  free(a->all);
}

void alise_ages_remove(struct alise_ages *a, const struct lls_request *r)
{
  struct alise_age *age = &a->all[r->slot];
  if (age->request == NULL)
    return;
  LLS_POL_CHECK(a->oldest != NIL && a->newest != NIL);
  LLS_POL_CHECK(age->older == NIL || a->all[age->older].ran_ns <= age->ran_ns);
  LLS_POL_CHECK(age->newer == NIL || a->all[age->newer].ran_ns >= age->ran_ns);
  *(age->older == NIL ? &a->oldest : &a->all[age->older].newer) = age->newer;
  *(age->newer == NIL ? &a->newest : &a->all[age->newer].older) = age->older;
  age->request = NULL;
}

void alise_ages_set(struct alise_ages *a, const struct lls_request *r, int64_t ran_ns)
{
  alise_ages_remove(a, r);
  uint32_t older = a->newest, newer = NIL;
  while (older != NIL && a->all[older].ran_ns > ran_ns) {
    newer = older;
    older = a->all[older].older;
  }
  a->all[r->slot] = (struct alise_age){r, ran_ns, older, newer};
  *(older == NIL ? &a->oldest : &a->all[older].newer) = r->slot;
  *(newer == NIL ? &a->newest : &a->all[newer].older) = r->slot;
}

const struct lls_request *alise_ages_oldest(const struct alise_ages *a, int64_t *ran_ns)
{
  if (a->oldest == NIL)
    return NULL;
  *ran_ns = a->all[a->oldest].ran_ns;
  return a->all[a->oldest].request;
}
