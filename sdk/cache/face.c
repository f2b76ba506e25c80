/* SPDX-License-Identifier: Apache-2.0 */
/* The vtable of a manager, over the usual policy; see face.h. */
#include "side_inside.h"

#include <llmserve/policy/face.h>

#include <llmserve/policy/count.h>

#include <errno.h>
#include <string.h>

static struct lls_pol_sequence *sequence_of(const struct lls_pol_side *m,
                                            const struct lls_request *r)
{
  return lls_pol_rows_find(&m->rows, r);
}

/* The usual policy computes in one form, the first of each group. */
static bool has_form(const struct lls_pol_side *m, uint32_t form)
{
  return form == LLS_FORM_NONE || form == m->host->engine->groups[0]->forms[0].form;
}

/* ---- the transaction ------------------------------------------------------------ */

int lls_pol_face_begin(void *self)
{
  struct lls_pol_side *m = self;
  if (!m->journal.open)
    side_make_waiting_small(m);
  if (!m->journal.open)
    side_end_leases(m);
  int rc = lls_pol_journal_begin(&m->journal);
  if (rc < 0)
    return rc;
  memcpy(m->copies, m->pending, m->n_pending * sizeof *m->copies);
  m->n_copies = m->n_pending;
  m->n_pending = m->tree.n_dropped = m->lacking = m->n_from_host = m->n_to_host = 0;
  for (uint32_t tier = 0; tier < m->n_tiers; tier++)
    lls_pol_slabs_begin(&m->slabs[tier]);
  side_begin_leaving(m);
  m->available_at_begin = lls_pol_slabs_available(&m->slabs[LLS_TIER_DEVICE]);
  return 0;
}

uint32_t lls_pol_face_mark(void *self)
{
  return ((struct lls_pol_side *)self)->journal.n;
}

int lls_pol_face_rollback(void *self, uint32_t mark)
{
  return lls_pol_journal_rollback(&((struct lls_pol_side *)self)->journal, mark);
}

int lls_pol_face_commit(void *self)
{
  struct lls_pol_side *m = self;
  if (m->journal.open)
    lls_pol_side_keep_states(m);
  int rc = lls_pol_journal_commit(&m->journal);
  if (rc < 0)
    return rc;
  lls_pol_count_copies(m->host, m->copies, m->n_copies);
  lls_pol_count(m->host, "blocks_evicted", m->tree.n_dropped);
  lls_pol_count(m->host, "blocks_from_host", m->n_from_host);
  lls_pol_count(m->host, "blocks_to_host", m->n_to_host);
  return 0;
}

int lls_pol_face_reserve(void *self, const struct lls_request *r, uint32_t tokens,
                         uint32_t form, uint32_t flags)
{
  struct lls_pol_side *m = self;
  struct lls_pol_sequence *s = sequence_of(m, r);
  (void)flags; /* nothing here can be displaced by slots */
  if (s == NULL || !m->journal.open)
    return -EINVAL;
  return has_form(m, form) ? lls_pol_side_reserve(m, s, r, tokens) : -ENOTSUP;
}

int lls_pol_face_preempt(void *self, const struct lls_request *r, uint32_t mode)
{
  struct lls_pol_side *m = self;
  struct lls_pol_sequence *s = sequence_of(m, r);
  if (s == NULL || !m->journal.open)
    return -EINVAL;
  switch (mode) {
  case LLS_PREEMPT_RECOMPUTE:
    return lls_pol_side_drop(m, s);
  case LLS_PREEMPT_SWAP:
    return m->n_tiers > 1 ? lls_pol_side_swap_out(m, s) : -ENOTSUP;
  case LLS_PREEMPT_DEFER:
    return 0;
  default:
    return -EINVAL;
  }
}

int lls_pol_face_prefix(void *self, const struct lls_request *r, bool take,
                        struct lls_prefix *out)
{
  struct lls_pol_side *m = self;
  struct lls_pol_sequence *s = sequence_of(m, r);
  if (s == NULL || (take && !m->journal.open))
    return -EINVAL;
  if (!m->shares)
    return -ENOTSUP;
  out->tokens = lls_pol_side_prefix(m, s, r, take, &out->on_host);
  return 0;
}

