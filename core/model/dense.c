/* SPDX-License-Identifier: Apache-2.0 */
/* See dense.h. */
#include "core/model/dense.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json_parse.h"
#include "core/device/tensor.h"
#include "core/model/checkpoint.h"
#include "core/model/gguf.h"
#include "core/model/json.h"

#define MOST_BYTES (1 << 20) /* of modules.json */

/* ---- modules ----------------------------------------------------------------------- */

/* Reads the config.json of the module that *out names. */
static int read_config(const char *folder, struct lls_dense_matrix *out,
                       struct lls_error *err)
{
  static const char identity[] = "torch.nn.modules.linear.Identity";
  char name[sizeof out->folder + 16];
  struct lls_json json;
  const char *activation;
  bool bias = true;
  snprintf(name, sizeof name, "%s/config.json", out->folder);
  int rc = lls_json_read(folder, name, &json, err);
  if (rc < 0)
    return rc == -ENOENT ? lls_fail(err, -EINVAL, "%s/%s is missing", folder, name) : rc;
  rc = lls_json_size(&json, "in_features", &out->inputs, err);
  if (rc == 0)
    rc = lls_json_size(&json, "out_features", &out->outputs, err);
  if (rc == 0)
    rc = lls_json_bool_or(&json, "bias", true, &bias, err);
  if (rc == 0)
    rc = lls_json_string_or(&json, "activation_function",
                            "torch.nn.modules.activation.Tanh", &activation, err);
  if (rc == 0 && (bias || strcmp(activation, identity) != 0))
    rc = lls_fail(err, -ENOTSUP,
                  "%s: a Dense module with a bias or an activation is not supported",
                  json.file);
  lls_json_close(&json);
  return rc;
}

static int add_module(const char *folder, const json_t *module, struct lls_dense *out,
                      struct lls_error *err)
{
  const char *type = json_string_value(json_object_get(module, "type"));
  const char *path = json_string_value(json_object_get(module, "path"));
  const char *kind = type != NULL ? strrchr(type, '.') : NULL;
  if (kind == NULL || strcmp(kind, ".Dense") != 0)
    return 0;
  if (out->n == LLS_MAX_DENSE)
    return lls_fail(err, -ENOTSUP, "%s/modules.json: more than %d Dense modules", folder,
                    LLS_MAX_DENSE);
  struct lls_dense_matrix *m = &out->matrix[out->n];
  if (path == NULL || *path == '\0' || strlen(path) >= sizeof m->folder ||
      strstr(path, "..") != NULL || *path == '/')
    return lls_fail(err, -EINVAL,
                    "%s/modules.json: \"path\" should name a folder below it", folder);
  snprintf(m->folder, sizeof m->folder, "%s", path);
  int rc = read_config(folder, m, err);
  if (rc == 0 && out->n > 0 && m->inputs != m[-1].outputs)
    rc = lls_fail(err, -ENOTSUP, "%s/%s: %u inputs behind a module of %u outputs", folder,
                  m->folder, m->inputs, m[-1].outputs);
  out->n += rc == 0;
  return rc;
}

/* Reads the sizes of the two matrices that a GGUF file of EmbeddingGemma may have. */
static int read_gguf(const char *path, struct lls_dense *out, struct lls_error *err)
{
  struct lls_gguf *g;
  int rc = lls_gguf_open(path, &g, err);
  if (rc < 0)
    return rc;
  for (uint32_t i = 2; i <= 3; i++) {
    struct lls_dense_matrix *m = &out->matrix[out->n];
    char tensor[sizeof m->folder + 8];
    snprintf(m->folder, sizeof m->folder, "dense_%u", i);
    snprintf(tensor, sizeof tensor, "%s.weight", m->folder);
    const struct lls_gguf_tensor *t = lls_gguf_tensor(g, tensor);
    if (t == NULL || t->n_dims != 2 || t->shape[0] > UINT32_MAX ||
        t->shape[1] > UINT32_MAX)
      continue;
    m->outputs = (uint32_t)t->shape[0];
    m->inputs = (uint32_t)t->shape[1];
    out->n++;
  }
  lls_gguf_close(g);
  return out->n == 2 && out->matrix[0].outputs != out->matrix[1].inputs
             ? lls_fail(err, -EINVAL, "%s: dense_3 does not fit dense_2", path)
             : 0;
}

