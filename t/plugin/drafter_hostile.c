/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A drafter that guesses wrong in all ways: what followed an earlier occurrence of the
 * last token, now and then with a wrong token in it; any tokens; ids that the model does
 * not have; odds that are lies, or no odds at all. It also checks the calls that it gets.
 */
#include "t/plugin/contract.h"

#include <llmserve/drafter.h>

#include <math.h>
#include <stdlib.h>

struct params {
  int64_t seed;
};

struct hostile {
  struct contract contract;
  uint32_t max_drafts;
  uint64_t n_alive;
};

static void destroy(void *self)
{
  free(self);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  const struct params *p = params;
  struct hostile *h = calloc(1, sizeof *h);
  if (h == NULL)
    return -ENOMEM;
  h->contract.host = host;
  h->contract.random_state = (uint64_t)p->seed;
  h->max_drafts = host->engine->max_drafts;
  contract_host(&h->contract, host);
  *self = h;
  return 0;
}

static uint32_t flags(void *self)
{
  (void)self;
  return LLS_DRAFTER_DRAFTS;
}

static void on_arrival(void *self, const struct lls_request *r)
{
  struct hostile *h = self;
  h->n_alive++;
  CONTRACT(&h->contract, r->id != 0, "a request without an id arrives");
}

static void on_finish(void *self, const struct lls_request *r, uint32_t reason)
{
  struct hostile *h = self;
  (void)r;
  (void)reason;
  CONTRACT(&h->contract, h->n_alive > 0, "a request ends which did not arrive");
  h->n_alive -= h->n_alive > 0;
}

/* Copies what followed the last token where it occurred before. */
static uint32_t copy(const struct lls_request *r, uint32_t max, int32_t *out)
{
  uint32_t last = lls_request_length(r) - 1, at = last, n = 0;
  while (at > 0 && r->tokens[at - 1] != r->tokens[last])
    at--;
  for (; at > 0 && n < max && at + n <= last; n++)
    out[n] = r->tokens[at + n];
  return n;
}

static float lie(struct contract *c)
{
  static const float odds[] = {1, 1, 1, 0.5f, 0, -3, 1e30f, NAN, INFINITY};
  return odds[contract_between(c, 0, sizeof odds / sizeof *odds - 1)];
}

static int draft(void *self, const struct lls_request *r, struct lls_draft *out)
{
  struct hostile *h = self;
  struct contract *c = &h->contract;
  CONTRACT(c, out->max > 0 && out->max <= h->max_drafts, "room for %u guesses", out->max);
  CONTRACT(c, lls_request_decodes(r), "guesses of a prompt");
  if (contract_chance(c, 5))
    return -EIO;
  uint32_t n = contract_chance(c, 80) ? copy(r, out->max, out->tokens) : 0;
  for (uint32_t i = 0; i < out->max; i++) {
    if (i >= n || contract_chance(c, 5))
      out->tokens[i] = (int32_t)contract_between(c, 0, 60);
    out->odds[i] = lie(c);
  }
  if (contract_chance(c, 1))
    out->tokens[out->max / 2] = contract_chance(c, 50) ? -7 : INT32_MAX;
  return (int)contract_between(c, 0, out->max);
}

static void verified(void *self, const struct lls_request *r, uint32_t drafted,
                     uint32_t accepted)
{
  struct hostile *h = self;
  (void)r;
  CONTRACT(&h->contract, drafted > 0 && drafted <= h->max_drafts && accepted <= drafted,
           "%u of %u guesses accepted", accepted, drafted);
}

static const struct lls_param parameters[] = {
    LLS_PARAM_INT(struct params, seed, "1", 1, 1e9, "", "of all choices"),
};

static const struct lls_drafter_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .flags = flags,
    .draft = draft,
    .on_arrival = on_arrival,
    .verified = verified,
    .on_finish = on_finish,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_DRAFTER,
    .id = "hostile",
    .version = "1.0",
    .description = "guesses wrong in all ways",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
