/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a tokeniser from a model folder, and answers queries about its vocabulary. */
#include "text/tokenizer/tokenizer.h"

#include "text/tokenizer/tokenizer_internal.h"
#include "text/tokenizer/source.h"
#include "text/tokenizer/stage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int load_model(struct lls_tokenizer *tokenizer, const json_t *node,
                      struct lls_error *err)
{
  const char *type = json_string_value(json_object_get(node, "type"));
  if (type == NULL && json_object_get(node, "merges") != NULL)
    type = "BPE"; /* files written before the type existed */
  if (type == NULL)
    return lls_fail(err, -EINVAL, "\"type\" is missing");
  if (strcmp(type, "Unigram") == 0)
    return lls_unigram_load(node, &tokenizer->vocab, &tokenizer->unigram, err);
  bool wordpiece = strcmp(type, "WordPiece") == 0;
  if (strcmp(type, "BPE") != 0 && !wordpiece)
    return lls_stage_unknown(type, err);
  const json_t *vocab = json_object_get(node, "vocab");
  if (!json_is_object(vocab) || json_object_size(vocab) == 0)
    return lls_fail(err, -EINVAL, "\"vocab\" is missing or empty");
  int code = lls_vocab_load(&tokenizer->vocab, vocab, err);
  if (code == 0 && wordpiece)
    code = lls_wordpiece_load(node, &tokenizer->vocab, &tokenizer->wordpiece, err);
  else if (code == 0)
    code = lls_bpe_load(node, &tokenizer->vocab, &tokenizer->bpe, err);
  return code;
}

static int load_added(struct lls_tokenizer *tokenizer, const json_t *node,
                      struct lls_error *err)
{
  return lls_added_load(&tokenizer->added, node, &tokenizer->vocab,
                        &tokenizer->normalizer, err);
}

static int check_ids(const struct lls_tokenizer *tokenizer, const struct lls_ids *ids,
                     struct lls_error *err)
{
  for (size_t i = 0; i < ids->count; i++)
    if (lls_tokenizer_string(tokenizer, ids->data[i], &(size_t){0}) == NULL)
      return lls_fail(err, -EINVAL, "id %d is not in the vocabulary", ids->data[i]);
  return 0;
}

static int load_post(struct lls_tokenizer *tokenizer, const json_t *node,
                     struct lls_error *err)
{
  int code = lls_postprocessor_load(&tokenizer->post, node, err);
  if (code == 0)
    code = check_ids(tokenizer, &tokenizer->post.before, err);
  if (code == 0)
    code = check_ids(tokenizer, &tokenizer->post.after, err);
  return code < 0 ? code : check_ids(tokenizer, &tokenizer->post.between, err);
}

static int load_normalizer(struct lls_tokenizer *tokenizer, const json_t *node,
                           struct lls_error *err)
{
  return lls_normalizer_load(&tokenizer->normalizer, node, err);
}

static int load_pretokenizer(struct lls_tokenizer *tokenizer, const json_t *node,
                             struct lls_error *err)
{
  return lls_pretokenizer_load(&tokenizer->pretokenizer, node, err);
}

static int load_decoder(struct lls_tokenizer *tokenizer, const json_t *node,
                        struct lls_error *err)
{
  return lls_decoder_load(&tokenizer->decoder, node, err);
}

/* The order matters: added tokens need the vocabulary and the normaliser. */
static const struct {
  const char *member;
  int (*load)(struct lls_tokenizer *tokenizer, const json_t *node, struct lls_error *err);
} stages[] = {
    {"model", load_model},         {"normalizer", load_normalizer},
    {"added_tokens", load_added},  {"pre_tokenizer", load_pretokenizer},
    {"post_processor", load_post}, {"decoder", load_decoder},
};

static int load_stages(struct lls_tokenizer *tokenizer, const json_t *root,
                       struct lls_error *err)
{
  for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
    int code = stages[i].load(tokenizer, json_object_get(root, stages[i].member), err);
    if (code < 0)
      return lls_fail_at(err, code, "%s", stages[i].member);
  }
  return lls_surface_build(tokenizer, err);
}

/* Returns a token named in tokenizer_config.json, as a string or an object with
 * "content"; or -1. */
static int32_t named_token(const struct lls_tokenizer *tokenizer, const json_t *config,
                           const char *member)
{
  const char *string = lls_config_token(config, member);
  return string != NULL ? lls_tokenizer_find(tokenizer, string) : -1;
}

/* "add_bos_token" and "add_eos_token", if present, override the post-processor. */
static int load_config(struct lls_tokenizer *tokenizer, const json_t *config,
                       struct lls_error *err)
{
  const json_t *add_bos = json_object_get(config, "add_bos_token");
  const json_t *add_eos = json_object_get(config, "add_eos_token");
  tokenizer->bos = named_token(tokenizer, config, "bos_token");
  tokenizer->eos = named_token(tokenizer, config, "eos_token");
  if ((json_is_true(add_bos) && tokenizer->bos < 0) ||
      (json_is_true(add_eos) && tokenizer->eos < 0))
    return lls_fail(
        err, -EINVAL,
        "tokenizer_config.json: a token is to be added that is not named there, "
        "or is not in the vocabulary");
  int code = 0;
  if (json_is_boolean(add_bos))
    code = lls_postprocessor_set_first(&tokenizer->post, tokenizer->bos,
                                       json_is_true(add_bos));
  if (json_is_boolean(add_eos) && code == 0)
    code = lls_postprocessor_set_last(&tokenizer->post, tokenizer->eos,
                                      json_is_true(add_eos));
  return code < 0 ? lls_fail(err, code, "no memory for the tokenizer") : 0;
}

