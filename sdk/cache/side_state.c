/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of side.h as one blob, so that another generation takes over every block in
 * place: the units of each sequence, in the format that every manager reads; then the
 * writer's name and the pool, which must be equal; then all parts as they are.
 *
 * From another manager's blob, sequences are taken whose blocks begin where blocks can
 * begin here, and are not shared. All other blocks become free, and the tree is empty.
 */
#include <llmserve/policy/side.h>

#include <llmserve/policy/holdings.h>
#include <llmserve/policy/state.h>

struct pool { /* must be equal in both generations */
  char writer[8];
  uint32_t block_tokens, n_groups, n_slots, n_rows, row_blocks, n_tiers;
  uint32_t slab_units[LLS_POL_TIERS], n_slabs[LLS_POL_TIERS];
  struct {
    uint32_t units, kind, window, small[LLS_POL_TIERS];
  } groups[LLS_POL_MAX_GROUPS];
};

static struct pool pool_of(const struct lls_pol_side *m)
{
  struct pool p;
  memset(&p, 0, sizeof p);
  for (uint32_t i = 0; i < sizeof p.writer && m->writer[i] != '\0'; i++)
    p.writer[i] = m->writer[i];
  p.block_tokens = m->block_tokens;
  p.n_groups = m->n_groups;
  p.n_slots = m->rows.n_slots;
  p.n_rows = m->rows.n_rows;
  p.row_blocks = m->rows.row_blocks;
  p.n_tiers = m->n_tiers;
  for (uint32_t tier = 0; tier < m->n_tiers; tier++) {
    p.slab_units[tier] = m->slabs[tier].slab_units;
    p.n_slabs[tier] = m->slabs[tier].n_slabs;
  }
  for (uint32_t group = 0; group < m->n_groups; group++) {
    p.groups[group].units = m->units[LLS_TIER_DEVICE][group];
    for (uint32_t tier = 0; tier < LLS_POL_TIERS; tier++)
      p.groups[group].small[tier] = m->full[tier][group].units;
    p.groups[group].kind = m->host->engine->groups[group]->kind;
    p.groups[group].window = m->host->engine->groups[group]->window;
  }
  return p;
}

/* ---- for any manager --------------------------------------------------------------- */

/* Does the sequence lie as in every manager? */
static bool is_plain(const struct lls_pol_side *m, const struct lls_pol_sequence *s)
{
  bool is_request = s - m->rows.sequences < m->rows.n_slots - m->more_slots;
  bool plain = is_request && s->admitted && s->where == LLS_POL_ON_DEVICE &&
               (m->one_group || !s->partial);
  for (uint32_t group = 0; group < m->n_groups && plain; group++) {
    const struct lls_pol_list *list = lls_pol_rows_list(&m->rows, s, group);
    plain = list->small == 0 && (group == 0 || !m->one_group || list->past == 0);
  }
  return plain;
}

/* The lists of a plain sequence. */
static uint32_t lists_of(const struct lls_pol_side *m)
{
  return m->one_group ? 1 : m->n_groups;
}

static struct lls_holdings count_holdings(const struct lls_pol_side *m)
{
  struct lls_holdings head = {.bytes = sizeof head,
                              .block_tokens = m->block_tokens,
                              .device_units =
                                  lls_pol_slabs_total(&m->slabs[LLS_TIER_DEVICE])};
  for (uint32_t i = 0; i < m->rows.n_slots; i++) {
    const struct lls_pol_sequence *s = &m->rows.sequences[i];
    size_t blocks = 0;
    if (!is_plain(m, s))
      continue;
    for (uint32_t group = 0; group < lists_of(m); group++)
      blocks += lls_pol_rows_held(&m->rows, s, group);
    head.bytes += lls_pol_holding_bytes(lists_of(m), blocks);
    head.n++;
  }
  return head;
}

static char *write_sequence(const struct lls_pol_side *m, char *to, uint32_t slot)
{
  const struct lls_pol_sequence *s = &m->rows.sequences[slot];
  struct lls_holding h = {.request = s->request,
                          .slot = slot,
                          .cached_tokens = s->cached,
                          .n_lists = lists_of(m)};
  to = lls_pol_holding_write(to, &h);
  for (uint32_t group = 0; group < lists_of(m); group++) {
    uint32_t gone = lls_pol_rows_list(&m->rows, s, group)->gone;
    bool state = lls_pol_rows_is_state(&m->rows, group);
    struct lls_held_list list = {.group = group,
                                 .form = state ? LLS_FORM_STATE : LLS_FORM_KV,
                                 .first_token =
                                     state ? s->cached : gone * m->block_tokens,
                                 .n_blocks = lls_pol_rows_held(&m->rows, s, group)};
    to = lls_pol_holding_write_list(to, &list,
                                    lls_pol_rows_entries(&m->rows, s, group) + gone);
  }
  return to;
}

/* ---- for the same manager ---------------------------------------------------------- */

struct passed { /* what lls_pol_state_parts gets */
  struct lls_pol_side *side;
  struct pool pool;
};

static int pass_pending(struct lls_pol_side *m, struct lls_pol_state_walk *w)
{
  lls_pol_state_pass(w, &m->n_pending, sizeof m->n_pending);
  if (m->n_pending > m->max_copies)
    return -EINVAL;
  lls_pol_state_pass(w, m->pending, m->n_pending * sizeof *m->pending);
  return lls_pol_state_is_torn(w) ? -EINVAL : 0;
}

