/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the cost of hidden form on this device before serving (Apt-Serve, section
 * 4.2: "a marginal preprocessing cost of approximately 30 seconds"): single decodes
 * after contexts of ten lengths, each in KV form and restored from hidden form. The cost
 * model observes them as if they had been served. They use pool blocks that no request
 * owns yet. Measurements of an earlier start (measured.h) are used instead if they are
 * kept. With a device profile nothing is measured, since its cost model has the rates.
 */
#include "core/record/measure.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "core/base/error.h"
#include "core/cost/cost.h"
#include "core/engine/engine.h"
#include "core/instance/instance.h"
#include "core/obs/log.h"
#include "core/record/measured.h"

static const int64_t most_ns = 30 * LLS_NS_PER_S;
enum { LENGTHS = 10 };

struct probe {
  struct lls_instance *in;
  struct lls_block_entry *entries; /* (groups, blocks) */
  struct lls_group_list lists[LLS_MAX_GROUPS];
  uint32_t block_tokens;
  int64_t spent_ns;
  struct lls_measured measured;
};

/* Lists blocks from the pool's begin on; those of other groups follow. */
static void lay(struct probe *p, uint32_t blocks, uint32_t form)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(p->in->engine);
  struct lls_block_entry *entry = p->entries;
  for (uint32_t group = 0, unit = 0; group < lls_pool_groups(pool); group++) {
    p->lists[group] = (struct lls_group_list){.entries = entry, .n_entries = blocks};
    for (uint32_t i = 0; i < blocks; i++, unit += lls_group_units(pool, group, form))
      *entry++ = (struct lls_block_entry){.block = unit,
                                          .first_token = i * p->block_tokens,
                                          .count = (uint16_t)p->block_tokens,
                                          .form = (uint8_t)form};
  }
}

static void tell(struct lls_instance *in, const struct lls_measured_step *m)
{
  const struct lls_iteration_shape shape = {.size = sizeof shape,
                                            .n_decodes = 1,
                                            .decode_context = &m->context,
                                            .hidden_tokens = m->hidden ? m->context : 0};
  lls_cost_model_observe(in->cost, &shape, m->ns);
}

/* Runs a decode after `context` tokens in the given form. */
static int step(struct probe *p, uint32_t context, uint32_t form, struct lls_error *err)
{
  static const int32_t token = 0;
  uint32_t blocks = context / p->block_tokens + 1;
  bool hidden = form == LLS_FORM_HIDDEN;
  lay(p, blocks, form);
  const struct lls_block_table table = {.n_groups = p->in->caps.n_groups,
                                        .lists = p->lists};
  struct lls_engine_sequence sequence = {
      .tokens = &token, .n_tokens = 1, .context = context, .table = &table};
  const struct lls_engine_batch batch = {.n_sequences = 1, .sequences = &sequence};
  struct lls_engine_result result;
  int rc = lls_engine_submit(p->in->engine, &batch, err);
  if (rc == 0)
    rc = lls_engine_wait(p->in->engine, &result, err);
  if (rc < 0)
    return rc;
  p->spent_ns += result.duration_ns;
  struct lls_measured_step *m = &p->measured.steps[p->measured.n++];
  *m = (struct lls_measured_step){context, hidden, result.duration_ns};
  tell(p->in, m);
  return 0;
}

static int steps(struct probe *p, uint32_t longest, struct lls_error *err)
{
  int rc = step(p, 1, LLS_FORM_KV, err); /* warm-up: the first access to the memory */
  for (uint32_t k = 1; rc == 0 && k <= LENGTHS && p->spent_ns < most_ns; k++) {
    uint32_t context = (uint32_t)((uint64_t)longest * k / LENGTHS);
    rc = step(p, context > 0 ? context : 1, LLS_FORM_KV, err);
    if (rc == 0)
      rc = step(p, context > 0 ? context : 1, LLS_FORM_HIDDEN, err);
  }
  return rc;
}

static int measure(struct probe *p, struct lls_error *err)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(p->in->engine);
  uint32_t room = (uint32_t)lls_pool_tokens(pool, pool->device_units);
  uint32_t longest = p->in->caps.max_context < room ? p->in->caps.max_context : room;
  uint32_t blocks = longest / p->block_tokens + 1;
  if (longest < 2)
    return 0;
  p->entries = calloc((size_t)blocks * p->in->caps.n_groups, sizeof *p->entries);
  int rc = p->entries != NULL ? steps(p, longest - 1, err) : -ENOMEM;
  free(p->entries);
  return rc < 0 ? lls_fail_at(err, rc, "measuring hidden form") : 0;
}

/* ---- measurements kept for the next start ------------------------------------------ */

static bool recall(struct lls_instance *in, const char *path,
                   const struct lls_engine_fingerprint *id)
{
  struct lls_measured m;
  struct lls_error why = {0};
  int rc = lls_measured_read(path, id, &m, &why);
  if (rc < 0 && rc != -ENOENT)
    lls_log(in->log, LLS_LOG_WARNING, "measure", "%s; measuring again",
            lls_error_text(&why, rc));
  for (uint32_t i = 0; rc == 0 && i < m.n; i++)
    tell(in, &m.steps[i]);
  if (rc == 0)
    lls_log(in->log, LLS_LOG_INFO, "measure", "what hidden form costs is known from %s",
            path);
  return rc == 0;
}

static void keep(struct lls_instance *in, const char *path,
                 const struct lls_engine_fingerprint *id, const struct lls_measured *m)
{
  struct lls_error why = {0};
  int rc = lls_measured_write(path, id, m, &why);
  if (rc < 0)
    lls_log(in->log, LLS_LOG_WARNING, "measure",
            "%s; what hidden form costs is measured again at the next start",
            lls_error_text(&why, rc));
}

int lls_measure_hidden(struct lls_instance *in, const char *folder, bool always,
                       struct lls_error *err)
{
  struct probe p = {.in = in,
                    .block_tokens = lls_engine_pool_shape(in->engine)->block_tokens};
  struct lls_engine_fingerprint id;
  char path[PATH_MAX];
  lls_engine_take_fingerprint(in->engine, &id);
  bool kept = folder != NULL && folder[0] != '\0' &&
              lls_measured_path(folder, &id, path, sizeof path) == 0;
  if (kept && !always && recall(in, path, &id))
    return 0;
  int rc = measure(&p, err);
  if (rc == 0)
    lls_log(in->log, LLS_LOG_INFO, "measure", "what hidden form costs took %.1f s",
            (double)p.spent_ns * 1e-9);
  if (rc == 0 && kept && p.measured.n > 0)
    keep(in, path, &id, &p.measured);
  return rc;
}
