/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Five kinds of tokenisers: "gpt2" is byte-level BPE with a list of merges; "llama" is
 * SentencePiece's BPE, whose merges are the tokens themselves in the order of their
 * scores (merges_scored.c builds the table); "gemma4" is the same with a list of merges;
 * "bert" is WordPiece; "t5" is
 * SentencePiece's Unigram. A token's type decides whether the text is searched for it
 * before tokenisation.
 */
#include "text/tokenizer/gguf_tokenizer.h"

#include "text/tokenizer/bert_tokenizer.h"
#include "text/tokenizer/gguf_patterns.h"
#include "text/tokenizer/vocab.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name
#define METASPACE "\xe2\x96\x81" /* U+2581, which represents a space */

/* Values of tokenizer.ggml.token_type. */
enum token_type { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, BYTE = 6 };

/* A file and its lists; NULL: the file has no such list. */
struct lists {
  const struct lls_gguf_metadata *file;
  json_t *tokens, *types, *scores, *merges;
};

static void release(struct lists *l)
{
  json_decref(l->tokens);
  json_decref(l->types);
  json_decref(l->scores);
  json_decref(l->merges);
}

static int check_lists(const struct lists *l, struct lls_error *err)
{
  size_t n = json_array_size(l->tokens);
  if (n == 0 || n > LLS_VOCAB_MAX || !json_is_string(json_array_get(l->tokens, 0)))
    return lls_fail(err, -EINVAL, KEY("tokens") " should be 1 to %d texts",
                    LLS_VOCAB_MAX);
  if (l->types != NULL && json_array_size(l->types) != n)
    return lls_fail(err, -EINVAL,
                    KEY("token_type") " has %zu items, but there are %zu tokens",
                    json_array_size(l->types), n);
  if (l->scores != NULL && json_array_size(l->scores) != n)
    return lls_fail(err, -EINVAL,
                    KEY("scores") " has %zu items, but there are %zu tokens",
                    json_array_size(l->scores), n);
  return 0;
}

static int read_lists(struct lists *l, struct lls_error *err)
{
  int rc = l->file->value(l->file->file, KEY("tokens"), &l->tokens, err);
  if (rc == 0)
    rc = l->file->value(l->file->file, KEY("token_type"), &l->types, err);
  if (rc == 0)
    rc = l->file->value(l->file->file, KEY("scores"), &l->scores, err);
  if (rc == 0)
    rc = l->file->value(l->file->file, KEY("merges"), &l->merges, err);
  return rc;
}

static bool flag(const struct lls_gguf_metadata *file, const char *key, bool fallback)
{
  json_t *value = NULL;
  struct lls_error ignored;
  file->value(file->file, key, &value, &ignored);
  bool on = json_is_boolean(value) ? json_is_true(value) : fallback;
  json_decref(value);
  return on;
}

/* ---- common parts --------------------------------------------------------------- */

static json_t *vocabulary(const struct lists *l)
{
  json_t *vocab = json_object();
  size_t id;
  json_t *token;
  json_array_foreach(l->tokens, id, token)
  {
    json_object_set_new(vocab, json_string_value(token), json_integer((json_int_t)id));
  }
  return vocab;
}

/* Lists the control tokens and the unknown token; with `users` also user-defined
 * tokens. */
static json_t *added_tokens(const struct lists *l, bool users)
{
  json_t *list = json_array();
  size_t id;
  json_t *type;
  json_array_foreach(l->types, id, type)
  {
    json_int_t kind = json_integer_value(type);
    if (kind == CONTROL || (kind == USER_DEFINED && users) || kind == UNKNOWN)
      json_array_append_new(list, json_pack("{s:i, s:O, s:b}", "id", (int)id, "content",
                                            json_array_get(l->tokens, id), "special",
                                            kind != USER_DEFINED));
  }
  return list;
}

/* ---- gpt2 ----------------------------------------------------------------------- */

static const struct lls_gguf_pre *pre_of(const struct lls_gguf_metadata *file, char *name,
                                         size_t size)
{
  if (file->text(file->file, KEY("pre"), name, size) == NULL)
    strcpy(name, "default");
  return lls_gguf_pre_named(name);
}

static json_t *word_splits(const struct lls_gguf_pre *pre)
{
  json_t *steps = json_array();
  for (const char *const *pattern = pre->patterns; *pattern != NULL; pattern++)
    json_array_append_new(steps,
                          json_pack("{s:s, s:{s:s}, s:s}", "type", "Split", "pattern",
                                    "Regex", *pattern, "behavior", "Isolated"));
  json_array_append_new(steps,
                        json_pack("{s:s, s:b}", "type", "ByteLevel", "use_regex", 0));
  return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", steps);
}

