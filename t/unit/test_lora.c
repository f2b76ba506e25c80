/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LoRA adapters: prompts of the base model and of two adapters in the same steps give
 * the logits of PEFT within 1e-4 and its greedy tokens, however steps are cut, swapped
 * and divided among ranks; a GGUF adapter is the same adapter; what an adapter may not
 * change is refused by name. tools/make_adapters.py made the adapters and references.
 */
#include "t/gguf.h"
#include "t/rules.h"

#include "core/lora/lora_set.h"

#include <errno.h>

static const char *adapter_path(const char *model, const char *name)
{
  char relative[128];
  snprintf(relative, sizeof relative, "t/data/models/%s-lora/%s", model, name);
  return source_path(relative);
}

struct paths {
  char base[4096], first[4096], second[4096];
  const char *list[REFERENCE_MAX_PROMPTS]; /* of the prompts: none, first, second */
};

static void find_paths(const char *model, const char *first, struct paths *p)
{
  char relative[128];
  snprintf(relative, sizeof relative, "t/data/models/%s", model);
  snprintf(p->base, sizeof p->base, "%s", source_path(relative));
  snprintf(p->first, sizeof p->first, "%s", adapter_path(model, first));
  snprintf(p->second, sizeof p->second, "%s", adapter_path(model, "second"));
  memset(p->list, 0, sizeof p->list);
  p->list[1] = p->first;
  p->list[2] = p->second;
}

static void check_logits(const char *model, const char *first, uint32_t ranks,
                         uint32_t threads)
{
  struct paths paths;
  char reference[64];
  find_paths(model, first, &paths);
  snprintf(reference, sizeof reference, "%s-lora", model);
  const struct drive_options options = {.weights = LLS_WEIGHTS_F32,
                                        .cache_element = LLS_F32,
                                        .ranks = ranks,
                                        .threads = threads,
                                        .path = paths.base,
                                        .adapters = paths.list};
  rule_check_all(reference, &options);
}

static void test_peft(void **state)
{
  check_logits(*state, "first", 1, 1);
}

static void test_gguf(void **state)
{
  check_logits(*state, "first.gguf", 1, 2);
}

static void test_ranks(void **state)
{
  check_logits(*state, "first", 2, 1);
}

/* PEFT's logits with the changes of the first adapter halved, and those of the second
 * turned around; one adapter is there with two scales. */
static void test_scales(void **state)
{
  static const float scales[REFERENCE_MAX_PROMPTS] = {0.5F, 1, -1.5F};
  struct paths paths;
  (void)state;
  find_paths("mixtral", "first", &paths);
  paths.list[0] = paths.first;
  paths.list[1] = paths.first;
  const struct drive_options options = {.weights = LLS_WEIGHTS_F32,
                                        .cache_element = LLS_F32,
                                        .ranks = 2,
                                        .threads = 1,
                                        .path = paths.base,
                                        .adapters = paths.list,
                                        .scales = scales};
  rule_check_all("mixtral-lora-scaled", &options);
}

static void read_config(const char *model, struct lls_model_config *c)
{
  struct paths paths;
  find_paths(model, "first", &paths);
  assert_int_equal(lls_model_config_read(paths.base, c, NULL), 0);
}

/* The digest names an adapter in the keys of cached blocks. */
static void test_digests(void **state)
{
  static const char *const names[] = {"first", "first.gguf", "second"};
  struct lls_model_config *c = malloc(sizeof *c);
  struct lls_lora *l[3];
  (void)state;
  assert_non_null(c);
  read_config("llama", c);
  for (int i = 0; i < 3; i++)
    assert_int_equal(lls_lora_load(adapter_path("llama", names[i]), c, &l[i], NULL), 0);
  assert_memory_equal(l[0]->digest, l[1]->digest, sizeof l[0]->digest);
  assert_memory_not_equal(l[0]->digest, l[2]->digest, sizeof l[0]->digest);
  assert_int_equal(l[0]->bytes, l[1]->bytes);
  for (int i = 0; i < 3; i++)
    lls_lora_unref(l[i]);
  free(c);
}

/* ---- the set ---------------------------------------------------------------------- */

