/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contiguous cache manager: each sequence gets one region when it starts, for the
 * greatest length it may reach. It is the baseline of comparisons, in which most of a
 * region is unused for most of the time. What it does not say here is the usual policy
 * (policy/face.h), without sharing and without a host.
 */
#include "contiguous.h"

#include <llmserve/policy/face.h>

#include <errno.h>
#include <stdlib.h>

/* ---- life ----------------------------------------------------------------------- */

static void destroy(void *self)
{
  lls_pol_side_destroy(self);
  free(self);
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  struct lls_cache_geometry device = *g;
  struct contiguous *m = calloc(1, sizeof *m);
  if (m == NULL)
    return -ENOMEM;
  m->params = *(const struct params *)params;
  device.host_units = 0; /* nothing is swapped */
  m->side.keeps_all = true;
  m->side.audit = contiguous_audit;
  int rc = lls_pol_side_create(&m->side, host, &device);
  if (rc < 0) {
    destroy(m);
    return rc;
  }
  *self = m;
  return 0;
}

/* ---- how large ------------------------------------------------------------------ */

/* Returns the blocks of the region for r, at least for `tokens`, at most those of the
 * cache. */
static uint32_t blocks_for(const struct contiguous *m, const struct lls_request *r,
                           uint64_t tokens)
{
  uint32_t all = m->side.rows.row_blocks;
  uint32_t limit =
      lls_pol_min(all * m->side.block_tokens, m->side.host->engine->max_context);
  uint32_t reserved =
      reservation_of(r, m->params.reserve, (uint32_t)m->params.max_len, limit);
  return lls_pol_min(lls_pol_side_blocks(&m->side, reserved > tokens ? reserved : tokens),
                     all);
}

static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct contiguous *m = self;
  struct lls_pol_sequence *s = lls_pol_rows_find(&m->side.rows, r);
  (void)flags;
  if (s == NULL || !m->side.journal.open)
    return -EINVAL;
  if (form != LLS_FORM_NONE && form != LLS_FORM_KV)
    return -ENOTSUP;
  uint64_t length = (uint64_t)s->cached + tokens;
  if (lls_pol_side_blocks(&m->side, length) > m->side.rows.row_blocks)
    return LLS_RESERVE_NEVER;
  if (lls_pol_side_blocks(&m->side, length) <= contiguous_region(m, s).blocks)
    return LLS_RESERVE_OK;
  return contiguous_place(m, s, blocks_for(m, r, length)) ? LLS_RESERVE_OK
                                                          : LLS_RESERVE_LATER;
}

/* A request never needs more than its prompt and max_new_tokens, whatever asks
 * for more. */
static int need(void *self, const struct lls_request *r, uint32_t tokens, uint32_t form,
                struct lls_need *out)
{
  struct contiguous *m = self;
  const struct lls_pol_sequence *s = lls_pol_rows_find(&m->side.rows, r);
  if (s == NULL)
    return -EINVAL;
  if (form != LLS_FORM_NONE && form != LLS_FORM_KV)
    return -ENOTSUP;
  uint64_t most = (uint64_t)r->prompt_tokens + r->max_new_tokens;
  uint64_t length = (uint64_t)s->cached + tokens;
  if (length > most)
    length = most;
  uint32_t held = contiguous_region(m, s).blocks,
           blocks = lls_pol_side_blocks(&m->side, length);
  if (blocks > held && blocks <= m->side.rows.row_blocks)
    blocks = blocks_for(m, r, length);
  out->new_units =
      blocks > held ? m->side.units[LLS_TIER_DEVICE][0] * (blocks - held) : 0;
  out->restore_units = 0;
  return 0;
}

/* ---- questions ------------------------------------------------------------------ */

static void stats(void *self, const struct lls_sink *sink)
{
  const struct contiguous *m = self;
  const struct lls_pol_slabs *pool = &m->side.slabs[LLS_TIER_DEVICE];
  uint32_t held = pool->n_slabs - pool->n_free_slabs;
  double cached = 0;
  for (uint32_t slot = 0; slot < m->side.rows.n_slots; slot++)
    cached += m->side.rows.sequences[slot].cached;
  sink->number(sink->context, "blocks", pool->n_slabs);
  sink->number(sink->context, "blocks_free", pool->n_free_slabs);
  sink->number(sink->context, "blocks_largest_gap", contiguous_largest_gap(m));
  sink->number(sink->context, "tokens_reserved", (double)held * m->side.block_tokens);
  sink->number(sink->context, "tokens_cached", cached);
}

static const struct lls_param parameters[] = {
    RESERVATION_PARAMETERS(struct params),
};

static const struct lls_cache_caps caps = {
    .size = sizeof caps,
    .kinds = 1u << LLS_GROUP_FULL,
    .forms = 1u << LLS_FORM_KV,
};

static const struct lls_cache_vtable vtable = {
    LLS_POL_FACE,
    .caps = &caps,
    .create = create,
    .destroy = destroy,
    .need = need,
    .reserve = reserve,
    .preempt = lls_pol_face_preempt,
    .computed = lls_pol_face_computed,
    .stats = stats,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_CACHE,
    .id = "contiguous",
    .version = "2.0",
    .description =
        "one contiguous region per sequence, sized for the longest answer (Orca)",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