/* ---- between transactions --------------------------------------------------------- */

int lls_pol_face_admit(void *self, const struct lls_request *r)
{
  struct lls_pol_side *m = self;
  bool waits = m->tree.n_tiers > 1 || r->disk_tokens > 0; /* for copies or for the disk */
  int rc = lls_pol_rows_admit(&m->rows, r);
  if (rc == 0 && m->shares && waits)
    side_use(m, r);
  return rc;
}

/* KEEP_PREFIX: known blocks stay in the tree until their memory is needed. */
void lls_pol_face_release(void *self, const struct lls_request *r,
                          const struct lls_release *how)
{
  struct lls_pol_side *m = self;
  struct lls_pol_sequence *s = sequence_of(m, r);
  if (s == NULL)
    return;
  lls_pol_side_drop(m, s);
  if (!(how->flags & LLS_KEEP_PREFIX))
    lls_pol_side_forget(m, r);
  s->admitted = false;
}

void lls_pol_face_computed(void *self, const struct lls_request *r, uint32_t cached)
{
  struct lls_pol_side *m = self;
  struct lls_pol_sequence *s = sequence_of(m, r);
  if (s != NULL && s->where == LLS_POL_ON_DEVICE && !m->journal.open)
    lls_pol_side_computed(m, s, r, cached);
}

/* ---- questions ------------------------------------------------------------------ */

int lls_pol_face_capacity(void *self, uint32_t tier, struct lls_capacity *out)
{
  const struct lls_pol_side *m = self;
  out->total_units = out->free_units = out->reserved_units = 0;
  if (tier >= LLS_POL_TIERS)
    return -ENOTSUP;
  if (tier >= m->n_tiers)
    return 0;
  out->total_units = lls_pol_slabs_usable(&m->slabs[tier]);
  out->free_units = lls_pol_slabs_available(&m->slabs[tier]);
  if (tier == LLS_TIER_DEVICE && m->journal.open &&
      m->available_at_begin > out->free_units)
    out->reserved_units = m->available_at_begin - out->free_units;
  return 0;
}

int lls_pol_face_need(void *self, const struct lls_request *r, uint32_t tokens,
                      uint32_t form, struct lls_need *out)
{
  struct lls_pol_side *m = self;
  const struct lls_pol_sequence *s = sequence_of(m, r);
  if (s == NULL)
    return -EINVAL;
  if (!has_form(m, form))
    return -ENOTSUP;
  out->new_units = lls_pol_side_need(m, s, r, tokens);
  out->restore_units =
      s->where == LLS_POL_ON_HOST ? lls_pol_side_units_in(m, s, LLS_TIER_DEVICE) : 0;
  side_note_crowd(m, s, (uint64_t)out->new_units + out->restore_units);
  return 0;
}

/* Tokens that have room in every group's blocks. */
static uint32_t free_slots(const struct lls_pol_side *m, const struct lls_pol_sequence *s)
{
  uint32_t past = m->rows.row_blocks;
  for (uint32_t group = 0; group < m->n_groups; group++)
    if (!lls_pol_rows_is_state(&m->rows, group))
      past = lls_pol_min(past, lls_pol_rows_list(&m->rows, s, group)->past);
  return past * m->block_tokens - s->cached;
}

int lls_pol_face_info(void *self, const struct lls_request *r, struct lls_cache_info *out)
{
  const struct lls_pol_side *m = self;
  const struct lls_pol_sequence *s = sequence_of(m, r);
  if (s == NULL)
    return -EINVAL;
  *out = (struct lls_cache_info){.size = out->size, .cached_tokens = s->cached};
  out->form = s->where == LLS_POL_NOWHERE ? LLS_FORM_NONE
                                          : m->host->engine->groups[0]->forms[0].form;
  if (s->where == LLS_POL_ON_DEVICE) {
    uint32_t shared;
    out->residency = LLS_RESIDENT_DEVICE;
    out->device_units = lls_pol_side_units(m, s);
    lls_pol_side_shared(m, s, &shared, &out->shared_tokens);
    out->owned_units = out->device_units - shared;
    out->free_slots = free_slots(m, s);
  } else if (s->where == LLS_POL_ON_HOST) {
    out->residency = LLS_RESIDENT_HOST;
    out->host_units = lls_pol_side_units(m, s);
    out->missing_tokens = s->cached;
  }
  return 0;
}