static int list_adapter(struct lls_lora_set *set, const char *name, const char *folder)
{
  char own[16];
  char *path = (char *)(uintptr_t)adapter_path("llama", folder);
  snprintf(own, sizeof own, "%s", name);
  const struct lls_adapter as = {.name = own, .path = path, .scale = 1};
  return lls_lora_set_add(set, &as, NULL);
}

static struct lls_lora_set *make_set(const struct lls_lora_bounds *bounds)
{
  struct lls_model_config *c = malloc(sizeof *c);
  assert_non_null(c);
  read_config("llama", c);
  struct lls_lora_set *set = lls_lora_set_create(c, bounds);
  assert_non_null(set);
  free(c);
  assert_int_equal(list_adapter(set, "first", "first"), 0);
  assert_int_equal(list_adapter(set, "second", "second"), 0);
  return set;
}

static void count_loaded(void *context, const struct lls_adapter *a, bool loaded,
                         uint32_t users)
{
  uint32_t *n = context;
  (void)a;
  (void)users;
  *n += loaded;
}

/* One adapter fits: the other one takes its place as soon as no request uses it. */
static void test_one_fits(void **state)
{
  const struct lls_lora_bounds bounds = {.max_loaded = 1};
  struct lls_lora_set *set = make_set(&bounds);
  struct lls_adapter *first = lls_lora_set_find(set, "first");
  struct lls_adapter *second = lls_lora_set_find(set, "second");
  struct lls_lora *used = NULL, *other = NULL;
  struct lls_error err = {0};
  uint32_t n = 0;
  (void)state;
  assert_int_not_equal(first->number, second->number);
  assert_null(lls_lora_set_use(set, first));
  assert_int_equal(lls_lora_set_load(set, first, &used, &err), 0);
  assert_int_equal(lls_lora_set_load(set, second, &other, &err), -EBUSY);
  assert_null(other);
  assert_non_null(strstr(err.text, "\"second\" has to wait"));
  lls_lora_unref(used);
  assert_int_equal(lls_lora_set_load(set, second, &other, &err), 0);
  assert_null(lls_lora_set_use(set, first));
  lls_lora_set_each(set, count_loaded, &n);
  assert_int_equal(n, 1);
  lls_lora_unref(other);
  lls_adapter_unref(first);
  lls_adapter_unref(second);
  lls_lora_set_destroy(set);
}

/* A removed adapter stays with those that have it, and a new one of the same name is
 * another. */
static void test_removed_in_use(void **state)
{
  const struct lls_lora_bounds bounds = {.max_loaded = 2, .memory = 1 << 20};
  struct lls_lora_set *set = make_set(&bounds);
  struct lls_adapter *old = lls_lora_set_find(set, "first");
  struct lls_lora *used = NULL;
  (void)state;
  assert_int_equal(lls_lora_set_load(set, old, &used, NULL), 0);
  assert_int_equal(list_adapter(set, "first", "second"), -EEXIST);
  assert_int_equal(lls_lora_set_remove(set, "first"), 0);
  assert_int_equal(lls_lora_set_remove(set, "first"), -ENOENT);
  assert_null(lls_lora_set_find(set, "first"));
  assert_true(lls_lora_part(used, 0, LLS_LORA_Q)->rank == 8);
  assert_int_equal(list_adapter(set, "first", "second"), 0);
  struct lls_adapter *new = lls_lora_set_find(set, "first");
  assert_true(new->number > old->number);
  lls_lora_unref(used);
  lls_adapter_unref(old);
  lls_adapter_unref(new);
  lls_lora_set_destroy(set);
}

/* ---- refusals --------------------------------------------------------------------- */

static void assert_refused(const char *given, const char *model, const char *sentence)
{
  struct lls_model_config *c = malloc(sizeof *c);
  char path[4096]; /* source_path has one buffer */
  struct lls_lora *lora = NULL;
  struct lls_error err = {0};
  assert_non_null(c);
  snprintf(path, sizeof path, "%s", given);
  read_config(model, c);
  int rc = lls_lora_load(path, c, &lora, &err);
  if (rc >= 0 || strstr(err.text, sentence) == NULL)
    fail_msg("%s: %d, \"%s\", not \"%s\"", path, rc, err.text, sentence);
  free(c);
}

