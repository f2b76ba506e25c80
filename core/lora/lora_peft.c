/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads an adapter from a folder as PEFT saves it: adapter_config.json says how, and
 * adapter_model.safetensors has for each module lora_A.weight (r, inputs) and
 * lora_B.weight (outputs, r). The modules and their ranks are those of the tensors. The
 * scale is lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <math.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lora/lora_build.h"
#include "core/model/architecture.h"
#include "core/model/json.h"
#include "core/model/safetensors_file.h"

#define WEIGHTS     "adapter_model.safetensors"
#define MATCH_LIMIT 100000 /* steps of PCRE2 for a pattern of the file */

struct settings {
  double alpha;
  bool by_root;   /* use_rslora */
  json_t *alphas; /* alpha_pattern, or NULL */
};

/* ---- adapter_config.json ---------------------------------------------------------- */

/* Keys that may have any value: they are about training and files, or the tensors say
 * the same. */
static const char *const passed_over[] = {
    "auto_mapping",
    "base_model_name_or_path",
    "corda_config",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_alpha",
    "lora_dropout",
    "megatron_config",
    "megatron_core",
    "parent_library",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "alpha_pattern",
    "revision",
    "target_modules",
    "target_parameters",
    "task_type",
    "use_rslora",
    "init_lora_weights",
    "bias",
    "runtime_config",
    "lora_ga_config",
    "monteclora_config",
};

static bool is_passed_over(const char *key)
{
  for (size_t i = 0; i < sizeof passed_over / sizeof passed_over[0]; i++)
    if (strcmp(key, passed_over[i]) == 0)
      return true;
  return false;
}

/* Refuses what changes the result in another way than by A and B: use_dora,
 * modules_to_save, layer_replication, trainable_token_indices, lora_bias, and what later
 * versions bring. */
static int check_keys(const struct lls_json *json, struct lls_error *err)
{
  const char *key;
  json_t *value;
  json_object_foreach(json->root, key, value)
  {
    if (!is_passed_over(key) && !lls_json_is_off(value))
      return lls_fail(err, -ENOTSUP, "%s: \"%s\" is not supported", json->file, key);
  }
  return 0;
}

/* Before 0.19 PEFT took the inputs of experts for their outputs, unless a model has the
 * parameters turned around, as those have whose rows of gate and up alternate. */
static int check_parameters(const struct lls_json *json, const struct lls_model_config *c,
                            struct lls_error *err)
{
  const char *version;
  unsigned major = 0, minor = 0;
  const json_t *targets = lls_json_get(json, "target_parameters");
  if (targets == NULL || lls_json_is_off(targets) ||
      c->architecture->tensors.experts_alternate)
    return 0;
  int rc = lls_json_string_or(json, "peft_version", "", &version, err);
  if (rc < 0)
    return rc;
  if (sscanf(version, "%9u.%9u", &major, &minor) == 2 && (major > 0 || minor >= 19))
    return 0;
  return lls_fail(err, -ENOTSUP,
                  "%s: \"target_parameters\" with \"peft_version\" \"%s\" is not "
                  "supported: adapters of PEFT 0.19 and later are",
                  json->file, version);
}

/* Refuses bases that a bias or an initialisation has changed. */
static int check_base(const struct lls_json *json, struct lls_error *err)
{
  static const char *const plain[] = {"gaussian", "eva", "loftq", "orthogonal"};
  const char *bias, *kind;
  const json_t *how = json_object_get(json->root, "init_lora_weights");
  int rc = lls_json_string_or(json, "peft_type", "", &kind, err);
  if (rc == 0 && strcmp(kind, "LORA") != 0)
    return lls_fail(err, -ENOTSUP,
                    "%s: \"peft_type\" is \"%s\"; adapters of type LORA are supported",
                    json->file, kind);
  if (rc == 0)
    rc = lls_json_string_or(json, "bias", "none", &bias, err);
  if (rc == 0 && strcmp(bias, "none") != 0)
    return lls_fail(err, -ENOTSUP,
                    "%s: \"bias\" is \"%s\": trained biases are not supported",
                    json->file, bias);
  if (rc < 0 || !json_is_string(how))
    return rc;
  for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
    if (strcmp(json_string_value(how), plain[i]) == 0)
      return 0;
  return lls_fail(
      err, -ENOTSUP,
      "%s: \"init_lora_weights\" is \"%s\", which changes the base model too: "
      "save the adapter converted to a plain LoRA",
      json->file, json_string_value(how));
}

static int read_settings(const struct lls_json *json, const struct lls_model_config *c,
                         struct settings *s, struct lls_error *err)
{
  int rc = check_base(json, err);
  if (rc == 0)
    rc = check_parameters(json, c, err);
  if (rc == 0)
    rc = check_keys(json, err);
  if (rc == 0)
    rc = lls_json_real_or(json, "lora_alpha", 8, &s->alpha, err);
  if (rc == 0)
    rc = lls_json_bool_or(json, "use_rslora", false, &s->by_root, err);
  s->alphas = lls_json_get(json, "alpha_pattern");
  if (rc == 0 && s->alphas != NULL && !json_is_object(s->alphas))
    rc = lls_fail(err, -EINVAL, "%s: \"alpha_pattern\" should be an object", json->file);
  return rc;
}

