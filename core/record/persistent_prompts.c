/* SPDX-License-Identifier: Apache-2.0 */
/* See persistent_prompts.h. */
#include "core/record/persistent_prompts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/error.h"
#include "core/disk/block_file.h"
#include "core/engine/engine.h"
#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"
#include "core/instance/running_policy.h"
#include "core/obs/log.h"
#include "core/plugin/loader.h"
#include "core/record/persistent_shape.h"

/* ---- whether prompts are kept, and where ------------------------------------------- */

/* Returns why this instance can keep no prompts, or NULL if it can. */
static const char *why_none(const struct lls_instance *in)
{
  const struct lls_cache_vtable *cache = &in->policies.cache.module->cache;
  if (cache->kept == NULL)
    return "this cache manager keeps none (paged and tiered do)";
  if (!lls_engine_reads_blocks(in->engine))
    return "they cannot be read from this device, or are divided among ranks";
  return in->model_folder == NULL ? "the model has no folder" : NULL;
}

static bool path_of(const struct lls_instance *in, char path[PATH_MAX])
{
  int n = in->prompts_folder != NULL ? snprintf(path, PATH_MAX, "%s/prompts-%u",
                                                in->prompts_folder, in->info.index)
                                     : 0;
  return n > 0 && n < PATH_MAX;
}

/* How many of the blocks are group 0's, each of other tokens. */
static size_t first_group(const struct lls_kept_block *blocks, size_t n)
{
  size_t count = 0;
  for (size_t i = 0; i < n; i++)
    count += blocks[i].group == 0;
  return count;
}

/* ---- the file ---------------------------------------------------------------------- */

/* A file that is read or written. A block of group i takes parts[i] records in a row. */
struct prompts_file {
  struct lls_block_file file;
  struct lls_persistent_shape shape;
  char identity[LLS_BLOCK_IDENTITY];
  size_t record_bytes;
  uint32_t parts[LLS_MAX_GROUPS];
  char *room; /* of the longest block */
};

/* Records are as long as the shortest block, in whole pages, so that the parts of a block
 * lie in `room` one after the other. */
static int lay_out(struct lls_instance *in, struct prompts_file *f)
{
  uint64_t least = UINT64_MAX;
  uint32_t most = 0;
  *f = (struct prompts_file){.file = {.fd = -1, .data_fd = -1},
                             .shape = lls_persistent_shape_of(in)};
  _Static_assert(sizeof f->shape <= sizeof f->identity, "a shape is an identity");
  memcpy(f->identity, &f->shape, sizeof f->shape);
  for (uint32_t i = 0; i < LLS_MAX_GROUPS; i++)
    if (f->shape.block_bytes[i] > 0 && f->shape.block_bytes[i] < least)
      least = f->shape.block_bytes[i];
  f->record_bytes = (least + LLS_BLOCK_PAGE - 1) / LLS_BLOCK_PAGE * LLS_BLOCK_PAGE;
  for (uint32_t i = 0; i < LLS_MAX_GROUPS; i++) {
    f->parts[i] =
        (uint32_t)((f->shape.block_bytes[i] + f->record_bytes - 1) / f->record_bytes);
    most = f->parts[i] > most ? f->parts[i] : most;
  }
  f->room = aligned_alloc(LLS_BLOCK_PAGE, most * f->record_bytes);
  return f->room != NULL ? 0 : -ENOMEM;
}

static void close_file(struct prompts_file *f)
{
  lls_block_file_close(&f->file);
  free(f->room);
}

/* ---- reading ----------------------------------------------------------------------- */

static int read_block(struct prompts_file *f, const struct lls_block_entry_on_disk *e,
                      uint32_t slot, uint32_t group)
{
  int rc = 0;
  for (uint32_t part = 0; part < f->parts[group] && rc == 0; part++)
    rc = lls_block_file_read(&f->file, slot + part, &e[slot + part],
                             f->room + part * f->record_bytes);
  return rc;
}

/* Returns the group of the block that begins in the slot, or LLS_MAX_GROUPS: there is
 * none that is whole. */
static uint32_t group_of(const struct prompts_file *f,
                         const struct lls_block_entry_on_disk *e, uint32_t slot)
{
  uint32_t group = 0, n = f->file.n_slots - slot;
  while (group < LLS_MAX_GROUPS && e[slot].groups != 1u << group)
    group++;
  if (group == LLS_MAX_GROUPS || f->parts[group] == 0 || f->parts[group] > n)
    return LLS_MAX_GROUPS;
  for (uint32_t part = 0; part < f->parts[group]; part++)
    if (e[slot + part].part != part || e[slot + part].groups != e[slot].groups ||
        !lls_key_equal(&e[slot + part].key, &e[slot].key))
      return LLS_MAX_GROUPS;
  return group;
}