/* Makes a tokeniser of *source, which it frees; `path` is the model's, for messages. */
static int load_source(const char *path, struct lls_tokenizer_source *source,
                       struct lls_tokenizer **out, struct lls_error *err)
{
  int code;
  struct lls_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
  if (tokenizer == NULL) {
    code = lls_fail(err, -ENOMEM, "no memory for the tokenizer");
    goto done;
  }
  code = load_stages(tokenizer, source->root, err);
  if (code < 0)
    lls_fail_at(err, code, "%s%s%s", path, source->file != NULL ? "/" : "",
                source->file != NULL ? source->file : "");
  else if ((code = load_config(tokenizer, source->config, err)) < 0)
    lls_fail_at(err, code, "%s", path);
  if (code < 0)
    lls_tokenizer_free(tokenizer);
  else
    *out = tokenizer;
done:
  lls_tokenizer_source_free(source);
  return code;
}

int lls_tokenizer_load(const char *model_folder, struct lls_tokenizer **out,
                       struct lls_error *err)
{
  struct lls_tokenizer_source source = {0};
  int code = lls_tokenizer_source_read(model_folder, &source, err);
  return code < 0 ? code : load_source(model_folder, &source, out, err);
}

int lls_tokenizer_load_gguf(const struct lls_gguf_metadata *metadata,
                            struct lls_tokenizer **out, struct lls_error *err)
{
  struct lls_tokenizer_source source = {0};
  int code = lls_tokenizer_source_read_gguf(metadata, &source, err);
  return code < 0 ? code : load_source(metadata->path, &source, out, err);
}

void lls_tokenizer_free(struct lls_tokenizer *tokenizer)
{
  if (tokenizer == NULL)
    return;
  lls_surface_free(&tokenizer->surface);
  lls_decoder_free(&tokenizer->decoder);
  lls_postprocessor_free(&tokenizer->post);
  lls_pretokenizer_free(&tokenizer->pretokenizer);
  lls_added_free(&tokenizer->added);
  lls_normalizer_free(&tokenizer->normalizer);
  lls_bpe_free(tokenizer->bpe);
  lls_wordpiece_free(tokenizer->wordpiece);
  lls_unigram_free(tokenizer->unigram);
  lls_vocab_free(&tokenizer->vocab);
  free(tokenizer);
}

struct lls_tokenizer_frame lls_tokenizer_frame(const struct lls_tokenizer *tokenizer)
{
  const struct lls_postprocessor *post = &tokenizer->post;
  return (struct lls_tokenizer_frame){
      .before = post->before.data,
      .between = post->between.data,
      .after = post->after.data,
      .n_before = post->before.count,
      .n_between = post->between.count,
      .n_after = post->after.count,
      .second_type = post->second_type,
  };
}

size_t lls_tokenizer_size(const struct lls_tokenizer *tokenizer)
{
  return tokenizer->vocab.size;
}

int32_t lls_tokenizer_bos(const struct lls_tokenizer *tokenizer)
{
  return tokenizer->bos;
}

int32_t lls_tokenizer_eos(const struct lls_tokenizer *tokenizer)
{
  return tokenizer->eos;
}

int32_t lls_tokenizer_find(const struct lls_tokenizer *tokenizer, const char *string)
{
  return lls_vocab_find(&tokenizer->vocab, string, strlen(string));
}

static const struct lls_token *token_of(const struct lls_tokenizer *tokenizer, int32_t id)
{
  if (id < 0 || (size_t)id >= tokenizer->vocab.size ||
      !tokenizer->vocab.tokens[id].defined)
    return NULL;
  return &tokenizer->vocab.tokens[id];
}

const char *lls_tokenizer_string(const struct lls_tokenizer *tokenizer, int32_t id,
                                 size_t *length)
{
  const struct lls_token *token = token_of(tokenizer, id);
  if (token == NULL)
    return NULL;
  *length = token->string.length;
  return lls_vocab_string(&tokenizer->vocab, id);
}

const char *lls_tokenizer_token_bytes(const struct lls_tokenizer *tokenizer, int32_t id,
                                      size_t *length)
{
  if (token_of(tokenizer, id) == NULL)
    return NULL;
  *length = tokenizer->surface.inside[id].length;
  return tokenizer->surface.text.data + tokenizer->surface.inside[id].offset;
}

bool lls_tokenizer_is_special(const struct lls_tokenizer *tokenizer, int32_t id)
{
  const struct lls_token *token = token_of(tokenizer, id);
  return token != NULL && token->special;
}

int32_t lls_tokenizer_added_at(const struct lls_tokenizer *tokenizer, const char *text,
                               size_t length, size_t *size)
{
  return lls_added_at(&tokenizer->added, text, length, size);
}