static const char *token_of(const struct lists *l, const char *key)
{
  int64_t id = l->file->integer(l->file->file, key, -1);
  return id < 0 ? NULL : json_string_value(json_array_get(l->tokens, (size_t)id));
}

/* Makes the post-processor for RoBERTa's [CLS] and [SEP]; NULL if they are missing. */
static json_t *frame(const struct lists *l)
{
  const char *cls = token_of(l, KEY("bos_token_id")),
             *sep = token_of(l, KEY("seperator_token_id"));
  const char *key = sep != NULL ? KEY("seperator_token_id") : KEY("eos_token_id");
  sep = token_of(l, key);
  if (cls == NULL || sep == NULL)
    return NULL;
  return json_pack("{s:s, s:[s, i], s:[s, i]}", "type", "RobertaProcessing", "cls", cls,
                   (int)l->file->integer(l->file->file, KEY("bos_token_id"), 0), "sep",
                   sep, (int)l->file->integer(l->file->file, key, 0));
}

static int describe_gpt2(const struct lists *l, json_t **out, struct lls_error *err)
{
  char name[64];
  const struct lls_gguf_pre *pre = pre_of(l->file, name, sizeof name);
  if (pre == NULL)
    return lls_fail(err, -ENOTSUP, KEY("pre") " \"%s\" is not supported", name);
  if (l->merges == NULL)
    return lls_fail(err, -EINVAL, KEY("merges") " is missing");
  *out = json_pack("{s:{s:s, s:o, s:O, s:b}, s:o, s:o, s:{s:s}, s:o*}", "model", "type",
                   "BPE", "vocab", vocabulary(l), "merges", l->merges, "ignore_merges",
                   pre->ignore_merges, "added_tokens", added_tokens(l, true),
                   "pre_tokenizer", word_splits(pre), "decoder", "type", "ByteLevel",
                   "post_processor", pre->add_sep ? frame(l) : NULL);
  return *out != NULL ? 0 : lls_fail(err, -ENOMEM, "no memory for the tokenizer");
}

/* ---- llama ---------------------------------------------------------------------- */

/* Makes spaces visible, and adds one before the text if space_before. */
static json_t *normalizer(bool space_before)
{
  json_t *steps = json_array();
  if (space_before)
    json_array_append_new(
        steps, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", METASPACE));
  json_array_append_new(steps, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace",
                                         "pattern", "String", " ", "content", METASPACE));
  return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", steps);
}

static json_t *decoder(bool space_before)
{
  json_t *steps = json_pack("[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]", "type", "Replace",
                            "pattern", "String", METASPACE, "content", " ", "type",
                            "ByteFallback", "type", "Fuse");
  if (space_before)
    json_array_append_new(steps, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip",
                                           "content", " ", "start", 1, "stop", 0));
  return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", steps);
}

static int describe_llama(const struct lists *l, json_t **out, struct lls_error *err)
{
  bool space_before = flag(l->file, KEY("add_space_prefix"), true);
  const char *unknown = token_of(l, KEY("unknown_token_id"));
  if (l->scores == NULL)
    return lls_fail(err, -EINVAL, KEY("scores") " is missing");
  *out = json_pack("{s:{s:s, s:o, s:O, s:b, s:b, s:s*}, s:o, s:o, s:o}", "model", "type",
                   "BPE", "vocab", vocabulary(l), "scores", l->scores, "byte_fallback", 1,
                   "fuse_unk", 1, "unk_token", unknown, "added_tokens",
                   added_tokens(l, true), "normalizer", normalizer(space_before),
                   "decoder", decoder(space_before));
  return *out != NULL ? 0 : lls_fail(err, -ENOMEM, "no memory for the tokenizer");
}

/* No text is split into words: spaces are in the tokens. */
static int describe_gemma4(const struct lists *l, json_t **out, struct lls_error *err)
{
  const char *unknown = token_of(l, KEY("unknown_token_id"));
  bool space_before = flag(l->file, KEY("add_space_prefix"), false);
  if (l->merges == NULL)
    return lls_fail(err, -EINVAL, KEY("merges") " is missing");
  *out = json_pack("{s:{s:s, s:o, s:O, s:b, s:b, s:s*}, s:o, s:o, s:o}", "model", "type",
                   "BPE", "vocab", vocabulary(l), "merges", l->merges, "byte_fallback", 1,
                   "fuse_unk", 1, "unk_token", unknown, "added_tokens",
                   added_tokens(l, true), "normalizer", normalizer(space_before),
                   "decoder", decoder(space_before));
  return *out != NULL ? 0 : lls_fail(err, -ENOMEM, "no memory for the tokenizer");
}

/* ---- bert ----------------------------------------------------------------------- */

/* Converts pieces: llama.cpp's converter marks the first piece of a word and leaves
 * later ones unmarked; BERT marks later pieces with ##. */