/* Lists the blocks up to the first that is damaged. */
static uint32_t list_blocks(struct prompts_file *f,
                            const struct lls_block_entry_on_disk *e,
                            struct lls_kept_block *out)
{
  uint32_t n = 0, slot = 0;
  while (slot < f->file.n_slots) {
    uint32_t group = group_of(f, e, slot);
    bool follows = e[slot].parent == LLS_NO_BLOCK || e[slot].parent < n;
    if (group == LLS_MAX_GROUPS || !follows || read_block(f, e, slot, group) < 0)
      break;
    out[n++] = (struct lls_kept_block){.parent = e[slot].parent,
                                       .group = group,
                                       .form = f->shape.block_form[group],
                                       .unit = LLS_NO_BLOCK,
                                       .key = e[slot].key};
    slot += f->parts[group];
  }
  return n;
}

/* Fills the blocks that the manager took. After one that cannot be read any more, or that
 * the pool has not, no prefixes are taken from the manager. */
static int fill(struct lls_instance *in, struct prompts_file *f,
                const struct lls_block_entry_on_disk *e,
                const struct lls_kept_block *blocks, size_t n, struct lls_error *err)
{
  uint32_t slot = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t group = blocks[i].group;
    if (group >= LLS_MAX_GROUPS || e[slot].groups != 1u << group)
      return lls_fail(err, -EPROTO, "%s: adopt has changed a block's group",
                      in->policies.cache.host->name);
    if (read_block(f, e, slot, group) < 0) {
      in->policies.cache.host->bad_prefix = true;
      lls_log(in->log, LLS_LOG_WARNING, "cache",
              "a file of kept prompts cannot be read again: no prefixes are taken");
      return 0;
    }
    int rc = lls_engine_write_block(in->engine, group, blocks[i].unit, f->room);
    if (rc < 0)
      return lls_fail(err, rc, "%s: adopt names a block that the pool has not",
                      in->policies.cache.host->name);
    slot += f->parts[group];
  }
  return 0;
}

static int take(struct lls_instance *in, const char *path, struct prompts_file *f,
                struct lls_block_entry_on_disk *e, struct lls_kept_block *blocks,
                struct lls_error *err)
{
  uint32_t slots = 0, n = 0;
  if (lls_block_file_entries(&f->file, e) == 0)
    n = list_blocks(f, e, blocks);
  for (uint32_t i = 0; i < n; i++)
    slots += f->parts[blocks[i].group];
  if (slots < f->file.n_slots)
    lls_log(in->log, LLS_LOG_WARNING, "cache",
            "%s: damaged: %u blocks before the damage are taken", path, n);
  size_t taken = LLS_CALL(&in->policies, cache, adopt, blocks, n);
  if (taken > n)
    return lls_fail(err, -EPROTO, "%s: adopt took more blocks than there are",
                    in->policies.cache.host->name);
  lls_log(in->log, LLS_LOG_INFO, "cache", "%zu tokens of kept prompts are taken from %s",
          first_group(blocks, taken) * f->shape.block_tokens, path);
  return fill(in, f, e, blocks, taken, err);
}

static int read_file(struct lls_instance *in, const char *path, struct prompts_file *f,
                     struct lls_error *err)
{
  struct lls_error why = {0};
  int rc = lls_block_file_open_found(path, f->identity, f->record_bytes, &f->file, &why);
  if (rc < 0 && rc != -ENOENT)
    lls_log(in->log, LLS_LOG_WARNING, "cache", "%s; the cache begins empty",
            lls_error_text(&why, rc));
  if (rc < 0)
    return 0;
  struct lls_block_entry_on_disk *entries = calloc(f->file.n_slots, sizeof *entries);
  struct lls_kept_block *blocks = calloc(f->file.n_slots, sizeof *blocks);
  rc = entries != NULL && blocks != NULL ? take(in, path, f, entries, blocks, err)
                                         : lls_fail(err, -ENOMEM, "out of memory");
  free(entries);
  free(blocks);
  return rc;
}

int lls_persistent_prompts_read(struct lls_instance *in, struct lls_error *err)
{
  char path[PATH_MAX];
  struct prompts_file file;
  if (in->prompts_bytes == 0 || !path_of(in, path))
    return 0;
  if (why_none(in) != NULL) {
    lls_log(in->log, LLS_LOG_WARNING, "cache", "[cache] kept_prompts: none are kept: %s",
            why_none(in));
    return 0;
  }
  int rc = lay_out(in, &file);
  rc = rc == 0 ? read_file(in, path, &file, err) : lls_fail(err, rc, "out of memory");
  close_file(&file);
  return rc;
}

/* ---- writing ----------------------------------------------------------------------- */

