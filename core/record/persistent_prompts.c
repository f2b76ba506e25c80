/* SPDX-License-Identifier: Apache-2.0 */
/* See persistent_prompts.h. */
#include "config.h"

#include "core/record/persistent_prompts.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/error.h"
#include "core/engine/engine.h"
#include "core/engine/fingerprint.h"
#include "core/instance/cache_answers.h"
#include "core/instance/instance.h"
#include "core/instance/running_policy.h"
#include "core/obs/log.h"
#include "core/plugin/loader.h"
#include "core/record/persistent_file.h"

/* ---- identity ---------------------------------------------------------------------- */

static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
  const unsigned char *at = data;
  for (size_t i = 0; i < bytes; i++)
    h = (h ^ at[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
  return h;
}

/* Hashes a file's name, size and times. Other contents have another size or time; ctime
 * shows a change that a restored mtime hides. */
static uint64_t file_number(int folder, const char *name)
{
  struct stat st;
  if (fstatat(folder, name, &st, 0) < 0 || !S_ISREG(st.st_mode))
    return 0;
  const int64_t facts[] = {st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
                           st.st_ctim.tv_sec, st.st_ctim.tv_nsec};
  uint64_t h = hash(UINT64_C(0xcbf29ce484222325), name, strlen(name));
  return hash(h, facts, sizeof facts);
}

/* Sums the numbers of all files of a model's folder, or of all parts of a GGUF file. */
static uint64_t weights_number(const char *model)
{
  char folder[PATH_MAX];
  struct stat st;
  struct dirent *entry;
  uint64_t sum = 0;
  snprintf(folder, sizeof folder, "%s", model);
  const char *name = "", *slash = strrchr(model, '/');
  if (stat(model, &st) == 0 && !S_ISDIR(st.st_mode)) {
    name = slash != NULL ? slash + 1 : model;
    snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - model) : 1,
             slash != NULL ? model : ".");
  }
  const char *number = strstr(name, "-00001-of-");
  size_t same = number != NULL ? (size_t)(number - name) : strlen(name);
  DIR *all = opendir(folder);
  while (all != NULL && (entry = readdir(all)) != NULL)
    if (strncmp(entry->d_name, name, same) == 0)
      sum += file_number(dirfd(all), entry->d_name);
  if (all != NULL)
    closedir(all);
  return sum;
}

struct lls_persistent_shape lls_persistent_shape_of(const struct lls_instance *in)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(in->engine);
  struct lls_persistent_shape s;
  struct lls_engine_fingerprint id;
  memset(&s, 0, sizeof s); /* shapes are compared as bytes */
  s.block_tokens = pool->block_tokens;
  for (uint32_t i = 0; i < lls_pool_groups(pool); i++) {
    const struct lls_pool_shape group = lls_group_shape(pool, i);
    s.block_bytes[i] = lls_form_bytes(&group, LLS_FORM_KV);
    s.block_form[i] = lls_group_is_state(pool, i) ? LLS_FORM_STATE : LLS_FORM_KV;
  }
  lls_engine_take_fingerprint(in->engine, &id);
  snprintf(s.identity, sizeof s.identity, "%s; %s; %s; %s; %016" PRIx64, PACKAGE_VERSION,
           id.device, id.model, id.engine, weights_number(in->model_folder));
  return s;
}

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

/* ---- reading ----------------------------------------------------------------------- */

static int fill(struct lls_instance *in, const struct lls_persistent_file *f, size_t n,
                const struct lls_persistent_shape *s, struct lls_error *err)
{
  const unsigned char *at = f->contents;
  int rc = 0;
  for (size_t i = 0; i < n && rc == 0; i++) {
    uint32_t group = f->blocks[i].group;
    if (group >= LLS_MAX_GROUPS)
      rc = -EPROTO;
    else
      rc = lls_engine_write_block(in->engine, group, f->blocks[i].unit, at);
    at += rc == 0 ? s->block_bytes[group] : 0;
  }
  return rc == 0 ? 0
                 : lls_fail(err, rc, "%s: adopt names a block that the pool has not",
                            in->policies.cache.host->name);
}

static int take(struct lls_instance *in, const char *path, struct lls_persistent_file *f,
                const struct lls_persistent_shape *s, struct lls_error *err)
{
  size_t n = LLS_CALL(&in->policies, cache, adopt, f->blocks, f->n);
  if (n > f->n)
    return lls_fail(err, -EPROTO, "%s: adopt took more blocks than there are",
                    in->policies.cache.host->name);
  lls_log(in->log, LLS_LOG_INFO, "cache", "%zu tokens of kept prompts are taken from %s",
          first_group(f->blocks, n) * s->block_tokens, path);
  return fill(in, f, n, s, err);
}

int lls_persistent_prompts_read(struct lls_instance *in, struct lls_error *err)
{
  char path[PATH_MAX];
  struct lls_error why = {0};
  struct lls_persistent_file file;
  if (in->prompts_bytes == 0 || !path_of(in, path))
    return 0;
  if (why_none(in) != NULL) {
    lls_log(in->log, LLS_LOG_WARNING, "cache", "[cache] kept_prompts: none are kept: %s",
            why_none(in));
    return 0;
  }
  const struct lls_persistent_shape shape = lls_persistent_shape_of(in);
  int rc = lls_persistent_file_open(path, &shape, &file, &why);
  if (rc < 0 && rc != -ENOENT)
    lls_log(in->log, LLS_LOG_WARNING, "cache", "%s; the cache begins empty",
            lls_error_text(&why, rc));
  if (rc < 0)
    return 0;
  rc = take(in, path, &file, &shape, err);
  lls_persistent_file_close(&file);
  return rc;
}

/* ---- writing ----------------------------------------------------------------------- */

static int read_block(void *context, uint32_t group, uint32_t block, void *to)
{
  const struct lls_instance *in = context;
  return lls_engine_read_block(in->engine, group, block, to);
}

static void write_blocks(struct lls_instance *in, const char *path,
                         const struct lls_persistent_shape *shape,
                         const struct lls_kept_block *blocks, size_t n)
{
  struct lls_error why = {0};
  int rc =
      lls_persistent_file_write(path, shape, blocks, (uint32_t)n, read_block, in, &why);
  if (rc < 0)
    lls_log(in->log, LLS_LOG_WARNING, "cache", "%s; prompts are not kept",
            lls_error_text(&why, rc));
  else
    lls_log(in->log, LLS_LOG_INFO, "cache", "%zu tokens of prompts are kept in %s",
            first_group(blocks, n) * shape->block_tokens, path);
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
    n = lls_persistent_that_fit(&shape, blocks, n, in->prompts_bytes);
  else
    n = 0;
  if (n > 0)
    write_blocks(in, path, &shape, blocks, n);
  free(blocks);
}