static json_t *pieces(const struct lists *l)
{
  json_t *vocab = json_object(), *token;
  size_t id;
  json_array_foreach(l->tokens, id, token)
  {
    const char *text = json_string_value(token);
    bool marked = strncmp(text, METASPACE, strlen(METASPACE)) == 0;
    json_int_t kind = json_integer_value(json_array_get(l->types, id));
    if (marked || kind == CONTROL || kind == UNKNOWN)
      json_object_set_new(vocab, text + (marked ? strlen(METASPACE) : 0),
                          json_integer((json_int_t)id));
    else {
      json_t *piece = json_sprintf("##%s", text);
      json_object_set_new(vocab, json_string_value(piece), json_integer((json_int_t)id));
      json_decref(piece);
    }
  }
  return vocab;
}

static int describe_bert(const struct lists *l, json_t **out, struct lls_error *err)
{
  const char *cls = token_of(l, KEY("cls_token_id")),
             *bos = token_of(l, KEY("bos_token_id")),
             *sep = token_of(l, KEY("seperator_token_id")),
             *unknown = token_of(l, KEY("unknown_token_id"));
  const struct lls_bert_names names = {
      .cls = cls != NULL   ? cls
             : bos != NULL ? bos
                           : lls_bert_names.cls,
      .sep = sep != NULL ? sep : lls_bert_names.sep,
      .unknown = unknown != NULL ? unknown : lls_bert_names.unknown,
  };
  json_t *vocab = pieces(l);
  int rc = lls_bert_tokenizer(vocab, added_tokens(l, false), &names,
                              flag(l->file, KEY("normalizer.lowercase"), true), out, err);
  json_decref(vocab);
  return rc;
}

/* ---- t5 ------------------------------------------------------------------------- */

/* Lists tokens with their scores; tokens that do not occur in texts have none. */
static json_t *scored(const struct lists *l)
{
  json_t *vocab = json_array(), *token;
  size_t id;
  json_array_foreach(l->tokens, id, token)
  {
    json_int_t kind =
        l->types != NULL ? json_integer_value(json_array_get(l->types, id)) : NORMAL;
    json_t *score = kind == NORMAL || kind == BYTE
                        ? json_incref(json_array_get(l->scores, id))
                        : json_null();
    json_array_append_new(vocab, json_pack("[O, o]", token, score));
  }
  return vocab;
}

/* Lists the normalisers: the file's table, if it has one. */
static int normalizers(const struct lists *l, json_t **out, struct lls_error *err)
{
  json_t *table = NULL, *steps = json_array();
  int rc = l->file->value(l->file->file, KEY("precompiled_charsmap"), &table, err);
  if (rc == 0 && json_array_size(table) > 0)
    json_array_append_new(steps, json_pack("{s:s, s:O}", "type", "Precompiled",
                                           "precompiled_charsmap", table));
  json_decref(table);
  *out = json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", steps);
  return rc;
}

/* Removes white space at the ends and repeated white space, if the file asks for it. */
static json_t *spaces(const struct lists *l)
{
  json_t *steps = json_array();
  bool before = flag(l->file, KEY("add_space_prefix"), true);
  bool fewer = flag(l->file, KEY("remove_extra_whitespaces"), false);
  const char *scheme = !before ? "never" : fewer ? "always" : "first";
  if (fewer)
    json_array_append_new(steps, json_pack("{s:s}", "type", "WhitespaceSplit"));
  json_array_append_new(steps, json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace",
                                         "replacement", METASPACE, "prepend_scheme",
                                         scheme, "split", fewer));
  return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", steps);
}

static int describe_t5(const struct lists *l, json_t **out, struct lls_error *err)
{
  json_t *normalizer = NULL;
  if (l->scores == NULL)
    return lls_fail(err, -EINVAL, KEY("scores") " is missing");
  int rc = normalizers(l, &normalizer, err);
  if (rc < 0) {
    json_decref(normalizer);
    return rc;
  }
  json_int_t unknown = l->file->integer(l->file->file, KEY("unknown_token_id"), 2);
  *out =
      json_pack("{s:{s:s, s:o, s:I, s:b}, s:o, s:o, s:o, s:{s:s, s:s}, s:o*}", "model",
                "type", "Unigram", "vocab", scored(l), "unk_id", unknown, "byte_fallback",
                1, "added_tokens", added_tokens(l, true), "normalizer", normalizer,
                "pre_tokenizer", spaces(l), "decoder", "type", "Metaspace", "replacement",
                METASPACE, "post_processor", frame(l));
  return *out != NULL ? 0 : lls_fail(err, -ENOMEM, "no memory for the tokenizer");
}

/* ---- the entry points ----------------------------------------------------------- */

typedef int (*describe)(const struct lists *l, json_t **out, struct lls_error *err);