/* Writes an adapter of a tensor pair, with more settings. */
static void assert_refused_by(const char *model, const char *settings, const char *module,
                              const char *sentence)
{
  struct folder folder;
  char text[1024];
  folder_make(&folder);
  snprintf(text, sizeof text, "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4%s}",
           settings);
  folder_write_text(&folder, "adapter_config.json", text);
  snprintf(text, sizeof text,
           "{\"base_model.model.%s.lora_A.weight\": {\"dtype\": \"F32\", \"shape\": [2, "
           "64], \"data_offsets\": [0, 512]}, \"base_model.model.%s.lora_B.weight\": "
           "{\"dtype\": \"F32\", \"shape\": [64, 2], \"data_offsets\": [512, 1024]}}",
           module, module);
  folder_write_tensors(&folder, "adapter_model.safetensors", text, 1024);
  assert_refused(folder.path, model, sentence);
  folder_remove(&folder);
}

static void assert_folder_refused(const char *settings, const char *module,
                                  const char *sentence)
{
  assert_refused_by("llama", settings, module, sentence);
}

static void test_refused_settings(void **state)
{
  static const char q[] = "model.layers.0.self_attn.q_proj";
  (void)state;
  assert_folder_refused(", \"use_dora\": true", q, "\"use_dora\" is not supported");
  assert_folder_refused(", \"bias\": \"lora_only\"", q, "\"bias\" is \"lora_only\"");
  assert_folder_refused(", \"modules_to_save\": [\"lm_head\"]", q,
                        "\"modules_to_save\" is not supported");
  assert_folder_refused(", \"target_parameters\": [\"x\"], \"peft_version\": \"0.18.1\"",
                        q, "adapters of PEFT 0.19 and later are");
  assert_folder_refused(", \"init_lora_weights\": \"pissa\"", q,
                        "\"init_lora_weights\" is \"pissa\"");
  assert_folder_refused(", \"new_key\": 1", q, "\"new_key\" is not supported");
}

static void test_refused_modules(void **state)
{
  static const char *const modules[] = {
      "lm_head",
      "model.embed_tokens",
      "model.layers.0.self_attn.q_norm",
      "model.layers.2.self_attn.q_proj",
      "vision_tower.layers.0.self_attn.q_proj",
      "model.layers.0.mlp.experts.1.up_proj",
  };
  (void)state;
  for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
    char sentence[128];
    snprintf(sentence, sizeof sentence, "%s is not supported", modules[i]);
    assert_folder_refused("", modules[i], sentence);
  }
  assert_folder_refused("", "model.layers.0.self_attn.k_proj",
                        "is the adapter of another model?");
}