static int pass_parts(void *context, struct lls_pol_state_walk *w)
{
  struct passed *p = context;
  struct pool pool = p->pool;
  lls_pol_state_pass(w, &pool, sizeof pool);
  for (uint32_t tier = 0; tier < p->side->n_tiers; tier++)
    lls_pol_slabs_pass(&p->side->slabs[tier], w);
  lls_pol_tree_pass(&p->side->tree, w);
  int rc = lls_pol_leases_pass(&p->side->leases, w);
  if (rc < 0)
    return rc;
  rc = lls_pol_rows_pass(&p->side->rows, w);
  if (rc == 0)
    rc = pass_pending(p->side, w);
  return rc == 0 && p->side->pass != NULL ? p->side->pass(p->side, w) : rc;
}

int lls_pol_side_export(struct lls_pol_side *m, struct lls_blob *out)
{
  if (m->writer == NULL)
    return -ENOTSUP;
  if (m->journal.open)
    return -EBUSY;
  struct passed passed = {m, pool_of(m)};
  struct lls_holdings head = count_holdings(m);
  int rc = lls_pol_state_export(&passed, pass_parts, head.bytes, LLS_STATE_HOLDINGS, out);
  if (rc < 0)
    return rc;
  char *to = out->data;
  memcpy(to, &head, sizeof head);
  to += sizeof head;
  for (uint32_t i = 0; i < m->rows.n_slots; i++)
    if (is_plain(m, &m->rows.sequences[i]))
      to = write_sequence(m, to, i);
  return 0;
}

/* ---- from another manager ---------------------------------------------------------- */

static bool can_hold(const struct lls_pol_side *m, const struct lls_holding *h,
                     const struct lls_held_list *list)
{
  const struct lls_pol_rows *r = &m->rows;
  return lists_of(m) == 1 && h->slot < r->n_slots - m->more_slots &&
         !r->sequences[h->slot].admitted && r->n_free > 0 && list->n_blocks > 0 &&
         list->n_blocks <= r->row_blocks &&
         list->n_blocks >=
             ((uint64_t)h->cached_tokens + m->block_tokens - 1) / m->block_tokens;
}

/* Gives a sequence from another manager all of its blocks, or none. */
static bool claim(struct lls_pol_side *m, const struct lls_pol_held *held)
{
  struct lls_pol_slabs *slabs = &m->slabs[LLS_TIER_DEVICE];
  uint32_t i = 0;
  while (i < held->list.n_blocks &&
         lls_pol_slabs_claim(slabs, m->kinds[LLS_TIER_DEVICE][0],
                             lls_pol_held_unit(held, i)))
    i++;
  bool all = i == held->list.n_blocks;
  while (!all && i-- > 0)
    lls_pol_slabs_unclaim(slabs, lls_pol_held_unit(held, i));
  return all;
}

static void take_over(struct lls_pol_side *m, const struct lls_holding *h,
                      const struct lls_pol_held *held)
{
  struct lls_pol_sequence *s = &m->rows.sequences[h->slot];
  *s = (struct lls_pol_sequence){.request = h->request,
                                 .admitted = true,
                                 .row = LLS_POL_NIL,
                                 .partial = m->one_group};
  lls_pol_rows_begin(&m->rows, s);
  s->cached = h->cached_tokens;
  lls_pol_rows_list(&m->rows, s, 0)->past = held->list.n_blocks;
  for (uint32_t i = 0; i < held->list.n_blocks; i++)
    lls_pol_rows_put(&m->rows, s, 0, i, lls_pol_held_unit(held, i),
                     m->one_group ? LLS_FORM_KV : LLS_FORM_NONE);
}

static int import_holdings(struct lls_pol_side *m, struct lls_pol_holdings *walk)
{
  struct lls_pol_held lists[LLS_POL_HELD_LISTS];
  struct lls_holding h;
  uint32_t n;
  while (lls_pol_holdings_next(walk, &h, lists, &n))
    if (lls_pol_holding_is_plain(lists, n) && can_hold(m, &h, &lists[0].list) &&
        claim(m, &lists[0]))
      take_over(m, &h, &lists[0]);
  lls_pol_slabs_settle(&m->slabs[LLS_TIER_DEVICE]);
  return walk->torn ? -EINVAL : 0;
}

int lls_pol_side_import(struct lls_pol_side *m, const struct lls_blob *in)
{
  if (m->writer == NULL)
    return -ENOTSUP;
  struct passed passed = {m, pool_of(m)};
  struct lls_pol_holdings walk;
  int rc = lls_pol_holdings_open(&walk, in, m->block_tokens,
                                 lls_pol_slabs_total(&m->slabs[LLS_TIER_DEVICE]),
                                 m->slabs[LLS_TIER_DEVICE].slab_units);
  if (rc < 0)
    return m->host->fail(m->host->context, rc, "state of another pool");
  size_t bytes = in->bytes - (size_t)(walk.end - (const char *)in->data);
  bool same = lls_pol_state_is_of(walk.end, bytes, passed.pool.writer,
                                  sizeof passed.pool.writer, &passed.pool.block_tokens,
                                  sizeof passed.pool - sizeof passed.pool.writer);
  return same ? lls_pol_state_import(&passed, pass_parts, walk.end, bytes)
              : import_holdings(m, &walk);
}
