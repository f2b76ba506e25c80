/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies concurrent with the step, so that the step takes the longer of computing and
 * copying (BROS, section 4.1: T = max(t_exec, t_swap)), not their sum.
 *
 * The moves of a plan by UPLOAD or OFFLOAD are copied concurrently with the plan's own
 * step. Checkpoints are made a step before they are needed: a real-time request grows
 * in its current block, and after that in the next block that find_block would return.
 * Requests that arrive meanwhile may need more than `ahead` blocks; such blocks are
 * copied before the step that overwrites them, as all blocks would be without
 * checkpoints.
 *
 * If a request is never displaced, its early copy has only used link bandwidth that was
 * idle. A checkpoint never takes a host block from another copy.
 */
#include "bidirectional.h"

#include <errno.h>

/* ---- checkpoints a step ahead ------------------------------------------------------ */

/* Returns 1 if tokens were copied. A sequence being moved is copied as a whole
 * instead. */
static uint32_t copy_part(struct bidirectional *m, uint32_t part)
{
  uint32_t owner = m->parts[part].owner, before = m->counts[AHEAD];
  if (owner != LLS_POL_NIL && m->sequences[owner].moving == NOT_MOVING)
    bidi_copy_ahead(m, part);
  return m->counts[AHEAD] > before;
}

/* Tokens of the other end that the sequence's next one would displace. */
static void copy_before(struct bidirectional *m, const struct sequence *s,
                        uint32_t *blocks)
{
  uint32_t other = s->last ^ 1;
  if (*blocks > 0 && s->last != LLS_POL_NIL && in_step(m, s) &&
      m->parts[s->last].count + m->parts[other].count == m->side.block_tokens)
    *blocks -= copy_part(m, other);
}

/* Blocks that real-time sequences would begin in, in find_block's order, for a step's
 * worth of tokens. */
static void copy_next_blocks(struct bidirectional *m, uint32_t blocks)
{
  uint32_t wanted = lls_pol_side_blocks(&m->side, m->side.host->engine->max_step_tokens);
  uint32_t free = lls_pol_slabs_available(&m->side.slabs[LLS_TIER_DEVICE]) / m->units;
  wanted -= lls_pol_min(wanted, free);
  for (uint32_t used = 1; used <= m->side.block_tokens; used++) {
    struct block_set set = set_of(m, LLS_LEFT_TO_RIGHT, used);
    for (uint32_t block = bidi_set_next(m, set, 0); block != LLS_POL_NIL;
         block = bidi_set_next(m, set, block + 1)) {
      if (wanted == 0 || blocks == 0)
        return;
      blocks -= copy_part(m, 2 * block + LLS_RIGHT_TO_LEFT);
      wanted--;
    }
  }
}

void bidi_checkpoint_ahead(struct bidirectional *m)
{
  uint32_t blocks = (uint32_t)m->params.ahead;
  if (m->used[LLS_RIGHT_TO_LEFT] == 0 || m->n_host_blocks == 0)
    return;
  for (uint32_t i = 0; i < m->n_grown; i++)
    copy_before(m, &m->sequences[m->grown[i]], &blocks);
  copy_next_blocks(m, blocks);
}

/* ---- whole sequences --------------------------------------------------------------- */

/* Copies all of a sequence, so that each token has a copy when the step ends. */
static int copy_all(struct bidirectional *m, struct sequence *s)
{
  if (is_off(m, s) || in_step(m, s))
    return -EINVAL;
  for (uint32_t at = s->first; at != LLS_POL_NIL; at = m->parts[at].next)
    if (!bidi_copy_ahead(m, at))
      return -ENOSPC;
  return 0;
}

int bidi_start_moving(struct bidirectional *m, struct sequence *s,
                      const struct lls_request *r, enum moving where)
{
  uint32_t mark = m->side.journal.n;
  if (s->moving != NOT_MOVING)
    return -EBUSY;
  if (where == TO_DEVICE && missing_of(m, s) == 0 &&
      side_of(m, s)->where != LLS_POL_ON_HOST)
    return -EINVAL;
  if (!lls_pol_journal_has_room(&m->side.journal, 64 + UINT64_C(8) * s->host_blocks))
    return -ENOSPC;
  bidi_hold_copies(m, s, true);
  set(m, &s->moving, (uint32_t)where);
  int rc = where == TO_HOST ? copy_all(m, s) : bidi_reserve(m, s, r, 0, false);
  if (rc == 0 && where == TO_HOST) /* of the other groups, before the step */
    rc = lls_pol_side_swap_out(&m->side, side_of(m, s));
  if (rc != 0)
    lls_pol_journal_rollback(&m->side.journal, mark);
  return rc <= 0 ? rc : -ENOSPC;
}

void bidi_stop_moving(struct bidirectional *m, struct sequence *s)
{
  bool arrives = s->moving == TO_DEVICE;
  if (s->moving != NOT_MOVING)
    bidi_hold_copies(m, s, false);
  s->moving = NOT_MOVING;
  if (arrives && !m->params.keep_host_copy)
    bidi_free_host(m, s, m->groups);
}

void bidi_moved(struct bidirectional *m, struct sequence *s)
{
  bool leaves = s->moving == TO_HOST;
  bidi_stop_moving(m, s);
  if (leaves)
    bidi_swap_out(m, s);
}