/* Returns true if a pattern is the module's name, or what stands after one of its dots,
 * as PEFT matches it. */
static bool matches(const char *pattern, const char *module)
{
  char text[512];
  int error, n = snprintf(text, sizeof text, "^(?:.*\\.)?(?:%s)$", pattern);
  PCRE2_SIZE at;
  if (n < 0 || n >= (int)sizeof text)
    return false;
  pcre2_code *code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, PCRE2_UTF,
                                   &error, &at, NULL);
  if (code == NULL)
    return false;
  pcre2_match_context *context = pcre2_match_context_create(NULL);
  pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
  bool found = false;
  if (context != NULL && data != NULL) {
    pcre2_set_match_limit(context, MATCH_LIMIT);
    found = pcre2_match(code, (PCRE2_SPTR)module, PCRE2_ZERO_TERMINATED, 0, 0, data,
                        context) >= 0;
  }
  pcre2_match_data_free(data);
  pcre2_match_context_free(context);
  pcre2_code_free(code);
  return found;
}

static double scale_of(const struct settings *s, const char *module, size_t rank)
{
  double alpha = s->alpha;
  const char *pattern;
  json_t *value;
  json_object_foreach(s->alphas, pattern, value)
  {
    if (!json_is_number(value) || !matches(pattern, module))
      continue;
    alpha = json_number_value(value);
    break;
  }
  return alpha / (s->by_root ? sqrt((double)rank) : (double)rank);
}

/* ---- adapter_model.safetensors ---------------------------------------------------- */

struct reading {
  const char *path; /* the file, for messages */
  const struct lls_model_config *config;
  struct settings settings;
  struct lls_tensor *tensors; /* uthash by name */
  struct lls_lora *lora;
};

static bool is_prefix(const struct lls_model_config *c, const char *text, size_t length)
{
  const struct lls_tensor_names *n = &c->architecture->tensors;
  if (length == 0 || (length == 6 && memcmp(text, "model.", 6) == 0))
    return true;
  for (size_t i = 0; i < 4 && n->prefixes[i] != NULL; i++)
    if (strlen(n->prefixes[i]) == length && memcmp(n->prefixes[i], text, length) == 0)
      return true;
  return false;
}

/* Finds layer and kind of a module, such as model.layers.0.self_attn.q_proj. Returns -1
 * if it is none of the text model's that an adapter may change. */
static int find_module(const struct lls_model_config *c, const char *module,
                       struct lls_lora_module *out)
{
  uint32_t *layer = &out->layer;
  const char *layers = c->architecture->tensors.layers;
  for (const char *at = strstr(module, layers); at != NULL; at = strstr(at + 1, layers)) {
    int skip = 0;
    const char *number = at + strlen(layers);
    if (!is_prefix(c, module, (size_t)(at - module)) ||
        sscanf(number, "%6u.%n", layer, &skip) != 1 || skip == 0)
      continue;
    if (*layer >= c->layers)
      return -1;
    int kind = lls_lora_kind_of(c, number + skip, *layer);
    return kind >= 0 ? kind
                     : lls_lora_expert_kind(c, number + skip, *layer, &out->expert);
  }
  return -1;
}

static int view_of(const struct reading *r, struct lls_tensor *t,
                   struct lls_tensor_view *out, struct lls_error *err)
{
  if (t->n_dims != 2 || !t->type->is_weight)
    return lls_fail(err, -ENOTSUP,
                    "%s: %s is of type %s with %u dimensions; matrices of F32, F16 or "
                    "BF16 are supported",
                    r->path, t->name, t->type->name, t->n_dims);
  *out = (struct lls_tensor_view){.dtype = t->type->dtype,
                                  .rows = (size_t)t->shape[0],
                                  .columns = (size_t)t->shape[1],
                                  .row_stride = (size_t)t->shape[1]};
  return lls_tensor_data(t, &out->data, err);
}

/* Finds the tensor with B where that with A is given, and the other way round. */
static struct lls_tensor *partner(const struct reading *r, const char *name,
                                  size_t length, const char *suffix)
{
  char full[320];
  struct lls_tensor *t = NULL;
  if (snprintf(full, sizeof full, "%.*s%s", (int)length, name, suffix) < (int)sizeof full)
    HASH_FIND_STR(r->tensors, full, t);
  return t;
}

/* Sets what a pair that changes a parameter of all experts has of its own. Patterns match
 * the parameter's name. */