int lls_pol_face_table(void *self, const struct lls_request *r,
                       struct lls_block_table *out)
{
  struct lls_pol_side *m = self;
  const struct lls_pol_sequence *s = sequence_of(m, r);
  if (s == NULL || s->where != LLS_POL_ON_DEVICE)
    return -EINVAL;
  lls_pol_rows_table(&m->rows, s, out);
  return 0;
}

size_t lls_pol_face_copies(void *self, const struct lls_copy **out)
{
  const struct lls_pol_side *m = self;
  *out = m->copies;
  return m->n_copies;
}

uint32_t lls_pol_face_preempt_modes(void *self)
{
  const struct lls_pol_side *m = self;
  return 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_DEFER |
         (m->n_tiers > 1 ? 1u << LLS_PREEMPT_SWAP : 0);
}

/* Figures of a tier in blocks of group 0: all, free, and neither held nor free. */
static void count_blocks(const struct lls_pol_side *m, uint32_t tier, uint32_t figures[3])
{
  figures[0] = figures[1] = figures[2] = 0;
  if (tier >= m->n_tiers)
    return;
  uint32_t n_free, kept;
  lls_pol_slabs_count(&m->slabs[tier], &n_free, &kept);
  figures[0] = lls_pol_slabs_total(&m->slabs[tier]) / m->units[tier][0];
  figures[1] = n_free / m->units[tier][0];
  figures[2] = kept / m->units[tier][0];
}

void lls_pol_face_stats(void *self, const struct lls_sink *sink)
{
  uint32_t device[3], host[3];
  count_blocks(self, LLS_TIER_DEVICE, device);
  count_blocks(self, LLS_TIER_HOST, host);
  sink->number(sink->context, "blocks", device[0]);
  sink->number(sink->context, "blocks_free", device[1]);
  sink->number(sink->context, "blocks_reusable", device[2]);
  sink->number(sink->context, "host_blocks", host[0]);
  sink->number(sink->context, "host_blocks_free", host[1]);
}

int lls_pol_face_audit(void *self, const struct lls_sink *sink)
{
  return lls_pol_side_audit(self, sink);
}

int lls_pol_face_export(void *self, struct lls_blob *out)
{
  return lls_pol_side_export(self, out);
}

int lls_pol_face_import(void *self, const struct lls_blob *in)
{
  int rc = lls_pol_state_audit(self, lls_pol_side_import(self, in), lls_pol_face_audit);
  if (rc < 0)
    lls_pol_side_make_empty(self);
  return rc;
}

size_t lls_pol_face_kept(void *self, struct lls_kept_block *out, size_t max)
{
  return lls_pol_side_kept(self, out, max);
}

size_t lls_pol_face_adopt(void *self, struct lls_kept_block *blocks, size_t n)
{
  return lls_pol_side_adopt(self, blocks, n);
}

int lls_pol_face_retain(void *self, const struct lls_retained *what)
{
  struct lls_pol_side *m = self;
  return m->journal.open ? lls_pol_side_retain(m, what) : -EINVAL;
}

size_t lls_pol_face_changes(void *self, struct lls_block_change *out, size_t max)
{
  struct lls_pol_side *m = self;
  return m->journal.open ? 0 : lls_pol_tree_changes(&m->tree, out, max);
}

int lls_pol_face_fetch(void *self, const struct lls_retained *what)
{
  struct lls_pol_side *m = self;
  return m->journal.open ? lls_pol_side_fetch(m, what) : -EINVAL;
}