/* Layers with a state, latent attention, and queries with gates are not adapted. */
static void test_refused_layers(void **state)
{
  static const struct {
    const char *model, *module;
  } cases[] = {
      {"lfm2", "model.layers.0.conv.in_proj"},
      {"lfm2", "model.layers.0.conv.out_proj"},
      {"qwen3.5", "model.layers.0.linear_attn.in_proj_qkv"},
      {"qwen3.5", "model.layers.0.linear_attn.out_proj"},
      {"qwen3.5", "model.layers.1.self_attn.q_proj"},
      {"minicpm3", "model.layers.0.self_attn.q_b_proj"},
      {"minicpm3", "model.layers.0.self_attn.kv_a_proj_with_mqa"},
      {"deepseek-v2", "model.layers.0.self_attn.q_proj"},
      {"deepseek-v2", "model.layers.0.self_attn.o_proj"},
      {"deepseek-v2", "model.layers.1.mlp.gate"},
      {"mixtral", "model.layers.0.mlp.experts.4.w1"},
      {"mixtral", "model.layers.0.mlp.experts.1.w4"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char sentence[160];
    snprintf(sentence, sizeof sentence, "%s is not supported: an adapter may change",
             cases[i].module);
    assert_refused_by(cases[i].model, "", cases[i].module, sentence);
  }
}

static void test_refused_files(void **state)
{
  struct folder folder;
  (void)state;
  folder_make(&folder);
  assert_refused(folder.path, "llama", "neither a folder with adapter_config.json");
  folder_write_text(&folder, "adapter_config.json", "{\"peft_type\": \"IA3\"}");
  assert_refused(folder.path, "llama", "\"peft_type\" is \"IA3\"");
  folder_write_text(&folder, "adapter_config.json", "{\"peft_type\": \"LORA\"}");
  assert_refused(folder.path, "llama", "adapter_model.safetensors is not there");
  folder_remove(&folder);
  assert_refused(adapter_path("llama", "first.gguf"), "neox",
                 "for models of architecture \"llama\"");
  assert_refused(adapter_path("llama", "first"), "neox", "is not supported");
}

/* A GGUF adapter of one pair of all experts' matrices, for a mixture without gates. */
static void test_refused_gates(void **state)
{
  static const float zeros[8 * 2 * 32];
  static const char *const names[] = {"ffn_gate_exps", "ffn_gate_up_exps"};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    struct folder folder;
    struct gguf_builder b = {0};
    char name[64], path[4096];
    folder_make(&folder);
    gguf_text(&b, "general.type", "adapter");
    gguf_text(&b, "general.architecture", "nemotron_h_moe");
    gguf_text(&b, "adapter.type", "lora");
    gguf_real(&b, "adapter.lora.alpha", 4);
    for (int k = 0; k < 2; k++) {
      const uint64_t sizes[][3] = {{8, 2, 32}, {8, 16, 2}};
      snprintf(name, sizeof name, "blk.1.%s.weight.lora_%c", names[i], 'a' + k);
      gguf_stack(&b, name, 0, sizes[k], zeros,
                 (size_t)(sizes[k][0] * sizes[k][1] * sizes[k][2]) * sizeof *zeros);
    }
    gguf_write(&b, &folder, "adapter.gguf");
    snprintf(path, sizeof path, "%s/adapter.gguf", folder.path);
    snprintf(name, sizeof name, "%s.weight.lora_", names[i]);
    assert_refused(path, "nemotron-3", name);
    assert_refused(path, "nemotron-3", "is not supported: an adapter may change");
    gguf_free(&b);
    folder_remove(&folder);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      {"llama", test_peft, NULL, NULL, "llama"},
      {"llama, gguf", test_gguf, NULL, NULL, "llama"},
      {"llama on 2 ranks", test_ranks, NULL, NULL, "llama"},
      {"neox", test_peft, NULL, NULL, "neox"},
      {"neox on 2 ranks", test_ranks, NULL, NULL, "neox"},
      {"phi3", test_peft, NULL, NULL, "phi3"},
      {"glm-4", test_peft, NULL, NULL, "glm-4"},
      {"lfm2", test_peft, NULL, NULL, "lfm2"},
      {"lfm2 on 2 ranks", test_ranks, NULL, NULL, "lfm2"},
      {"qwen3.5", test_peft, NULL, NULL, "qwen3.5"},
      {"minicpm3", test_peft, NULL, NULL, "minicpm3"},
      {"experts as parameters", test_peft, NULL, NULL, "mixtral"},
      {"experts as modules", test_peft, NULL, NULL, "qwen3-moe"},
      {"experts as modules, gguf", test_gguf, NULL, NULL, "qwen3-moe"},
      {"experts whose rows alternate", test_peft, NULL, NULL, "gpt-oss-16"},
      {"shared experts", test_peft, NULL, NULL, "deepseek-v2"},
      {"shared experts on 2 ranks", test_ranks, NULL, NULL, "deepseek-v2"},
      cmocka_unit_test(test_scales),
      cmocka_unit_test(test_digests),
      cmocka_unit_test(test_one_fits),
      cmocka_unit_test(test_removed_in_use),
      cmocka_unit_test(test_refused_settings),
      cmocka_unit_test(test_refused_modules),
      cmocka_unit_test(test_refused_layers),
      cmocka_unit_test(test_refused_files),
      cmocka_unit_test(test_refused_gates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
