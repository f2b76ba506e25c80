/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that holds digests in the place of K and V vectors; see fake.h. */
#include "t/tap.h"

#include "t/plugin/fake.h"

/* A block of the cache's own numbers is where its unit's first half is; whoever writes
 * one or the other leaves nothing of what was there. */
static uint64_t *slot_at(const struct fake_memory *m, uint32_t tier, uint32_t block,
                         uint32_t element, uint32_t slot)
{
  uint32_t half = element == LLS_ELEMENT_INT8 ? block : 2 * block;
  assert_true(element <= LLS_ELEMENT_INT8 && half < 2 * m->units[tier]);
  assert_true(slot < m->block_tokens);
  return &m->slots[tier][(size_t)half * m->block_tokens + slot];
}

static void write_slot(const struct fake_memory *m, uint32_t tier, uint32_t block,
                       uint32_t element, uint32_t slot, uint64_t value)
{
  uint64_t *at = slot_at(m, tier, block, element, slot);
  *at = value;
  if (element == LLS_ELEMENT_MODEL)
    at[m->block_tokens] = 0;
}

void fake_memory_copy(struct fake_memory *m, const struct lls_copy *c)
{
  uint32_t from = c->kind == LLS_COPY_HOST_TO_DEVICE ? LLS_TIER_HOST : LLS_TIER_DEVICE;
  uint32_t to = c->kind == LLS_COPY_DEVICE_TO_HOST ? LLS_TIER_HOST : LLS_TIER_DEVICE;
  assert_int_equal(c->order == LLS_COPY_ASYNC, c->transfer != 0);
  assert_true(c->n_slots > 0);
  if (c->source_element != LLS_ELEMENT_MODEL || c->target_element != LLS_ELEMENT_MODEL)
    assert_int_equal(c->n_slots, m->block_tokens);
  for (uint32_t i = 0; i < c->n_slots; i++)
    write_slot(m, to, c->target, c->target_element, (uint32_t)(c->slot + c->shift) + i,
               *slot_at(m, from, c->source, c->source_element, c->slot + i));
}

/* K, V and X of one token differ. */
static uint64_t value_of(uint64_t digest, uint32_t list)
{
  static const uint64_t letters[] = {0x4b4b4b4b, 0x56565656, 0x58585858};
  return digest ^ letters[list];
}

static void visit(const struct fake_memory *m, const struct lls_block_entry *list,
                  uint32_t n, uint32_t which, const uint64_t *digests, uint32_t from,
                  uint32_t to, bool write)
{
  uint32_t covered = 0;
  for (uint32_t i = 0; i < n && covered < to; i++) {
    const struct lls_block_entry *e = &list[i];
    assert_int_equal(e->first_token, covered);
    assert_in_range(e->count, 1, m->block_tokens);
    for (uint32_t j = 0; j < e->count && covered < to; j++, covered++) {
      uint32_t slot = e->direction == LLS_LEFT_TO_RIGHT ? j : m->block_tokens - 1 - j;
      uint64_t value = value_of(digests[covered], which);
      assert_true(covered < from || !write || e->element == LLS_ELEMENT_MODEL);
      if (covered >= from && write)
        write_slot(m, LLS_TIER_DEVICE, e->block, e->element, slot, value);
      else if (covered >= from &&
               *slot_at(m, LLS_TIER_DEVICE, e->block, e->element, slot) != value)
        fail_msg("token %u: unit %u slot %u has not what was computed for it", covered,
                 e->block, slot);
    }
  }
  assert_true(covered >= to);
}

void fake_memory_write(struct fake_memory *m, const struct lls_block_table *t,
                       const uint64_t *digests, uint32_t from, uint32_t to)
{
  if (t->form == LLS_FORM_HIDDEN) {
    visit(m, t->x, t->x_count, 2, digests, from, to, true);
    return;
  }
  assert_int_equal(t->form, LLS_FORM_KV);
  if (t->x_count > 0) { /* restored into K and V first */
    visit(m, t->x, t->x_count, 2, digests, 0, from, false);
    from = 0;
  }
  visit(m, t->k, t->k_count, 0, digests, from, to, true);
  visit(m, t->v, t->v_count, 1, digests, from, to, true);
}

void fake_memory_check(const struct fake_memory *m, const struct lls_block_table *t,
                       const uint64_t *digests, uint32_t n)
{
  if (t->form == LLS_FORM_HIDDEN) {
    visit(m, t->x, t->x_count, 2, digests, 0, n, false);
    return;
  }
  visit(m, t->k, t->k_count, 0, digests, 0, n, false);
  visit(m, t->v, t->v_count, 1, digests, 0, n, false);
}