static int read_folder(const char *folder, struct lls_dense *out, struct lls_error *err)
{
  char path[sizeof((struct lls_json *)0)->file];
  FILE *file;
  size_t i;
  json_t *module;
  snprintf(path, sizeof path, "%s/modules.json", folder);
  int rc = lls_file_open(path, MOST_BYTES, &file, err);
  if (rc < 0)
    return rc == -ENOENT ? 0 : rc;
  json_t *modules = lls_json_parse_stream(file, JSON_REJECT_DUPLICATES, NULL);
  fclose(file);
  if (!json_is_array(modules))
    rc = lls_fail(err, -EINVAL, "%s: should hold a JSON array of modules", path);
  json_array_foreach(modules, i, module)
  {
    if (rc == 0)
      rc = add_module(folder, module, out, err);
  }
  json_decref(modules);
  return rc;
}

int lls_dense_read(const char *folder, struct lls_dense *out, struct lls_error *err)
{
  *out = (struct lls_dense){0};
  return lls_is_gguf(folder) ? read_gguf(folder, out, err)
                             : read_folder(folder, out, err);
}

/* ---- numbers ----------------------------------------------------------------------- */

/* Reads a matrix (outputs, inputs), which the caller frees. */
static int read_matrix(const char *folder, const struct lls_dense_matrix *m, float **out,
                       struct lls_error *err)
{
  char path[PATH_MAX], name[sizeof m->folder + 8];
  struct lls_checkpoint *file;
  struct lls_tensor_view view;
  bool gguf = lls_is_gguf(folder);
  *out = NULL;
  snprintf(path, sizeof path, "%s%s%s", folder, gguf ? "" : "/", gguf ? "" : m->folder);
  snprintf(name, sizeof name, "%s.weight", gguf ? m->folder : "linear");
  int rc = lls_checkpoint_open(path, &file, err);
  if (rc < 0)
    return rc;
  rc = lls_checkpoint_view(file, name, m->outputs, m->inputs, &view, err);
  if (rc == 0)
    *out = malloc((size_t)m->outputs * m->inputs * sizeof **out);
  if (rc == 0 && *out == NULL)
    rc = lls_fail(err, -ENOMEM, "out of memory");
  for (uint32_t i = 0; rc == 0 && i < m->outputs; i++)
    lls_tensor_read_row(&view, i, *out + (size_t)i * m->inputs);
  lls_checkpoint_close(file);
  return rc;
}

/* Returns left (rows, inner) x right (inner, columns), or NULL. */
static float *multiply(const float *left, const float *right, uint32_t rows,
                       uint32_t inner, uint32_t columns)
{
  float *out = calloc((size_t)rows * columns, sizeof *out);
  for (size_t r = 0; out != NULL && r < rows; r++) {
    for (size_t i = 0; i < inner; i++) {
      float factor = left[r * inner + i];
      for (size_t c = 0; c < columns; c++)
        out[r * columns + c] += factor * right[i * columns + c];
    }
  }
  return out;
}

int lls_dense_load(const char *folder, const struct lls_dense *d, float **out,
                   struct lls_error *err)
{
  int rc = read_matrix(folder, &d->matrix[0], out, err);
  for (uint32_t i = 1; rc == 0 && i < d->n; i++) {
    const struct lls_dense_matrix *m = &d->matrix[i];
    float *right = *out, *left;
    rc = read_matrix(folder, m, &left, err);
    *out = rc == 0 ? multiply(left, right, m->outputs, m->inputs, d->matrix[0].inputs)
                   : NULL;
    if (rc == 0 && *out == NULL)
      rc = lls_fail(err, -ENOMEM, "out of memory");
    free(left);
    free(right);
  }
  return rc;
}
