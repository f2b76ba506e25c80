/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the invariants of prefixes.h and writes the index as text, which is equal for
 * equal states. */
#include <llmserve/policy/prefixes.h>

#include <string.h>

static void clear_marks(struct lls_pol_prefixes *p)
{
  memset(p->marks, 0, p->n_blocks * sizeof *p->marks);
}

/* Checks that each indexed block is in exactly one chain and each number in range. */
bool lls_pol_prefixes_audit_index(struct lls_pol_prefixes *p, struct lls_pol_report *a)
{
  clear_marks(p);
  for (uint32_t i = 0; i <= p->bucket_mask; i++)
    for (uint32_t b = p->buckets[i]; b != LLS_POL_NIL; b = p->blocks[b].bucket_next)
      if (!lls_pol_report_check(a, b < p->n_blocks, "index leads outside", b) ||
          !lls_pol_report_check(a, p->marks[b]++ == 0, "twice in the index", b))
        return false;
  for (uint32_t b = 0; b < p->n_blocks; b++) {
    uint32_t parent = p->blocks[b].parent;
    lls_pol_report_check(a, (parent != LLS_POL_NIL) == (p->marks[b] != 0),
                         "not in the index, or lost in it", b);
    lls_pol_report_check(
        a, parent < p->n_blocks || parent == LLS_POL_NIL || parent == LLS_POL_ROOT,
        "parent number too large", b);
  }
  return a->result == 0;
}

/* True if the parent of block b is a block still in the index. Without a window a parent
 * is never evicted before its children. */
static bool has_parent(const struct lls_pol_prefixes *p, uint32_t b)
{
  uint32_t parent = p->blocks[b].parent;
  return parent < p->n_blocks && lls_pol_prefixes_is_parent(p, parent, b);
}

static void audit_children(struct lls_pol_prefixes *p, struct lls_pol_report *a)
{
  clear_marks(p);
  for (uint32_t b = 0; b < p->n_blocks; b++)
    if (has_parent(p, b))
      p->marks[p->blocks[b].parent]++;
  for (uint32_t b = 0; b < p->n_blocks; b++)
    lls_pol_report_check(a, p->marks[b] == p->blocks[b].children,
                         "children are counted wrong", b);
}

static void check_family(struct lls_pol_prefixes *p, struct lls_pol_report *a, uint32_t b)
{
  const struct lls_pol_block *block = &p->blocks[b];
  bool first = block->parent == LLS_POL_ROOT, found = first || has_parent(p, b);
  lls_pol_report_say(a, "%s", found ? "" : ", which has gone");
  lls_pol_report_check(a, found || p->orphans, "in the index without its parent", b);
  lls_pol_report_check(
      a, !found || lls_pol_prefixes_find(p, block->parent, &p->keys[b]) == b,
      "not found in the index", b);
  if (first || !found)
    return;
  const struct lls_pol_block *parent = &p->blocks[block->parent];
  lls_pol_report_check(a, parent->parent != LLS_POL_NIL,
                       "in the index without its parent", b);
  lls_pol_report_check(a, p->orphans || parent->references >= block->references,
                       "held without its parent", b);
}

static void audit_block(struct lls_pol_prefixes *p, struct lls_pol_report *a, uint32_t b)
{
  const struct lls_pol_block *block = &p->blocks[b];
  if (block->references == 0 && block->parent == LLS_POL_NIL)
    return;
  lls_pol_report_say(a, "block %" PRIu32 ": held by %" PRIu32, b, block->references);
  if (block->parent != LLS_POL_NIL) {
    lls_pol_report_say(a, ", after %" PRId32 ", key %016" PRIx64,
                       block->parent == LLS_POL_ROOT ? -1 : (int32_t)block->parent,
                       p->keys[b].word[0]);
    check_family(p, a, b);
  }
  lls_pol_report_end_line(a);
}

static void audit_reusable(struct lls_pol_prefixes *p, struct lls_pol_report *a)
{
  uint32_t before = LLS_POL_NIL, n = 0;
  clear_marks(p);
  lls_pol_report_say(a, "reusable %" PRIu32 ":", p->n_reusable);
  for (uint32_t b = p->reusable_first; b != LLS_POL_NIL && a->result == 0; n++) {
    if (!lls_pol_report_check(a, b < p->n_blocks, "list leads outside", b) ||
        !lls_pol_report_check(a, p->marks[b] == 0, "twice on a list", b))
      break;
    p->marks[b] = 1; /* a parent that is met later must not have this mark yet */
    lls_pol_report_say(a, " %" PRIu32, b);
    const struct lls_pol_block *block = &p->blocks[b];
    lls_pol_report_check(a, block->previous == before, "broken list of reusable blocks",
                         b);
    lls_pol_report_check(a, block->parent != LLS_POL_NIL, "reusable but not in the index",
                         b);
    lls_pol_report_check(
        a, p->orphans || block->parent >= p->n_blocks || !p->marks[block->parent],
        "older than its child", b);
    before = b;
    b = block->next;
  }
  lls_pol_report_end_line(a);
  lls_pol_report_check(a, n == p->n_reusable, "list and counter differ", n);
  lls_pol_report_check(a, p->reusable_last == before, "broken end of the reusable list",
                       before);
}

void lls_pol_prefixes_audit(struct lls_pol_prefixes *p, struct lls_pol_report *a)
{
  for (uint32_t b = 0; b < p->n_blocks; b++)
    audit_block(p, a, b);
  audit_children(p, a);
  audit_reusable(p, a);
  for (uint32_t b = 0; b < p->n_blocks && a->result == 0; b++)
    lls_pol_report_check(a,
                         p->marks[b] == (p->blocks[b].references == 0 &&
                                         p->blocks[b].parent != LLS_POL_NIL),
                         "neither held nor reusable, or both", b);
}
