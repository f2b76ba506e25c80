/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of block tables: a kernel uses every entry as an index, and entries come from
 * an untrusted cache manager. Also checks blocks to be copied from another engine's
 * pool.
 */
#include <errno.h>
#include <string.h>

#include "core/engine/engine_internal.h"

/*
 * Returns n if all entries are whole blocks in order and in the form of the first, one
 * that steps write, which makes them good and is the usual case; else 0. The loop has no
 * branches: a step of 512 sequences has 25,000 entries.
 */
static uint32_t whole_blocks(const struct lls_engine *e,
                             const struct lls_block_entry *list, uint32_t n,
                             const struct lls_list_check *c)
{
  if (n == 0 || list[0].form > LLS_FORM_HIDDEN)
    return 0;
  uint32_t form = list[0].form;
  const struct lls_block_entry whole = {.count = (uint16_t)e->pool_shape.block_tokens,
                                        .form = (uint8_t)form};
  uint32_t units = e->pool_shape.device_units, expected;
  uint32_t needed = e->groups[c->group].form_units[form];
  uint32_t bad = units < needed || (form == LLS_FORM_HIDDEN) != c->hidden;
  uint32_t last = units - needed, first_token = lls_list_begin(list, n);
  memcpy(&expected, &whole.count, sizeof expected); /* count, direction, form */
  for (uint32_t i = 0; i < n; i++, first_token += whole.count) {
    uint32_t found;
    memcpy(&found, &list[i].count, sizeof found);
    bad |=
        (list[i].block > last) | (list[i].first_token ^ first_token) | (found ^ expected);
  }
  return bad == 0 ? n : 0;
}

/* Checks an INT8 block: it is full and was full before this step, which writes from
 * `context` on. */
static int check_int8(const struct lls_engine *e, const struct lls_block_entry *entry,
                      uint32_t context, struct lls_error *err)
{
  if (e->pool_shape.int8 != LLS_INT8_ALL)
    return lls_fail(err, -ENOTSUP, "blocks of int8 numbers: unsupported by this engine");
  if (entry->count != e->pool_shape.block_tokens || entry->first_token > context ||
      context - entry->first_token < entry->count)
    return lls_fail(err, -EINVAL,
                    "an int8 block of %u tokens from %u on where %u are cached",
                    entry->count, entry->first_token, context);
  return 0;
}

static int check_form(const struct lls_engine *e, const struct lls_block_entry *entry,
                      const struct lls_list_check *c, struct lls_error *err)
{
  if (entry->form > LLS_FORM_INT8 || (entry->form == LLS_FORM_HIDDEN) != c->hidden)
    return lls_fail(err, -ENOTSUP, "a block of form %u in a list of %s", entry->form,
                    c->hidden ? "hidden states" : "keys and values");
  if (entry->form == LLS_FORM_INT8)
    return check_int8(e, entry, c->context, err);
  return 0;
}

int lls_engine_check_begin(const struct lls_group *g, const struct lls_block_entry *list,
                           uint32_t n, uint32_t context, struct lls_error *err)
{
  uint32_t begin = lls_list_begin(list, n);
  uint32_t latest = lls_group_begin(g, context);
  if (begin <= latest)
    return 0;
  return lls_fail(err, -EINVAL,
                  "the block table begins with token %u where token %u is still read, "
                  "after %u cached ones and with a window of %u (0 = none)",
                  begin, latest, context, g->window);
}

int lls_engine_check_entries(const struct lls_engine *e,
                             const struct lls_block_entry *list, uint32_t n,
                             const struct lls_list_check *c, struct lls_error *err)
{
  const uint32_t *units = e->groups[c->group].form_units;
  uint32_t i = c->from > 0 ? c->from : whole_blocks(e, list, n, c);
  uint32_t covered =
      i > 0 ? list[i - 1].first_token + list[i - 1].count : lls_list_begin(list, n);
  for (; i < n; i++) {
    const struct lls_block_entry *entry = &list[i];
    int rc = check_form(e, entry, c, err);
    if (rc < 0)
      return rc;
    if (entry->direction > LLS_RIGHT_TO_LEFT)
      return lls_fail(err, -EINVAL,
                      "block table entry %u fills its block in direction %u", i,
                      entry->direction);
    if (entry->block + (uint64_t)units[entry->form] > e->pool_shape.device_units)
      return lls_fail(err, -EINVAL, "block of %u units from unit %u on of %u in the pool",
                      units[entry->form], entry->block, e->pool_shape.device_units);
    if (entry->first_token != covered || entry->count == 0 ||
        entry->count > e->pool_shape.block_tokens)
      return lls_fail(err, -EINVAL,
                      "block table entry %u has %u tokens from %u on where token %u is "
                      "next",
                      i, entry->count, entry->first_token, covered);
    covered += entry->count;
  }
  if (covered < c->needed)
    return lls_fail(err, -EINVAL, "the block table covers %u of %u tokens", covered,
                    c->needed);
  return 0;
}

/* ---- blocks of other engines ------------------------------------------------------ */

const char *lls_engine_why_no_pull(const struct lls_engine *e,
                                   const struct lls_engine *from)
{
  if (lls_engine_is_shared(e) || lls_engine_is_shared(from))
    return "each is shared out to ranks";
  if (e->device->ops != from->device->ops || e->device->ops->pool_pull == NULL)
    return "their devices cannot reach each other's memory";
  if (!lls_pools_match(&e->pool_shape, &from->pool_shape))
    return "their blocks are not alike";
  return NULL;
}

int lls_engine_check_pulls(const struct lls_engine *e,
                           const struct lls_engine_batch *batch, struct lls_error *err)
{
  for (uint32_t i = 0; i < batch->n_pulls; i++) {
    const char *why = lls_engine_why_no_pull(e, batch->pulls[i].from);
    if (why != NULL)
      return lls_fail(err, -ENOTSUP, "blocks of another instance: %s", why);
  }
  return 0;
}
