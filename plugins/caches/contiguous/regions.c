/* SPDX-License-Identifier: Apache-2.0 */
/* Places of sequences: first fit, growing in place, and moving. */
#include "contiguous.h"

/* Changes in the journal for a block that is taken and given back. */
#define CHANGES_PER_BLOCK 48

static const struct lls_pol_slabs *pool_of(const struct contiguous *m)
{
  return &m->side.slabs[LLS_TIER_DEVICE];
}

struct region contiguous_region(const struct contiguous *m,
                                const struct lls_pol_sequence *s)
{
  uint32_t blocks = lls_pol_rows_held(&m->side.rows, s, 0);
  if (blocks == 0)
    return (struct region){0, 0};
  return (struct region){lls_pol_rows_entries(&m->side.rows, s, 0)->block /
                             m->side.units[LLS_TIER_DEVICE][0],
                         blocks};
}

/* ---- gaps ----------------------------------------------------------------------- */

static bool is_in(struct region r, uint32_t block)
{
  return block - r.base < r.blocks; /* wraps around below the base */
}

/* Walks the gaps, as if the region `own` was free; the first of at least `blocks`.
 * Returns the size of the largest one before it. */
static uint32_t find_gap(const struct contiguous *m, struct region own, uint32_t blocks,
                         uint32_t *base)
{
  const struct lls_pol_slabs *pool = pool_of(m);
  uint32_t largest = 0;
  for (uint32_t i = 0, gap = 0; i < pool->n_slabs && largest < blocks; i++) {
    gap = lls_pol_slabs_is_free(pool, i) || is_in(own, i) ? gap + 1 : 0;
    if (gap > largest) {
      largest = gap;
      *base = i + 1 - gap;
    }
  }
  return largest;
}

uint32_t contiguous_largest_gap(const struct contiguous *m)
{
  uint32_t base;
  return find_gap(m, (struct region){0, 0}, UINT32_MAX, &base);
}

static bool can_grow_in_place(const struct contiguous *m, struct region own,
                              uint32_t blocks)
{
  for (uint32_t i = own.blocks; i < blocks; i++)
    if (!lls_pol_slabs_is_free(pool_of(m), own.base + i))
      return false;
  return own.blocks > 0;
}

/* ---- moving --------------------------------------------------------------------- */

/* The two places may overlap, so the copies start at the end that nothing is moved to
 * before it was read. Copies are carried out in the order of the list. */
static void copy_blocks(struct contiguous *m, uint32_t from, uint32_t to, uint32_t cached)
{
  struct lls_pol_side *side = &m->side;
  uint32_t n = lls_pol_side_blocks(&m->side, cached),
           units = side->units[LLS_TIER_DEVICE][0];
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at = to < from ? i : n - 1 - i;
    side->copies[side->n_copies + i] = (struct lls_copy){
        .order = LLS_COPY_BEFORE_STEP,
        .n_slots =
            (uint16_t)lls_pol_min(cached - at * side->block_tokens, side->block_tokens),
        .source = (from + at) * units,
        .target = (to + at) * units,
    };
  }
  lls_pol_journal_set(&side->journal, &side->n_copies, side->n_copies + n);
}

/* Frees the blocks of a region, the last one first. */
static void give_back(struct contiguous *m, struct region own)
{
  struct lls_pol_slabs *pool = &m->side.slabs[LLS_TIER_DEVICE];
  for (uint32_t i = own.base + own.blocks; i-- > own.base;)
    if (lls_pol_slabs_let_go(pool, i * m->side.units[LLS_TIER_DEVICE][0]))
      lls_pol_slabs_free(pool, i * m->side.units[LLS_TIER_DEVICE][0]);
}

/* Takes blocks [from, until) of a region that begins at `base`. */
static void take(struct contiguous *m, const struct lls_pol_sequence *s, uint32_t base,
                 uint32_t from, uint32_t until)
{
  struct lls_pol_side *side = &m->side;
  for (uint32_t i = from; i < until; i++)
    lls_pol_rows_put(&side->rows, s, 0, i,
                     lls_pol_slabs_take_slab(&side->slabs[LLS_TIER_DEVICE], base + i),
                     LLS_FORM_NONE);
  lls_pol_journal_set(&side->journal, &lls_pol_rows_list(&side->rows, s, 0)->past, until);
}

bool contiguous_place(struct contiguous *m, struct lls_pol_sequence *s, uint32_t blocks)
{
  struct lls_pol_side *side = &m->side;
  struct region own = contiguous_region(m, s);
  uint32_t base = own.base;
  bool begins = s->row == LLS_POL_NIL, stays = can_grow_in_place(m, own, blocks);
  if ((begins && side->rows.n_free == 0) || blocks > side->rows.row_blocks ||
      !lls_pol_journal_has_room(&side->journal,
                                CHANGES_PER_BLOCK * (own.blocks + (uint64_t)blocks + 1)))
    return false;
  if (!stays &&
      (find_gap(m, own, blocks, &base) < blocks ||
       side->n_copies + lls_pol_side_blocks(&m->side, s->cached) > side->max_copies))
    return false;
  if (begins)
    lls_pol_rows_begin(&side->rows, s);
  if (!stays && own.blocks > 0 && base != own.base)
    copy_blocks(m, own.base, base, s->cached);
  if (!stays)
    give_back(m, own);
  take(m, s, base, stays ? own.blocks : 0, blocks);
  return true;
}

/* ---- audit ---------------------------------------------------------------------- */

static void audit_region(struct contiguous *m, struct lls_pol_report *a, uint32_t slot)
{
  const struct lls_pol_sequence *s = &m->side.rows.sequences[slot];
  struct region own = contiguous_region(m, s);
  const struct lls_block_entry *entries = lls_pol_rows_entries(&m->side.rows, s, 0);
  for (uint32_t i = 0; i < own.blocks; i++)
    lls_pol_report_check(
        a, entries[i].block == (own.base + i) * m->side.units[LLS_TIER_DEVICE][0],
        "a region in pieces", slot);
  lls_pol_report_say(a, "request %" PRIu64 " at %" PRIu32 ", %" PRIu32 " blocks",
                     s->request, own.base, own.blocks);
  lls_pol_report_end_line(a);
}

void contiguous_audit(void *manager, struct lls_pol_report *a)
{
  struct contiguous *m = manager;
  for (uint32_t slot = 0; slot < m->side.rows.n_slots && a->result == 0; slot++)
    if (m->side.rows.sequences[slot].row != LLS_POL_NIL)
      audit_region(m, a, slot);
}
