/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes small files from users: traces, decision logs, profiles, API keys, a model's
 * configuration and its chat template. Each is read, or refused with an error. The
 * first byte selects the kind.
 */
#include <sys/stat.h>

#include "core/api/keys.h"
#include "core/cost/profile.h"
#include "core/encoder/folder.h"
#include "core/model/model_config.h"
#include "text/template/template.h"
#include "t/fuzz/fuzz.h"
#include "tools/workload/decision_file.h"
#include "tools/workload/reader.h"

static int read_rows(const char *path, const struct lls_tokenizer *tokenizer,
                     struct lls_error *err)
{
  struct lls_rows rows = {.arena = lls_arena_create(), .tokenizer = tokenizer};
  int rc = lls_read("auto", path, &rows, err);
  for (uint32_t i = 0; rc == 0 && i < rows.n; i++)
    assert(rows.items[i].prompt_tokens <= LLS_LENGTH_MAX &&
           rows.items[i].output_tokens <= LLS_LENGTH_MAX);
  lls_rows_free(&rows);
  lls_arena_destroy(rows.arena);
  return rc;
}

static int read_trace(const char *path, struct lls_error *err)
{
  return read_rows(path, NULL, err);
}

static int read_texts(const char *path, struct lls_error *err)
{
  static struct lls_tokenizer *tokenizer;
  if (tokenizer == NULL)
    assert(lls_tokenizer_load(fuzz_source("t/data/models/stories260K"), &tokenizer,
                              NULL) == 0);
  return read_rows(path, tokenizer, err);
}

static int read_column(const char *path, struct lls_error *err)
{
  uint32_t *values = NULL;
  size_t n;
  int rc = lls_read_column(path, "a", &values, &n, err);
  free(values);
  return rc;
}

static int read_decisions(const char *path, struct lls_error *err)
{
  struct lls_decision_file file;
  struct lls_decision_line line = {0};
  int rc = lls_decision_file_open(&file, path, err);
  if (rc < 0)
    return rc;
  while ((rc = lls_decision_file_next(&file, &line, err)) > 0)
    continue;
  lls_text_free(&line.items);
  lls_decision_file_close(&file);
  return rc;
}

static int read_profile(const char *path, struct lls_error *err)
{
  struct lls_profile profile;
  int rc = lls_profile_read(path, &profile, err);
  if (rc == 0)
    lls_profile_free(&profile);
  return rc;
}

static int read_keys(const char *path, struct lls_error *err)
{
  struct lls_api_keys *keys;
  const char *tenant;
  int rc = lls_api_keys_load(path, &keys, err);
  if (rc < 0)
    return rc;
  lls_api_keys_allow(keys, "Bearer a", &tenant);
  lls_api_keys_free(keys);
  return 0;
}

static int read_model(const char *path, struct lls_error *err)
{
  struct lls_model_config config;
  (void)path;
  return lls_model_config_read(fuzz_folder(), &config, err);
}

/* With a valid config.json in the same folder. */
static int read_generation(const char *path, struct lls_error *err)
{
  static const char good[] =
      "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", "
      "\"vocab_size\": 256, \"hidden_size\": 64, \"intermediate_size\": 96, "
      "\"num_hidden_layers\": 2, \"num_attention_heads\": 8, \"num_key_value_heads\": 2, "
      "\"hidden_act\": \"silu\", \"max_position_embeddings\": 256, \"rms_norm_eps\": "
      "1e-05, \"bos_token_id\": 1, \"eos_token_id\": 2, \"torch_dtype\": \"float32\"}";
  fuzz_file("config.json", good, sizeof good - 1);
  int rc = read_model(path, err);
  fuzz_forget("config.json");
  return rc;
}

static int read_encoder(const char *path, struct lls_error *err)
{
  struct lls_encoder_folder folder;
  (void)path;
  return lls_encoder_folder_read(fuzz_folder(), &folder, err);
}

static int read_template(const char *path, struct lls_error *err)
{
  struct lls_chat_template *chat_template;
  (void)path;
  int rc = lls_chat_template_load(fuzz_folder(), NULL, &chat_template, err);
  if (rc == 0)
    lls_chat_template_free(chat_template);
  return rc;
}

static const struct {
  const char *name;
  int (*read)(const char *path, struct lls_error *err);
} kinds[] = {
    {"trace", read_trace},
    {"texts", read_texts},
    {"column.csv", read_column},
    {"decisions", read_decisions},
    {"profile.ini", read_profile},
    {"keys", read_keys},
    {"config.json", read_model},
    {"generation_config.json", read_generation},
    {"1_Pooling/config.json", read_encoder},
    {"sentence_bert_config.json", read_encoder},
    {"tokenizer_config.json", read_template},
    {"chat_template.jinja", read_template},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct lls_error err = {0};
  if (size == 0)
    return 0;
  unsigned kind = data[0] % (sizeof kinds / sizeof kinds[0]);
  char folder[128];
  snprintf(folder, sizeof folder, "%s/1_Pooling", fuzz_folder());
  mkdir(folder, 0700);
  if (kinds[kind].read(fuzz_file(kinds[kind].name, data + 1, size - 1), &err) < 0)
    assert(err.text[0] != '\0');
  fuzz_forget(kinds[kind].name);
  rmdir(folder);
  return 0;
}