static int with_lists(const struct lls_gguf_metadata *file, describe how, json_t **out,
                      struct lls_error *err)
{
  struct lists l = {.file = file};
  int rc = read_lists(&l, err);
  if (rc == 0) {
    rc = check_lists(&l, err);
    if (rc == 0)
      rc = how(&l, out, err);
    if (rc < 0)
      lls_fail_at(err, rc, "%s", file->path);
  }
  release(&l);
  return rc;
}

static int describe_model(const struct lists *l, json_t **out, struct lls_error *err)
{
  char kind[64] = "";
  l->file->text(l->file->file, KEY("model"), kind, sizeof kind);
  if (strcmp(kind, "gpt2") == 0)
    return describe_gpt2(l, out, err);
  if (strcmp(kind, "llama") == 0)
    return describe_llama(l, out, err);
  if (strcmp(kind, "gemma4") == 0)
    return describe_gemma4(l, out, err);
  if (strcmp(kind, "bert") == 0)
    return describe_bert(l, out, err);
  if (strcmp(kind, "t5") == 0)
    return describe_t5(l, out, err);
  return lls_fail(err, -ENOTSUP,
                  KEY("model") " \"%s\" is not supported; \"gpt2\", \"llama\", "
                               "\"gemma4\", \"bert\" and \"t5\" are",
                  kind);
}

int lls_gguf_tokenizer(const struct lls_gguf_metadata *file, json_t **out,
                       struct lls_error *err)
{
  return with_lists(file, describe_model, out, err);
}

/* Returns true if texts begin with bos when the file does not set it. */
static bool adds_bos(const struct lls_gguf_metadata *file)
{
  char kind[64] = "", name[64];
  file->text(file->file, KEY("model"), kind, sizeof kind);
  if (strcmp(kind, "gpt2") != 0)
    return true;
  const struct lls_gguf_pre *pre = pre_of(file, name, sizeof name);
  return pre != NULL && pre->add_bos;
}

/* Returns true if the tokeniser's own description puts a text between two special
 * tokens. */
static bool is_framed(const struct lls_gguf_metadata *file)
{
  char kind[64] = "", name[64];
  file->text(file->file, KEY("model"), kind, sizeof kind);
  const struct lls_gguf_pre *pre = pre_of(file, name, sizeof name);
  return strcmp(kind, "bert") == 0 || strcmp(kind, "t5") == 0 ||
         (strcmp(kind, "gpt2") == 0 && pre != NULL && pre->add_sep);
}

static int describe_config(const struct lists *l, json_t **out, struct lls_error *err)
{
  static const struct {
    const char *key, *member;
  } tokens[] = {{KEY("bos_token_id"), "bos_token"},
                {KEY("eos_token_id"), "eos_token"},
                {KEY("unknown_token_id"), "unk_token"},
                {KEY("padding_token_id"), "pad_token"}};
  json_t *config = json_object(), *chat_template = NULL;
  for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
    const char *text = token_of(l, tokens[i].key);
    if (text != NULL)
      json_object_set_new(config, tokens[i].member, json_string(text));
  }
  bool bos = flag(l->file, KEY("add_bos_token"), adds_bos(l->file));
  bool eos = flag(l->file, KEY("add_eos_token"), false);
  bool has_bos = json_object_get(config, "bos_token") != NULL;
  if (!is_framed(l->file)) {
    json_object_set_new(config, "add_bos_token", json_boolean(bos && has_bos));
    json_object_set_new(config, "add_eos_token", json_boolean(eos));
  }
  int rc = l->file->value(l->file->file, "tokenizer.chat_template", &chat_template, err);
  if (rc == 0 && chat_template != NULL)
    json_object_set_new(config, "chat_template", chat_template);
  if (rc < 0)
    json_decref(config);
  else
    *out = config;
  return rc;
}

int lls_gguf_tokenizer_config(const struct lls_gguf_metadata *file, json_t **out,
                              struct lls_error *err)
{
  return with_lists(file, describe_config, out, err);
}

/* ---- missing keys --------------------------------------------------------------- */

bool lls_gguf_tokenizer_lacks(const struct lls_gguf_metadata *file,
                              struct lls_error *sentence)
{
  char kind[64] = "", pre[64] = "default";
  file->text(file->file, KEY("model"), kind, sizeof kind);
  file->text(file->file, KEY("pre"), pre, sizeof pre);
  bool no_words = strcmp(kind, "gpt2") == 0 && strcmp(pre, "default") == 0;
  bool no_types = file->integer(file->file, KEY("token_type"), -1) < 0;
  lls_fail(
      sentence, 0, "%s%s%s: answers may be worse; a newer conversion of the model has it",
      file->path,
      no_words ? ": " KEY("pre") " does not name how text is split into words" : "",
      no_types ? ": " KEY("token_type") " is missing, so that control tokens are text"
               : "");
  return no_words || no_types;
}