static int write_block(struct lls_instance *in, struct prompts_file *f, uint32_t slot,
                       const struct lls_kept_block *b)
{
  size_t bytes = f->shape.block_bytes[b->group];
  int rc = lls_engine_read_block(in->engine, b->group, b->unit, f->room);
  memset(f->room + bytes, 0, f->parts[b->group] * f->record_bytes - bytes);
  for (uint32_t part = 0; part < f->parts[b->group] && rc == 0; part++) {
    struct lls_block_entry_on_disk e = {.key = b->key,
                                        .sequence = slot + part + UINT64_C(1),
                                        .groups = 1u << b->group,
                                        .part = part,
                                        .parent = b->parent};
    rc =
        lls_block_file_write(&f->file, slot + part, &e, f->room + part * f->record_bytes);
  }
  return rc;
}

/* Writes another file, which replaces the one before when it is whole. */
static int write_file(struct lls_instance *in, const char *path, struct prompts_file *f,
                      const struct lls_kept_block *blocks, size_t n, uint32_t slots,
                      struct lls_error *err)
{
  char new[PATH_MAX];
  bool emptied;
  uint32_t slot = 0;
  if (snprintf(new, sizeof new, "%s.new", path) >= (int)sizeof new)
    return lls_fail(err, -ENAMETOOLONG, "%s: too long for a path", path);
  remove(new);
  int rc = lls_block_file_open(new, f->identity, f->record_bytes,
                               lls_block_file_bytes(f->record_bytes, slots), NULL,
                               &f->file, &emptied, err);
  if (rc < 0)
    return rc;
  for (size_t i = 0; i < n && rc == 0; slot += f->parts[blocks[i++].group])
    rc = write_block(in, f, slot, &blocks[i]);
  if (rc == 0 && rename(new, path) < 0)
    rc = -errno;
  if (rc == 0)
    return 0;
  remove(new);
  return lls_fail(err, rc, "%s: cannot write: %s", path, strerror(-rc));
}

/* Returns how many of the first blocks fit into the space for them, and their slots. */
static size_t that_fit(const struct prompts_file *f, const struct lls_kept_block *blocks,
                       size_t n, uint64_t bytes, uint32_t *slots)
{
  struct lls_block_file room;
  size_t i = 0;
  *slots = 0;
  if (lls_block_file_size(f->record_bytes, bytes, &room, NULL) < 0)
    return 0;
  for (; i < n && f->parts[blocks[i].group] <= room.n_slots - *slots; i++)
    *slots += f->parts[blocks[i].group];
  return i;
}

static void write_blocks(struct lls_instance *in, const char *path,
                         const struct lls_kept_block *blocks, size_t n)
{
  struct lls_error why = {0};
  struct prompts_file file;
  uint32_t slots = 0;
  int rc = lay_out(in, &file);
  n = rc == 0 ? that_fit(&file, blocks, n, in->prompts_bytes, &slots) : n;
  if (rc == 0 && n > 0)
    rc = write_file(in, path, &file, blocks, n, slots, &why);
  if (rc < 0)
    lls_log(in->log, LLS_LOG_WARNING, "cache", "%s; prompts are not kept",
            lls_error_text(&why, rc));
  else if (n > 0)
    lls_log(in->log, LLS_LOG_INFO, "cache", "%zu tokens of prompts are kept in %s",
            first_group(blocks, n) * file.shape.block_tokens, path);
  close_file(&file);
}

static bool is_kept(const struct lls_pool_shape *pool,
                    const struct lls_persistent_shape *s, const struct lls_kept_block *b)
{
  if (b->group >= lls_pool_groups(pool) || b->form != s->block_form[b->group])
    return false;
  const struct lls_pool_shape group = lls_group_shape(pool, b->group);
  return lls_block_fits(&group, false, b->form, b->unit);
}

/* Returns true if each block follows its parent and lies in the pool, in the form that
 * steps write. */
static bool are_kept(struct lls_instance *in, const struct lls_persistent_shape *s,
                     const struct lls_kept_block *blocks, size_t n, size_t max)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(in->engine);
  size_t i = 0;
  while (i < n && n <= max && is_kept(pool, s, &blocks[i]) &&
         (blocks[i].parent == LLS_NO_BLOCK || blocks[i].parent < i))
    i++;
  if (i < n)
    lls_cache_breach(in, "kept: block %zu of %zu (%zu at most) is none of the pool's", i,
                     n, max);
  return i == n;
}

/* Writes the file; if there are no blocks to write, the previous file stays. */
void lls_persistent_prompts_write(struct lls_instance *in)
{
  char path[PATH_MAX];
  if (in->prompts_bytes == 0 || in->health.failed || in->policies.cache.module == NULL ||
      why_none(in) != NULL || !path_of(in, path))
    return;
  const struct lls_persistent_shape shape = lls_persistent_shape_of(in);
  size_t max = lls_engine_pool_shape(in->engine)->device_units;
  struct lls_kept_block *blocks = calloc(max + 1, sizeof *blocks);
  size_t n = blocks != NULL ? LLS_CALL(&in->policies, cache, kept, blocks, max) : 0;
  if (n > 0 && are_kept(in, &shape, blocks, n, max))
    write_blocks(in, path, blocks, n);
  free(blocks);
}
