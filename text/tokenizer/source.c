/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads tokenizer.json; or the older pair vocab.json and merges.txt; or vocab.txt; or
 * the metadata of a GGUF file.
 *
 * The pair is GPT-2's byte-level BPE (OPT is published so), vocab.txt is BERT's
 * WordPiece. Both are converted to the form of tokenizer.json, so that all later code
 * reads one form only.
 */
#include "text/tokenizer/source.h"

#include "core/base/file.h"
#include "core/base/json_parse.h"
#include "text/tokenizer/bert_tokenizer.h"
#include "text/tokenizer/gguf_tokenizer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns -ENOENT, without a sentence, if the file does not exist. */
static int open_if_there(const char *path, FILE **out, struct lls_error *err)
{
  struct lls_error why;
  int code = lls_file_open(path, 0, out, &why);
  return code == 0 || code == -ENOENT ? code : lls_fail(err, code, "%s", why.text);
}

int lls_folder_json(const char *folder, const char *name, json_t **out,
                    struct lls_error *err)
{
  char path[4096];
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
    return lls_fail(err, -ENAMETOOLONG, "%s/%s: the path is too long", folder, name);
  FILE *file;
  int code = open_if_there(path, &file, err);
  if (code < 0)
    return code;
  json_error_t error;
  json_t *root = lls_json_parse_stream(file, JSON_ALLOW_NUL, &error);
  fclose(file);
  if (root == NULL)
    return lls_fail(err, -EINVAL, "%s:%d: not valid JSON: %s", path, error.line,
                    error.text);
  if (!json_is_object(root)) {
    json_decref(root);
    return lls_fail(err, -EINVAL, "%s: not a JSON object", path);
  }
  *out = root;
  return 0;
}

const char *lls_config_token(const json_t *config, const char *member)
{
  const json_t *token = json_object_get(config, member);
  return json_string_value(json_is_object(token) ? json_object_get(token, "content")
                                                 : token);
}

/* Passes each line, without its line end, to `add`, which fails if it is not UTF-8.
 * Returns -ENOENT, without a sentence, if the file does not exist. */
static int read_lines(const char *folder, const char *name, json_t *into,
                      int (*add)(json_t *into, const char *line, json_int_t number),
                      struct lls_error *err)
{
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file;
  int code = open_if_there(path, &file, err);
  if (code < 0)
    return code;
  char *line = NULL;
  size_t capacity = 0;
  for (json_int_t number = 1; code == 0 && getline(&line, &capacity, file) >= 0;
       number++) {
    line[strcspn(line, "\r\n")] = '\0';
    if (add(into, line, number) < 0)
      code = lls_fail(err, -EINVAL, "%s:%lld: not valid UTF-8", path, (long long)number);
  }
  free(line);
  fclose(file);
  return code;
}

/* Each line of merges.txt is a merge, except that the first may be a version. */
static int add_merge(json_t *merges, const char *line, json_int_t number)
{
  if (*line == '\0' || (number == 1 && strncmp(line, "#version", 8) == 0))
    return 0;
  return json_array_append_new(merges, json_string(line));
}

/* vocab.txt has one token per line; the first one has id 0. */
static int add_word(json_t *vocab, const char *line, json_int_t number)
{
  return json_object_set_new(vocab, line, json_integer(number - 1));
}

/* Returns the special tokens named in tokenizer_config.json, as entries of
 * "added_tokens". */
static json_t *special_tokens(const json_t *vocab, const json_t *config)
{
  static const char *const members[] = {"bos_token", "eos_token", "unk_token",
                                        "pad_token"};
  json_t *list = json_array();
  for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
    const char *token = lls_config_token(config, members[i]);
    const json_t *id = token != NULL ? json_object_get(vocab, token) : NULL;
    if (id != NULL)
      json_array_append_new(
          list, json_pack("{s:O, s:s, s:b}", "id", id, "content", token, "special", 1));
  }
  return list;
}

static int read_pair(const char *folder, struct lls_tokenizer_source *source,
                     struct lls_error *err)
{
  json_t *vocab = NULL, *merges = json_array();
  int code = lls_folder_json(folder, "vocab.json", &vocab, err);
  if (code == -ENOENT)
    code =
        lls_fail(err, code,
                 "%s: there is no tokenizer.json, nor a vocab.json or vocab.txt", folder);
  if (code == 0)
    code = read_lines(folder, "merges.txt", merges, add_merge, err);
  if (code == -ENOENT && vocab != NULL)
    code = lls_fail(err, -ENOENT, "%s/merges.txt: cannot open: %s", folder,
                    strerror(ENOENT));
  if (code == 0) {
    int prefix = json_is_true(json_object_get(source->config, "add_prefix_space"));
    source->file = "vocab.json";
    source->root = json_pack("{s:{s:s, s:O, s:O}, s:o, s:{s:s, s:b}, s:{s:s}}", "model",
                             "type", "BPE", "vocab", vocab, "merges", merges,
                             "added_tokens", special_tokens(vocab, source->config),
                             "pre_tokenizer", "type", "ByteLevel", "add_prefix_space",
                             prefix, "decoder", "type", "ByteLevel");
    if (source->root == NULL)
      code = lls_fail(err, -ENOMEM, "no memory for the tokenizer");
  }
  json_decref(vocab);
  json_decref(merges);
  return code;
}

static int read_vocab_txt(const char *folder, struct lls_tokenizer_source *source,
                          struct lls_error *err)
{
  json_t *vocab = json_object();
  const json_t *lower = json_object_get(source->config, "do_lower_case");
  int code = read_lines(folder, "vocab.txt", vocab, add_word, err);
  if (code == 0) {
    source->file = "vocab.txt";
    code = lls_bert_tokenizer(vocab, lls_bert_marks(vocab), &lls_bert_names,
                              lower == NULL || json_is_true(lower), &source->root, err);
    if (code < 0)
      lls_fail_at(err, code, "%s/vocab.txt", folder);
  }
  json_decref(vocab);
  return code;
}

int lls_tokenizer_source_read(const char *model_folder,
                              struct lls_tokenizer_source *source, struct lls_error *err)
{
  int code = lls_folder_json(model_folder, "tokenizer_config.json", &source->config, err);
  if (code == -ENOENT) {
    source->config = json_object();
    code = source->config != NULL ? 0 : -ENOMEM;
  }
  if (code < 0)
    return code;
  code = lls_folder_json(model_folder, "tokenizer.json", &source->root, err);
  source->file = "tokenizer.json";
  if (code == -ENOENT)
    code = read_vocab_txt(model_folder, source, err);
  if (code == -ENOENT)
    code = read_pair(model_folder, source, err);
  if (code < 0)
    lls_tokenizer_source_free(source);
  return code;
}

int lls_tokenizer_source_read_gguf(const struct lls_gguf_metadata *metadata,
                                   struct lls_tokenizer_source *source,
                                   struct lls_error *err)
{
  int code = lls_gguf_tokenizer_config(metadata, &source->config, err);
  if (code == 0)
    code = lls_gguf_tokenizer(metadata, &source->root, err);
  if (code < 0)
    lls_tokenizer_source_free(source);
  return code;
}

void lls_tokenizer_source_free(struct lls_tokenizer_source *source)
{
  json_decref(source->root);
  json_decref(source->config);
  *source = (struct lls_tokenizer_source){0};
}
