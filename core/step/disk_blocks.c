/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of the disk tier: which of them the disk has, and how the cache manager takes
 * one that was read; for requests (disk_tier.c) and sessions (disk_fetch.c). */
#include <errno.h>

#include "core/disk/block_int8.h"
#include "core/engine/engine.h"
#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"
#include "core/instance/running_policy.h"
#include "core/step/disk_inside.h"

static bool reads_all(const struct lls_instance *in, uint32_t group)
{
  return in->caps.groups[group]->kind == LLS_GROUP_FULL;
}

uint32_t lls_disk_leading_blocks(const struct lls_instance *in,
                                 const struct lls_key *keys, uint32_t most)
{
  const struct lls_disk_tier *d = in->disk;
  uint32_t tokens = lls_engine_pool_shape(in->engine)->block_tokens, n = 0;
  uint32_t runs[LLS_MAX_GROUPS] = {0};
  for (uint32_t i = 1; i <= most; i++) {
    uint32_t groups = lls_block_store_peek(d->store, &keys[i - 1]);
    bool all = true;
    for (uint32_t group = 0; group < d->n_groups; group++) {
      runs[group] = groups >> group & 1 ? runs[group] + 1 : 0;
      uint32_t begin = lls_group_begin(in->caps.groups[group], i * tokens) / tokens;
      bool has = runs[group] >= i - begin;
      if (!has && reads_all(in, group))
        return n;
      all &= has;
    }
    n = all ? i : n;
  }
  return n;
}

/* Without the first block the others are of no use, so it is used last, and leaves the
 * disk after them. */
void lls_disk_use(struct lls_instance *in, const struct lls_key *keys, uint32_t n)
{
  for (uint32_t i = n; i-- > 0;)
    lls_block_store_find(in->disk->store, &keys[i]);
}

int lls_disk_read_unit(struct lls_instance *in, uint32_t group, uint32_t unit,
                       char *record)
{
  const struct lls_disk_tier *d = in->disk;
  char *to = record + d->offset[group];
  int rc = lls_engine_read_block(in->engine, group, unit, d->wide != NULL ? d->wide : to);
  if (rc < 0 || d->wide == NULL)
    return rc;
  return lls_int8_pack(d->element, d->numbers[group], d->wide, to) ? 0 : -ERANGE;
}

static int write_unit(struct lls_instance *in, uint32_t group, uint32_t unit,
                      const void *contents)
{
  const struct lls_disk_tier *d = in->disk;
  if (d->wide != NULL)
    lls_int8_unpack(d->element, d->numbers[group], contents, d->wide);
  return lls_engine_write_block(in->engine, group, unit,
                                d->wide != NULL ? d->wide : contents);
}

/* A manager that names units which the pool does not have shares what nothing has filled:
 * no prefixes are taken from it any more. */
static void fill(struct lls_instance *in, const struct lls_kept_block *b,
                 const char *contents)
{
  if (in->disk->simulated || write_unit(in, b->group, b->unit, contents) == 0)
    return;
  in->policies.cache.host->bad_prefix = true;
  lls_cache_breach(in, "adopt: unit %u is none of the pool's: no prefixes are taken",
                   b->unit);
}

bool lls_disk_land(struct lls_instance *in, const struct lls_disk_wait *w,
                   const struct lls_block_read *read)
{
  const struct lls_disk_tier *d = in->disk;
  const struct lls_pool_shape *pool = lls_engine_pool_shape(in->engine);
  uint32_t all = w->n_blocks * pool->block_tokens;
  bool taken = false;
  for (uint32_t group = 0; group < d->n_groups; group++) {
    struct lls_kept_block b = {.parent = LLS_NO_BLOCK,
                               .group = group,
                               .form = d->form[group],
                               .unit = LLS_NO_BLOCK,
                               .key = read->key};
    if (!LLS_HAS(&in->policies, cache, adopt) ||
        w->landed < lls_group_begin(in->caps.groups[group], all) / pool->block_tokens ||
        LLS_CALL(&in->policies, cache, adopt, &b, 1) != 1)
      continue;
    fill(in, &b, (const char *)read->record + d->offset[group]);
    taken = true;
  }
  return taken;
}

bool lls_disk_is_far_ahead(const struct lls_instance *in, uint64_t tokens)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(in->engine);
  uint64_t ahead = in->disk_ahead + in->disk->coming;
  return ahead + tokens > lls_pool_tokens(pool, pool->device_units) / 2;
}
