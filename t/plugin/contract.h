/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the hostile fixtures: a separate random stream, and the way to report a
 * host that breaks the contract (LLS_LOG_HOST_MISBEHAVING and fail).
 */
#ifndef LLS_T_CONTRACT_H
#define LLS_T_CONTRACT_H

#include <llmserve/host.h>

#include <errno.h>

struct contract {
  const struct lls_host *host;
  uint64_t random_state;
  uint32_t broken; /* number of breaches; only the first ones are logged */
};

/* Reports that the host violated `condition`; its value is the condition's. */
#define CONTRACT(c, condition, ...)                                                      \
  ((condition) || (contract_broken(c), (c)->broken > 100)                                \
       ? (condition)                                                                     \
       : ((c)->host->log((c)->host->context, LLS_LOG_HOST_MISBEHAVING, __VA_ARGS__),     \
          (c)->host->fail((c)->host->context, -EPROTO, __VA_ARGS__), false))

static inline void contract_broken(struct contract *c)
{
  c->broken++;
}

static inline uint64_t contract_random(struct contract *c)
{
  uint64_t z = (c->random_state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

/* A number between low and high, both included. */
static inline uint32_t contract_between(struct contract *c, uint32_t low, uint32_t high)
{
  return low + (uint32_t)(contract_random(c) % ((uint64_t)high - low + 1));
}

static inline bool contract_chance(struct contract *c, uint32_t percent)
{
  return contract_random(c) % 100 < percent;
}

/* Checks the host itself, as every create sees it. */
static inline bool contract_host(struct contract *c, const struct lls_host *h)
{
  return CONTRACT(c, h->api_version >= 1, "host of API version %u", h->api_version) &&
         CONTRACT(c, h->size >= sizeof *h, "host of %u bytes", h->size) &&
         CONTRACT(c, h->engine != NULL && h->topology != NULL && h->cost != NULL,
                  "host without engine, topology or cost") &&
         CONTRACT(c, h->topology->n_instances >= 1, "no instance") &&
         CONTRACT(c, h->engine->max_requests >= 1 && h->engine->max_context >= 1,
                  "engine without limits") &&
         CONTRACT(c, h->now(h->context) >= 0, "time before the beginning");
}

#endif
