/* SPDX-License-Identifier: Apache-2.0 */
/* See guesses.h. */
#include "config.h"

#include "tools/sim/guesses.h"

#include "core/base/least.h"
#include "core/instance/request.h"
#include "kernels/sim/sim.h"

/* Added to a seed, for numbers other than those that tokens are made of. */
#define APART UINT64_C(0x9E3779B97F4A7C15)

static int create(const struct lls_host *host, const void *params, void **self)
{
  (void)host;
  *self = (void *)(uintptr_t)params;
  return 0;
}

static void destroy(void *self)
{
  (void)self;
}

static uint32_t flags(void *self)
{
  (void)self;
  return LLS_DRAFTER_DRAFTS;
}

static int draft(void *self, const struct lls_request *r, struct lls_draft *out)
{
  const struct lls_guesses *g = self;
  const struct lls_live *live = lls_live_of(r);
  uint64_t seed = live->sampling.seed; /* the answer's length: sim.h */
  double acceptance = g->of != NULL ? g->of(live->owner, g->acceptance) : g->acceptance;
  if (acceptance <= 0)
    return 0;
  for (uint32_t i = 0; i < out->max; i++) {
    uint32_t index = r->generated_tokens + i;
    /* answers of one length do not share their guesses */
    uint64_t own = seed + (uint64_t)r->arrival_ns * APART;
    bool right = lls_sampling_uniform(own, index) < acceptance;
    int32_t token = lls_sim_token(seed, index, g->vocab, g->eos);
    out->tokens[i] = right ? token : (int32_t)(((uint32_t)token + 1) % g->vocab);
    out->odds[i] = (float)acceptance;
  }
  return (int)out->max;
}

static int reconfigure(void *self, const void *params)
{
  (void)self, (void)params;
  return 0;
}

static const struct lls_plugin descriptor = {
    .api_version = LLS_API_VERSION,
    .size = sizeof descriptor,
    .kind = LLS_KIND_DRAFTER,
    .id = "guesses",
    .version = PACKAGE_VERSION,
    .description = "knows what the simulated device will draw",
    .licence = "Apache-2.0",
};

const struct lls_plugin_module lls_guesses_module = {
    .descriptor = &descriptor,
    .drafter = {.api_version = LLS_API_VERSION,
                .size = sizeof(struct lls_drafter_vtable),
                .create = create,
                .destroy = destroy,
                .flags = flags,
                .draft = draft,
                .reconfigure = reconfigure},
};
