/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A predictor that gives random legal answers: absurd lengths, "cannot tell", or late
 * answers, even during a call about another request or after the request has ended. It
 * also checks the calls that it gets.
 */
#include "t/plugin/contract.h"

#include <llmserve/predictor.h>

#include <stdlib.h>

struct params {
  int64_t seed;
};

struct hostile {
  struct contract contract;
  uint64_t tickets[16]; /* promised predictions, answered in some later call */
  uint32_t n_tickets;
  /* (n_asked) requests it was asked about whose end was not reported yet */
  uint64_t *asked;
  uint32_t n_asked;
};

static void destroy(void *self)
{
  free(((struct hostile *)self)->asked);
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
  contract_host(&h->contract, host);
  h->asked = calloc(host->engine->max_requests, sizeof *h->asked);
  if (h->asked == NULL) {
    destroy(h);
    return -ENOMEM;
  }
  *self = h;
  return 0;
}

static uint32_t flags(void *self)
{
  (void)self;
  return LLS_PREDICTOR_PREDICTS;
}

static struct lls_prediction make_up(struct hostile *h)
{
  struct contract *c = &h->contract;
  uint32_t length = contract_chance(c, 10)   ? UINT32_MAX
                    : contract_chance(c, 50) ? contract_between(c, 1, 8)
                                             : contract_between(c, 1, 5000);
  return (struct lls_prediction){
      .length = length,
      .low = contract_between(c, 1, length),
      .high = contract_between(c, length, UINT32_MAX),
      .confidence = (float)contract_between(c, 0, 100) / 100,
      .source = contract_between(c, LLS_PREDICTED_PRIOR, LLS_PREDICTED_ORACLE),
      .made_ns = c->host->now(c->host->context),
  };
}

/* Answers an old promise, perhaps too late, which the host must accept. */
static void answer_late(struct hostile *h)
{
  const struct lls_host *host = h->contract.host;
  if (h->n_tickets == 0 || contract_chance(&h->contract, 50))
    return;
  uint32_t i = contract_between(&h->contract, 0, h->n_tickets - 1);
  struct lls_prediction p = make_up(h);
  int rc = host->predicted(host->context, h->tickets[i], &p);
  CONTRACT(&h->contract, rc <= 0, "predicted() returned %d", rc);
  h->tickets[i] = h->tickets[--h->n_tickets];
}

static void check_prompt(struct hostile *h, const struct lls_prompt *p)
{
  struct contract *c = &h->contract;
  CONTRACT(c, p->size >= sizeof *p, "a prompt of %u bytes", p->size);
  CONTRACT(c, p->n_tokens > 0 && p->tokens != NULL, "a prompt without tokens");
  CONTRACT(c, p->max_new_tokens > 0, "a request that may say nothing");
  CONTRACT(c, p->label != NULL, "a prompt whose label is NULL");
}

static bool forget(struct hostile *h, uint64_t request)
{
  for (uint32_t i = 0; i < h->n_asked; i++)
    if (h->asked[i] == request) {
      h->asked[i] = h->asked[--h->n_asked];
      return true;
    }
  return false;
}

/* Ends are reported, so no more requests are open than can be active. */
static void note_asked(struct hostile *h, uint64_t ticket, const struct lls_prompt *p)
{
  struct contract *c = &h->contract;
  CONTRACT(c, p->id == ticket, "a prompt of request %llu under the ticket %llu",
           (unsigned long long)p->id, (unsigned long long)ticket);
  forget(h, ticket);
  bool room = h->n_asked < c->host->engine->max_requests;
  CONTRACT(c, room, "request %llu: ends of others were not told",
           (unsigned long long)ticket);
  if (room)
    h->asked[h->n_asked++] = ticket;
}

static int predict(void *self, uint64_t ticket, const struct lls_prompt *prompt,
                   struct lls_prediction *out)
{
  struct hostile *h = self;
  check_prompt(h, prompt);
  note_asked(h, ticket, prompt);
  answer_late(h);
  if (contract_chance(&h->contract, 30))
    return -ENOENT;
  if (h->n_tickets < 16 && contract_chance(&h->contract, 40)) {
    h->tickets[h->n_tickets++] = ticket;
    return -EINPROGRESS;
  }
  *out = make_up(h);
  return 0;
}

static int overrun(void *self, const struct lls_request *r, struct lls_prediction *out)
{
  struct hostile *h = self;
  CONTRACT(&h->contract, r->state != LLS_FINISHED, "overrun of a finished request");
  *out = make_up(h);
  return contract_chance(&h->contract, 50) ? 0 : -ENOENT;
}

static void observe(void *self, const struct lls_prompt *prompt, uint32_t length)
{
  struct hostile *h = self;
  check_prompt(h, prompt);
  CONTRACT(&h->contract, length > 0 && length <= prompt->max_new_tokens,
           "an answer of %u tokens where %u are allowed", length, prompt->max_new_tokens);
  forget(h, prompt->id);
  answer_late(h);
}

static void on_end(void *self, const struct lls_prompt *prompt, uint32_t length,
                   uint32_t reason)
{
  struct hostile *h = self;
  check_prompt(h, prompt);
  CONTRACT(&h->contract, length <= prompt->max_new_tokens,
           "an answer of %u tokens where %u are allowed", length, prompt->max_new_tokens);
  CONTRACT(&h->contract,
           reason != LLS_FINISH_STOP && reason != LLS_FINISH_LENGTH &&
               reason <= LLS_FINISH_ERROR,
           "on_end for reason %u", reason);
  forget(h, prompt->id);
}

static const struct lls_param parameters[] = {
    LLS_PARAM_INT(struct params, seed, "1", 0, 1e15, "", "of its random choices"),
};

static const struct lls_predictor_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .flags = flags,
    .predict = predict,
    .overrun = overrun,
    .observe = observe,
    .on_end = on_end,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_PREDICTOR,
    .id = "hostile",
    .version = "1.0",
    .description = "test fixture: answers anything it may, checks the host",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
