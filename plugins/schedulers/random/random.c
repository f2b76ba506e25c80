/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vLLM's scheduling with the waiting requests taken in random order, a fresh permutation
 * in every step: the control that shows what an order is worth.
 */
#include <llmserve/policy/prefill_first.h>
#include <llmserve/policy/scheduler.h>

#include <errno.h>
#include <stdlib.h>

enum on_misfit { STOP, SKIP };

struct params {
  /* first member, since the shared parameter table has offsets from here */
  struct lls_pol_prefill_first_params batch;
  int64_t stream, on_misfit;
};

struct chance {
  struct lls_pol_scheduler base;
  struct params params;
  uint32_t *left; /* (max_requests) places in the view that the current walk has not drawn
                     yet */
};

struct walk {
  const struct chance *self;
  const struct lls_step_view *view;
  uint32_t n; /* places left */
};

/* Draws the next request: one step of Fisher and Yates' shuffle, so that a plan pays
 * only for the requests it draws. */
static const struct lls_request *draw(void *context)
{
  struct walk *w = context;
  const struct lls_host *host = w->self->base.host;
  if (w->n == 0)
    return NULL;
  uint32_t *left = w->self->left;
  uint64_t random = host->random(host->context, (uint32_t)w->self->params.stream);
  uint32_t at = (uint32_t)(random % w->n), drawn = left[at];
  left[at] = left[--w->n];
  return w->view->waiting[drawn];
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  const struct chance *c = self;
  struct walk walk = {.self = c, .view = view, .n = view->n_waiting};
  for (uint32_t i = 0; i < walk.n; i++)
    c->left[i] = i;
  const struct lls_pol_admission admission = {
      .context = &walk,
      .next = draw,
      .skip_misfits = c->params.on_misfit == SKIP,
  };
  lls_pol_prefill_first_plan(c->base.host, &c->params.batch, &admission, view, out);
  return 0;
}

static void caps(void *self, struct lls_scheduler_caps *out)
{
  lls_pol_step_preferences(out, ((const struct chance *)self)->params.batch.preempt);
}

static const struct lls_param parameters[] = {
    LLS_POL_PREFILL_FIRST_PARAMETERS(struct lls_pol_prefill_first_params),
    LLS_PARAM_INT(struct params, stream, "0", 0, 15, "",
                  "which of the instance's streams of random numbers it draws from",
                  .flags = LLS_PARAM_RELOADABLE | LLS_PARAM_EXPERIMENTAL),
    LLS_PARAM_CHOICE(struct params, on_misfit, "stop", "stop|skip",
                     "whether one that does not fit ends the walk or is passed over",
                     .flags = LLS_PARAM_RELOADABLE),
};

static void destroy(void *self)
{
  free(((struct chance *)self)->left);
  free(self);
}

static int create(const struct lls_host *host, const void *params, void **self)
{
  struct chance *c = LLS_POL_SCHEDULER_NEW(struct chance, host, parameters, params);
  if (c == NULL)
    return -ENOMEM;
  c->left = malloc(host->engine->max_requests * sizeof *c->left);
  *self = c;
  if (c->left != NULL)
    return 0;
  destroy(c);
  return -ENOMEM;
}

static const struct lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .caps = caps,
    .plan = plan,
    .dump = lls_pol_scheduler_dump,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

LLS_POL_SCHEDULER_PLUGIN("random", struct params,
                         "vLLM's scheduling in random order (control)");
