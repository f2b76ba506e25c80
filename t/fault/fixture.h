/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The good parts of a fixture plugin. Each fixture is wrong in one thing, which it writes
 * itself; everything else comes from here, so that the one thing is all there is to read.
 */
#ifndef LLS_FIXTURE_H
#define LLS_FIXTURE_H

#include <llmserve/cache.h>
#include <llmserve/drafter.h>
#include <llmserve/plugin.h>
#include <llmserve/predictor.h>
#include <llmserve/scheduler.h>

#define FIXTURE_TEXTS(ID)                                                                \
  .id = ID, .version = "1.0", .description = "a fixture of the tests",                   \
  .licence = "Apache-2.0"

/* A descriptor but for its texts, parameters and vtable. */
#define FIXTURE_HEAD(KIND)                                                               \
  .api_version = LLS_API_VERSION, .size = sizeof(struct lls_plugin), .kind = KIND

#define FIXTURE_PARAMS(TABLE, STRUCT) LLS_PLUGIN_PARAMS(TABLE, STRUCT)

/* ---- schedulers: plans nothing, ever ---- */

static inline int fixture_create(const struct lls_host *host, const void *params,
                                 void **self)
{
  (void)params;
  *self = (void *)(uintptr_t)host;
  return 0;
}

static inline void fixture_destroy(void *self)
{
  (void)self;
}

static inline void fixture_caps(void *self, struct lls_scheduler_caps *out)
{
  (void)self;
  out->needs = 0;
  out->n_preempt = 0;
}

static inline int fixture_plan(void *self, const struct lls_step_view *view,
                               struct lls_plan *plan)
{
  (void)self, (void)view, (void)plan;
  return 0;
}

static inline int fixture_export(void *self, struct lls_blob *out)
{
  (void)self;
  *out = (struct lls_blob){.version = 1};
  return 0;
}

#define FIXTURE_SCHEDULER_HEAD                                                           \
  .api_version = LLS_API_VERSION, .size = sizeof(struct lls_scheduler_vtable)
#define FIXTURE_SCHEDULER_CALLBACKS                                                      \
  .create = fixture_create, .destroy = fixture_destroy, .caps = fixture_caps,            \
  .plan = fixture_plan

/* ---- predictors: never know ---- */

static inline uint32_t fixture_flags(void *self)
{
  (void)self;
  return 0;
}

static inline int fixture_predict(void *self, uint64_t ticket,
                                  const struct lls_prompt *prompt,
                                  struct lls_prediction *out)
{
  (void)self, (void)ticket, (void)prompt, (void)out;
  return -2; /* -ENOENT: can't tell */
}

#define FIXTURE_PREDICTOR_HEAD                                                           \
  .api_version = LLS_API_VERSION, .size = sizeof(struct lls_predictor_vtable)

/* ---- drafters: never guess ---- */

static inline int fixture_draft(void *self, const struct lls_request *r,
                                struct lls_draft *out)
{
  (void)self, (void)r, (void)out;
  return 0;
}

#define FIXTURE_DRAFTER_HEAD                                                             \
  .api_version = LLS_API_VERSION, .size = sizeof(struct lls_drafter_vtable)

#endif