static int set_parameter(const struct reading *r, struct lls_lora_module *m,
                         struct lls_error *err)
{
  const struct lls_model_config *c = r->config;
  char name[320];
  const char *inner = strstr(m->name, ".base_layer");
  int length = (int)(inner != NULL ? inner - m->name : (ptrdiff_t)strlen(m->name));
  size_t rank = m->a.rows / c->mixture.experts;
  int kind = lls_lora_parameter_kind(c, m);
  if (kind < 0)
    return lls_fail(err, -ENOTSUP,
                    "%s: %s is not supported: experts whose two matrices have equal "
                    "sizes",
                    r->path, m->name);
  m->across = true;
  m->kind = (uint32_t)kind;
  snprintf(name, sizeof name, "%.*s.%s", length, m->name,
           m->kind == LLS_LORA_EXPERT_DOWN ? "down_proj"
           : c->gated                      ? "gate_up_proj"
                                           : "up_proj");
  m->scale = scale_of(&r->settings, name, rank > 0 ? rank : 1);
  return 0;
}

static int add_pair(const struct reading *r, struct lls_tensor *a, struct lls_tensor *b,
                    const char *module, struct lls_error *err)
{
  struct lls_lora_module m = {.file = r->path, .name = module};
  int kind = find_module(r->config, module, &m);
  if (kind < 0)
    return lls_fail(err, -ENOTSUP,
                    "%s: %s is not supported: an adapter may change plain attention, "
                    "the MLPs of the model's layers and their experts, but no routers, "
                    "no layers with a state, no latent attention, and no queries that "
                    "have gates",
                    r->path, module);
  int rc = view_of(r, a, &m.a, err);
  if (rc == 0)
    rc = view_of(r, b, &m.b, err);
  if (rc < 0)
    return rc;
  m.kind = (uint32_t)kind;
  m.scale = scale_of(&r->settings, module, m.a.rows > 0 ? m.a.rows : 1);
  if (kind == LLS_LORA_STACKED_EXPERTS)
    rc = set_parameter(r, &m, err);
  return rc < 0 ? rc : lls_lora_add(r->lora, r->config, &m, err);
}

/* Adds the pair of an A tensor; a B tensor comes with it, and any other is refused. */
static int read_tensor(const struct reading *r, struct lls_tensor *t,
                       struct lls_error *err)
{
  static const char own[] = "base_model.model.", a[] = ".lora_A.weight",
                    b[] = ".lora_B.weight";
  size_t length = strlen(t->name), tail = sizeof a - 1;
  const char *suffix = length > tail ? t->name + length - tail : "";
  bool is_a = strcmp(suffix, a) == 0, is_b = strcmp(suffix, b) == 0;
  char module[256];
  if (!is_a && !is_b)
    return lls_fail(err, -ENOTSUP, "%s: tensor %s is not supported", r->path, t->name);
  struct lls_tensor *other = partner(r, t->name, length - tail, is_a ? b : a);
  if (other == NULL)
    return lls_fail(err, -EINVAL, "%s: tensor %s has no partner", r->path, t->name);
  if (is_b)
    return 0;
  const char *name = t->name;
  if (strncmp(name, own, sizeof own - 1) == 0)
    name += sizeof own - 1;
  snprintf(module, sizeof module, "%.*s", (int)(t->name + length - tail - name), name);
  return add_pair(r, t, other, module, err);
}

static void free_tensors(struct lls_tensor **tensors)
{
  struct lls_tensor *t, *next;
  HASH_ITER(hh, *tensors, t, next)
  {
    HASH_DEL(*tensors, t);
    lls_tensor_free(t);
  }
}

static int read_weights(const char *folder, struct reading *r, struct lls_error *err)
{
  struct lls_tensor_file *file = NULL;
  int rc = lls_tensor_file_open(folder, WEIGHTS, &r->tensors, &file, err);
  if (rc == -ENOENT)
    rc = lls_fail(err, rc,
                  "%s: " WEIGHTS " is not there; save the adapter with "
                  "safe_serialization",
                  folder);
  for (struct lls_tensor *t = r->tensors; rc == 0 && t != NULL; t = t->hh.next)
    rc = read_tensor(r, t, err);
  free_tensors(&r->tensors);
  if (file != NULL)
    lls_tensor_file_close(file);
  return rc;
}

int lls_lora_read_peft(const char *folder, const struct lls_model_config *c,
                       struct lls_lora *lora, struct lls_error *err)
{
  struct lls_json json;
  char path[600];
  snprintf(path, sizeof path, "%s/" WEIGHTS, folder);
  struct reading r = {.path = path, .config = c, .lora = lora};
  int rc = lls_json_read(folder, "adapter_config.json", &json, err);
  if (rc == -ENOENT)
    rc = lls_fail(err, rc,
                  "%s: neither a folder with adapter_config.json nor a .gguf file",
                  folder);
  if (rc < 0)
    return rc;
  rc = read_settings(&json, c, &r.settings, err);
  if (rc == 0)
    rc = read_weights(folder, &r, err);
  lls_json_close(&json);
  return rc;
}
