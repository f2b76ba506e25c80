/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads an adapter from a GGUF file, as llama.cpp's convert_lora_to_gguf.py writes it:
 * general.type is "adapter", adapter.type "lora", and each matrix has two tensors with
 * the name of the model's and ".lora_a" or ".lora_b". The scale is adapter.lora.alpha
 * over the rank.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/lora/lora_build.h"
#include "core/model/architecture.h"
#include "core/model/gguf.h"

struct reading {
  const struct lls_gguf_file *file;
  const struct lls_gguf_architecture *architecture;
  const struct lls_model_config *config;
  struct lls_lora *lora;
  double alpha;
  size_t n_used; /* tensors */
};

static int check_kind(const struct lls_gguf_file *file, struct lls_error *err)
{
  char text[64];
  if (lls_gguf_text(file, "general.type", text, sizeof text) == NULL ||
      strcmp(text, "adapter") != 0)
    return lls_fail(err, -EINVAL,
                    "%s: general.type should be \"adapter\": it is no adapter",
                    file->path);
  if (lls_gguf_text(file, "adapter.type", text, sizeof text) == NULL ||
      strcmp(text, "lora") != 0)
    return lls_fail(err, -ENOTSUP, "%s: adapter.type should be \"lora\"", file->path);
  json_t *invoked = NULL;
  int rc = lls_gguf_value(file, "adapter.alora.invocation_tokens", &invoked, err);
  bool is_activated = invoked != NULL;
  json_decref(invoked);
  return rc == 0 && is_activated
             ? lls_fail(err, -ENOTSUP,
                        "%s: an adapter with invocation tokens (aLoRA) is not supported",
                        file->path)
             : rc;
}

static bool is_of_model(const struct lls_gguf_architecture *a,
                        const struct lls_model_config *c)
{
  for (const char *const *name = c->architecture->names; *name != NULL; name++)
    if ((a->model != NULL && strcmp(a->model, *name) == 0) ||
        (a->mixture != NULL && strcmp(a->mixture, *name) == 0))
      return true;
  return false;
}

static int read_alpha(struct reading *r, struct lls_error *err)
{
  json_t *value = NULL;
  int rc = lls_gguf_value(r->file, "adapter.lora.alpha", &value, err);
  r->alpha = json_is_number(value) ? json_number_value(value) : NAN;
  json_decref(value);
  if (rc == 0 && !isfinite(r->alpha))
    rc = lls_fail(err, -EINVAL, "%s: adapter.lora.alpha should be a number",
                  r->file->path);
  return rc;
}

static const struct lls_gguf_tensor *find(const struct reading *r, const char *name,
                                          const char *suffix)
{
  struct lls_gguf_tensor *t;
  char full[160];
  snprintf(full, sizeof full, "%s%s", name, suffix);
  HASH_FIND_STR(r->file->tensors, full, t);
  return t;
}

/* Views a tensor as a matrix; the first two of three dimensions are rows. */
static struct lls_tensor_view view_of(const struct lls_gguf_tensor *t)
{
  bool experts = t->n_dims == 3;
  size_t columns = (size_t)t->shape[experts ? 2 : 1];
  return (struct lls_tensor_view){.data = t->data,
                                  .dtype = t->dtype,
                                  .rows = (size_t)t->shape[0] *
                                          (experts ? (size_t)t->shape[1] : 1),
                                  .columns = columns,
                                  .row_stride = columns};
}

/* Adds the pair of this name, if the file has one; *m has its place. */
static int read_pair(struct reading *r, const char *name, struct lls_lora_module *m,
                     struct lls_error *err)
{
  unsigned dims = lls_lora_is_of_experts(m->kind) ? 3 : 2;
  const struct lls_gguf_tensor *a = find(r, name, ".lora_a"),
                               *b = find(r, name, ".lora_b");
  if (a == NULL && b == NULL)
    return 0;
  if (a == NULL || b == NULL || a->n_dims != dims || b->n_dims != dims)
    return lls_fail(err, -EINVAL,
                    "%s: %s should have two tensors of %u dimensions, .lora_a and "
                    ".lora_b",
                    r->file->path, name, dims);
  m->file = r->file->path;
  m->name = name;
  m->a = view_of(a);
  m->b = view_of(b);
  m->in_pairs = r->architecture->pairs;
  m->expert = LLS_LORA_EVERY;
  m->scale = r->alpha != 0 && m->b.columns > 0 ? r->alpha / (double)m->b.columns : 1;
  r->n_used += 2;
  return lls_lora_add(r->lora, r->config, m, err);
}

/* Adds a module's pair, if the file has one. */
static int read_module(struct reading *r, uint32_t layer, const char *module, int kind,
                       struct lls_error *err)
{
  char folder[128], name[128];
  int64_t expert;
  struct lls_lora_module m = {.layer = layer, .kind = (uint32_t)kind};
  snprintf(folder, sizeof folder, "layers.%u.%s.weight", layer, module);
  if (!lls_gguf_name(r->architecture, folder, name, sizeof name, &expert) || expert >= 0)
    return 0;
  return read_pair(r, name, &m, err);
}

/* The tensors of all experts, which have the same names in all architectures. */
static const struct {
  const char *name;
  uint32_t kind;
} of_experts[] = {
    {"ffn_gate_exps", LLS_LORA_EXPERT_GATE},
    {"ffn_up_exps", LLS_LORA_EXPERT_UP},
    {"ffn_down_exps", LLS_LORA_EXPERT_DOWN},
    {"ffn_gate_up_exps", LLS_LORA_STACKED_EXPERTS},
};

