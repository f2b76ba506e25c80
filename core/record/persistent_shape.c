/* SPDX-License-Identifier: Apache-2.0 */
/* See persistent_shape.h. */
#include "core/record/persistent_shape.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/engine/engine.h"
#include "core/engine/fingerprint.h"
#include "core/instance/instance.h"

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
  LLS_ON_STEP(in);
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
  snprintf(s.identity, sizeof s.identity, "blocks %d; %s; %s; %s; %016" PRIx64,
           LLS_PERSISTENT_BLOCKS, id.device, id.model, id.engine,
           weights_number(in->model_folder));
  return s;
}
