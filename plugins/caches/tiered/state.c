/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole state as one blob, so that another generation of this plugin takes over every
 * block in place: first the sizes, which must be equal in both, then the arrays, the
 * lists of each sequence, and the copies pending for the next step.
 */
#include "tiered.h"

#include <llmserve/policy/state.h>

#define STATE_VERSION 4

struct head {
  uint32_t block_tokens, device_slabs, host_slabs, n_slots, n_rows, row_blocks, window;
  uint32_t wide_units, narrow_units, index_units;
  /* the members below change while serving */
  uint32_t n_idle, row_head, n_rows_free;
  uint32_t n_moving, last_transfer, n_pending;
};

static struct head head_of(const struct tiered *m)
{
  return (struct head){
      .block_tokens = m->block_tokens,
      .device_slabs = m->tiers[0].n_slabs,
      .host_slabs = m->tiers[1].n_slabs,
      .n_slots = m->n_slots,
      .n_rows = m->n_rows,
      .row_blocks = m->row_blocks,
      .window = m->window.tokens,
      .wide_units = m->units[WIDE],
      .narrow_units = m->units[NARROW],
      .index_units = m->index_units,
      .n_idle = m->n_idle,
      .row_head = m->row_head,
      .n_rows_free = m->n_rows_free,
      .n_moving = m->n_moving,
      .last_transfer = m->last_transfer,
      .n_pending = m->pending.n,
  };
}

/* Members that must be equal are compared; the others become as in the blob. */
static int pass_head(struct tiered *m, struct lls_pol_state_walk *w)
{
  struct head head = head_of(m), mine = head;
  lls_pol_state_pass(w, &head, sizeof head);
  if (!lls_pol_state_is_read(w))
    return 0;
  if (lls_pol_state_is_torn(w) ||
      memcmp(&head, &mine, offsetof(struct head, n_idle)) != 0 ||
      head.n_pending > m->pending.max || head.n_moving > m->n_slots)
    return m->host->fail(m->host->context, -ENOTSUP, "state of another pool");
  m->n_idle = head.n_idle;
  m->row_head = head.row_head, m->n_rows_free = head.n_rows_free;
  m->n_moving = head.n_moving, m->last_transfer = head.last_transfer;
  m->pending.n = head.n_pending;
  return 0;
}

static void pass_arrays(struct tiered *m, struct lls_pol_state_walk *w)
{
  for (uint32_t i = 0; i < 2; i++)
    chains_pass(&m->tiers[i], w);
  lls_pol_prefixes_pass(&m->index, w);
  lls_pol_state_pass(w, m->holders, m->tiers[0].n_slabs * sizeof *m->holders);
  lls_pol_state_pass(w, m->row_next, m->n_rows * sizeof(uint32_t));
  lls_pol_state_pass(w, m->sequences, m->n_slots * sizeof *m->sequences);
  lls_pol_state_pass(w, m->moving, m->n_slots * sizeof(uint32_t));
  lls_pol_state_pass(w, m->pending.copies, m->pending.n * sizeof *m->pending.copies);
}

static bool sound(const struct tiered *m, const struct sequence *s)
{
  return s->held <= m->row_blocks && s->gone <= s->held && s->indexed <= s->held &&
         (s->row == LLS_POL_NIL || s->row < m->n_rows) &&
         (s->to_row == LLS_POL_NIL || s->to_row < m->n_rows) && s->place <= ON_HOST &&
         (s->row != LLS_POL_NIL || (s->to_row == LLS_POL_NIL && s->held == 0));
}

static int pass_lists(struct tiered *m, struct lls_pol_state_walk *w)
{
  for (uint32_t i = 0; i < m->n_slots; i++) {
    const struct sequence *s = &m->sequences[i];
    const uint32_t rows[] = {s->row, s->to_row};
    if (!sound(m, s))
      return -EINVAL;
    for (uint32_t n = 0; n < 2; n++)
      if (rows[n] != LLS_POL_NIL)
        lls_pol_state_pass(w, list_of(m, rows[n]),
                           s->held * sizeof(struct lls_block_entry));
  }
  return 0;
}

static int pass_all(void *manager, struct lls_pol_state_walk *w)
{
  struct tiered *m = manager;
  int rc = pass_head(m, w);
  if (rc < 0)
    return rc;
  pass_arrays(m, w);
  return lls_pol_state_is_torn(w) ? -EINVAL : pass_lists(m, w);
}

int tiered_export(struct tiered *m, struct lls_blob *out)
{
  if (m->journal.open)
    return -EBUSY;
  return lls_pol_state_export(m, pass_all, 0, STATE_VERSION, out);
}

int tiered_import(struct tiered *m, const struct lls_blob *in)
{
  const struct lls_host *h = m->host;
  if (in->version == LLS_STATE_HOLDINGS)
    return h->fail(h->context, -ENOTSUP,
                   "the state is another cache manager's, and tiered reads only its own: "
                   "its requests are prefilled again");
  if (in->version != STATE_VERSION)
    return h->fail(h->context, -ENOTSUP, "state of version %u, expected %u", in->version,
                   STATE_VERSION);
  int rc = lls_pol_state_import(m, pass_all, in->data, in->bytes);
  for (uint32_t i = 0; i < m->n_slots; i++)
    m->sequences[i].touched = false; /* no transaction of this manager did */
  return rc;
}