#define N_OF_EXPERTS (sizeof of_experts / sizeof of_experts[0])

/* Returns true if the layer's experts have this matrix: those without gates lack two. */
static bool has_experts(const struct lls_model_config *c, uint32_t layer, uint32_t kind)
{
  bool plain = kind == LLS_LORA_EXPERT_UP || kind == LLS_LORA_EXPERT_DOWN;
  return c->layer[layer].mixture && (c->gated || plain);
}

static int read_experts(struct reading *r, uint32_t layer, struct lls_error *err)
{
  int rc = 0;
  char name[64];
  for (size_t i = 0; rc == 0 && i < N_OF_EXPERTS; i++) {
    struct lls_lora_module m = {.layer = layer, .kind = of_experts[i].kind};
    if (!has_experts(r->config, layer, m.kind))
      continue;
    snprintf(name, sizeof name, "blk.%u.%s.weight", layer, of_experts[i].name);
    rc = read_pair(r, name, &m, err);
  }
  return rc;
}

/* Most names of modules in a layer. */
#define MAX_MODULES 12

static void list_modules(const struct lls_tensor_names *n, const char *out[MAX_MODULES])
{
  const char *const modules[MAX_MODULES] = {
      n->q,    n->k,  n->v,    n->stacked_qkv, n->output,    n->stacked_up,
      n->gate, n->up, n->down, n->shared_gate, n->shared_up, n->shared_down};
  memcpy(out, modules, sizeof modules);
}

static int read_layer(struct reading *r, uint32_t layer, struct lls_error *err)
{
  const struct lls_tensor_names *n = &r->config->architecture->tensors;
  const char *modules[MAX_MODULES];
  int rc = read_experts(r, layer, err);
  list_modules(n, modules);
  for (size_t i = 0; rc == 0 && i < MAX_MODULES; i++) {
    int kind = modules[i] != NULL ? lls_lora_kind_of(r->config, modules[i], layer) : -1;
    if (kind >= 0)
      rc = read_module(r, layer, modules[i], kind, err);
  }
  /* The converter has sorted the rows of a fused matrix. */
  if (rc == 0 && n->fused_qkv != NULL)
    rc = read_module(r, layer, n->fused_qkv, LLS_LORA_STACKED_QKV, err);
  return rc;
}

/* Returns true for a tensor that read_experts has taken. */
static bool is_of_experts(const struct reading *r, uint32_t layer, const char *tensor)
{
  char name[64];
  for (size_t i = 0; i < N_OF_EXPERTS; i++) {
    int n = snprintf(name, sizeof name, "blk.%u.%s.weight.", layer, of_experts[i].name);
    if (has_experts(r->config, layer, of_experts[i].kind) &&
        strncmp(tensor, name, (size_t)n) == 0)
      return true;
  }
  return false;
}

/* Returns true for a tensor that read_layer has taken, by the same names. */
static bool is_known(const struct reading *r, const char *tensor)
{
  const struct lls_tensor_names *n = &r->config->architecture->tensors;
  const char *modules[MAX_MODULES + 1];
  unsigned layer;
  if (sscanf(tensor, "blk.%u.", &layer) != 1 || layer >= r->config->layers)
    return false;
  if (is_of_experts(r, layer, tensor))
    return true;
  list_modules(n, modules);
  modules[MAX_MODULES] = n->fused_qkv;
  for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
    char folder[128], name[128];
    int64_t expert;
    if (modules[i] == NULL || lls_lora_kind_of(r->config, modules[i], layer) < 0)
      continue;
    snprintf(folder, sizeof folder, "layers.%u.%s.weight", layer, modules[i]);
    if (lls_gguf_name(r->architecture, folder, name, sizeof name, &expert) &&
        strncmp(tensor, name, strlen(name)) == 0)
      return true;
  }
  return false;
}

/* Fails with the name of a tensor that was not used. */
static int refuse_rest(const struct reading *r, struct lls_error *err)
{
  for (const struct lls_gguf_tensor *t = r->file->tensors; t != NULL; t = t->hh.next)
    if (!is_known(r, t->name))
      return lls_fail(err, -ENOTSUP,
                      "%s: %s is not supported: an adapter may change attention, the "
                      "MLPs of the model's layers and their experts",
                      r->file->path, t->name);
  return lls_fail(err, -EINVAL, "%s: some tensors have no partner", r->file->path);
}

static int read_all(struct reading *r, struct lls_error *err)
{
  char name[64] = "";
  lls_gguf_text(r->file, "general.architecture", name, sizeof name);
  r->architecture = lls_gguf_architecture_named(name);
  if (r->architecture == NULL || !is_of_model(r->architecture, r->config))
    return lls_fail(err, -EINVAL,
                    "%s: the adapter is for models of architecture \"%s\", which this "
                    "one is not",
                    r->file->path, name);
  int rc = read_alpha(r, err);
  for (uint32_t i = 0; i < r->config->layers && rc == 0; i++)
    rc = read_layer(r, i, err);
  if (rc == 0 && r->n_used < HASH_COUNT(r->file->tensors))
    rc = refuse_rest(r, err);
  return rc;
}

int lls_lora_read_gguf(const char *path, const struct lls_model_config *c,
                       struct lls_lora *lora, struct lls_error *err)
{
  struct lls_gguf_file *file;
  int rc = lls_gguf_file_open(path, &file, err);
  if (rc < 0)
    return rc;
  struct reading r = {.file = file, .config = c, .lora = lora};
  rc = check_kind(file, err);
  if (rc == 0)
    rc = read_all(&r, err);
  lls_gguf_file_close(file);
  return rc;
}
