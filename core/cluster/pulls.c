/* SPDX-License-Identifier: Apache-2.0 */
/* See pulls.h. */
#include "core/cluster/pulls.h"

#include "core/base/least.h"
#include "core/engine/engine.h"

/* Returns the slot of a token in an entry's block. */
static uint32_t slot_in(const struct lls_block_entry *e, uint32_t token,
                        uint32_t block_tokens)
{
  uint32_t index = token - e->first_token;
  return e->direction == LLS_LEFT_TO_RIGHT ? index : block_tokens - 1 - index;
}

/*
 * Computes how the next tokens are copied from entry a to b: as a whole block if both
 * begin and fill it alike, however full it is; else as a run of slots; or token by
 * token if one is filled from the left and the other from the right. Returns the number
 * of tokens.
 */
static uint32_t pull_of(const struct lls_block_entry *a, const struct lls_block_entry *b,
                        uint32_t token, uint32_t end, uint32_t block_tokens,
                        struct lls_pull *out)
{
  uint32_t n =
      lls_least_u32(a->first_token + a->count, b->first_token + b->count) - token;
  bool alike = a->direction == b->direction;
  n = alike ? lls_least_u32(n, end - token) : 1;
  uint32_t from = slot_in(a, token, block_tokens), to = slot_in(b, token, block_tokens);
  *out =
      (struct lls_pull){.source = a->block, .target = b->block, .source_form = a->form};
  if (alike && a->direction == LLS_RIGHT_TO_LEFT)
    from -= n - 1, to -= n - 1;
  bool whole = alike && a->first_token == b->first_token && token == a->first_token &&
               a->count == block_tokens && b->count == block_tokens;
  out->source_slot = (uint16_t)(whole ? 0 : from);
  out->target_slot = (uint16_t)(whole ? 0 : to);
  out->n_slots = (uint16_t)(whole ? block_tokens : n);
  return n;
}

/* Appends the copies of tokens [oldest, end) from list a to list b, and of earlier
 * tokens that are in both lists. */
static bool append_list(struct lls_pulls *p, const struct lls_block_entry *a,
                        uint32_t n_a, const struct lls_block_entry *b, uint32_t n_b,
                        uint32_t oldest, uint32_t end, uint32_t block_tokens)
{
  uint32_t both = lls_most_u32(lls_list_begin(a, n_a), lls_list_begin(b, n_b));
  uint32_t begin = n_a > 0 && n_b > 0 ? both : oldest;
  for (uint32_t token = begin, i = 0, j = 0; token < end;) {
    while (i < n_a && a[i].first_token + a[i].count <= token)
      i++;
    while (j < n_b && b[j].first_token + b[j].count <= token)
      j++;
    if (i == n_a || j == n_b || b[j].form == LLS_FORM_INT8 || p->n == p->max)
      return false;
    token += pull_of(&a[i], &b[j], token, end, block_tokens, &p->list[p->n++]);
  }
  return true;
}

/* Appends the copy of a state, which is all that a sequence has in its group. */
static bool append_state(struct lls_pulls *p, const struct lls_group_list *from,
                         const struct lls_group_list *to, uint32_t tokens)
{
  if (from->n_entries == 0 || to->n_entries == 0 || p->n == p->max ||
      from->entries[0].first_token != tokens)
    return false;
  p->list[p->n++] = (struct lls_pull){.source = from->entries[0].block,
                                      .target = to->entries[to->n_entries - 1].block,
                                      .source_form = LLS_FORM_STATE};
  return true;
}

static bool append_group(struct lls_pulls *p, const struct lls_group_list *from,
                         const struct lls_group_list *to, uint32_t tokens,
                         const struct lls_group *group, uint32_t block_tokens)
{
  if (group->kind == LLS_GROUP_STATE)
    return append_state(p, from, to, tokens);
  bool hidden = lls_list_form(from) == LLS_FORM_HIDDEN;
  uint32_t oldest = hidden ? 0 : lls_group_begin(group, tokens);
  return lls_list_form(from) == lls_list_form(to) && to->n_restored == 0 &&
         append_list(p, from->entries, from->n_entries, to->entries, to->n_entries,
                     oldest, tokens, block_tokens);
}

bool lls_pulls_append(struct lls_pulls *p, const struct lls_block_lists *from,
                      const struct lls_block_table *to, uint32_t tokens,
                      const struct lls_group *const *groups, uint32_t block_tokens)
{
  const uint32_t before = p->n;
  bool good = from->n_groups == to->n_groups;
  for (uint32_t i = 0; i < from->n_groups && good; i++) {
    uint32_t first = p->n;
    good =
        append_group(p, &from->lists[i], &to->lists[i], tokens, groups[i], block_tokens);
    for (; first < p->n; first++)
      p->list[first].group = (uint8_t)i;
  }
  if (!good)
    p->n = before;
  return good;
}

/* ---- lists that are kept ----------------------------------------------------------- */

bool lls_lists_copy(struct lls_block_lists *out, const struct lls_group_list *lists,
                    uint32_t n_groups, uint32_t tokens, struct lls_block_entry *to,
                    uint32_t max)
{
  uint32_t used = 0;
  *out = (struct lls_block_lists){0};
  for (uint32_t i = 0; i < n_groups; i++) {
    const struct lls_group_list *l = &lists[i];
    uint32_t n = 0;
    /* a state, of which `count` is 0, has seen all tokens */
    for (; n < l->n_entries &&
           (l->entries[n].count == 0 || l->entries[n].first_token < tokens);
         n++) {
      if (used + n == max)
        return false;
      to[used + n] = l->entries[n];
    }
    if (l->n_restored > 0)
      return false;
    out->lists[i] = (struct lls_group_list){.entries = to + used, .n_entries = n};
    used += n;
  }
  out->n_groups = n_groups;
  return true;
}

size_t lls_lists_entries(const struct lls_block_lists *b)
{
  size_t n = 0;
  for (uint32_t i = 0; i < b->n_groups && i < LLS_MAX_GROUPS; i++)
    n += b->lists[i].n_entries;
  return n;
}

void lls_lists_move(struct lls_block_lists *b, const struct lls_block_entry *entries)
{
  for (uint32_t i = 0; i < b->n_groups; i++) {
    b->lists[i].entries = entries;
    entries += b->lists[i].n_entries;
  }
}
