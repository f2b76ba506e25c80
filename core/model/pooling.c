/* SPDX-License-Identifier: Apache-2.0 */
/* See pooling.h. */
#include "core/model/pooling.h"

#include <errno.h>
#include <string.h>

#include "core/model/dense.h"
#include "core/model/gguf.h"
#include "core/model/json.h"

static void set_none(struct lls_pooling_config *out, const char *file, const char *why)
{
  out->pooling = LLS_POOLING_NONE;
  lls_fail(&out->why_none, -ENOTSUP, "%s: %s", file, why);
}

/* Reads the single flag that is set, as before sentence-transformers 5, or
 * "pooling_mode". */
static int read_mode(const struct lls_json *json, struct lls_pooling_config *out,
                     struct lls_error *err)
{
  static const struct {
    const char *flag, *mode;
    enum lls_pooling pooling;
  } known[] = {
      {"pooling_mode_cls_token", "cls", LLS_POOLING_CLS},
      {"pooling_mode_mean_tokens", "mean", LLS_POOLING_MEAN},
      {"pooling_mode_lasttoken", "lasttoken", LLS_POOLING_LAST},
  };
  const char *mode;
  unsigned n_set = 0;
  int rc = lls_json_string_or(json, "pooling_mode", "", &mode, err);
  for (size_t i = 0; rc == 0 && i < sizeof known / sizeof known[0]; i++) {
    bool set;
    rc = lls_json_bool_or(json, known[i].flag, strcmp(mode, known[i].mode) == 0, &set,
                          err);
    if (rc == 0 && set) {
      out->pooling = known[i].pooling;
      n_set++;
    }
  }
  if (rc == 0 && n_set != 1)
    set_none(out, json->file, "one of mean, cls and lasttoken pooling is supported");
  return rc;
}

static int read_pooling(const char *folder, struct lls_pooling_config *out,
                        struct lls_error *err)
{
  struct lls_json json;
  int rc = lls_json_read(folder, "1_Pooling/config.json", &json, err);
  if (rc < 0)
    return rc == -ENOENT ? 0 : rc;
  out->is_written = true;
  rc = read_mode(&json, out, err);
  if (rc == 0) /* lls_gguf_pooling's; a folder has modules.json */
    rc = lls_json_bool_or(&json, LLS_GGUF_DENSE, false, &out->dense, err);
  lls_json_close(&json);
  return rc;
}

/* Reads the modules behind the pooling: a normalisation, and Dense modules that are a
 * linear map. */
static int read_modules(const char *folder, struct lls_pooling_config *out,
                        struct lls_error *err)
{
  struct lls_dense dense;
  struct lls_error why = {0};
  int rc = lls_dense_read(folder, &dense, &why);
  out->dense = dense.n > 0;
  if (rc == -ENOTSUP) {
    out->pooling = LLS_POOLING_NONE;
    out->why_none = why;
    return 0;
  }
  return rc < 0 ? lls_fail(err, rc, "%s", why.text) : 0;
}

static int read_dimensions(const char *folder, struct lls_pooling_config *out,
                           struct lls_error *err)
{
  struct lls_json json;
  int rc = lls_json_read(folder, "config.json", &json, err);
  if (rc < 0)
    return rc == -ENOENT ? 0 : rc;
  rc = lls_json_bool_or(&json, "is_matryoshka", false, &out->matryoshka, err);
  const json_t *list = json_object_get(json.root, "matryoshka_dimensions");
  for (size_t i = 0; i < json_array_size(list) && i < LLS_MAX_DIMENSIONS; i++) {
    json_int_t n = json_integer_value(json_array_get(list, i));
    if (n > 0 && n <= UINT32_MAX)
      out->dimensions[out->n_dimensions++] = (uint32_t)n;
  }
  out->matryoshka |= out->n_dimensions > 0;
  lls_json_close(&json);
  return rc;
}

int lls_pooling_read(const char *folder, enum lls_pooling fallback,
                     struct lls_pooling_config *out, struct lls_error *err)
{
  *out = (struct lls_pooling_config){.pooling = fallback};
  int rc = read_pooling(folder, out, err);
  if (rc < 0 || lls_is_gguf(folder)) /* which has no more, and is large to open */
    return rc;
  rc = read_modules(folder, out, err);
  return rc < 0 ? rc : read_dimensions(folder, out, err);
}

bool lls_pooling_allows(const struct lls_pooling_config *p, uint32_t columns,
                        int64_t dimensions)
{
  if (dimensions == columns)
    return true;
  if (!p->matryoshka || dimensions < 1 || dimensions > columns)
    return false;
  for (uint32_t i = 0; i < p->n_dimensions; i++)
    if (p->dimensions[i] == dimensions)
      return true;
  return p->n_dimensions == 0;
}
