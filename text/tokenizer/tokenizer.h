/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokenisers convert text to token ids and back, as a Hugging Face model folder
 * describes them.
 *
 * tokenizer.json is a pipeline, and the files of this folder are its stages:
 *
 *   text -> added tokens -> normaliser -> pre-tokeniser -> model -> post-processor -> ids
 *           added.c         normalizer.c  pretokenizer.c   bpe.c    postprocessor.c
 *   ids  -> decoder -> detokeniser -> text
 *           decoder.c  detokenizer.c
 *
 * A feature that a stage does not support is refused by name when the file is loaded: a
 * tokeniser that is almost right makes a model that is almost right, and the cause is
 * hard to find.
 *
 * A tokeniser is immutable after load; any number of threads may use it at once.
 */
#ifndef LLS_TOKENIZER_TOKENIZER_H
#define LLS_TOKENIZER_TOKENIZER_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lls_gguf_metadata; /* gguf_metadata.h */
struct lls_tokenizer;

/*
 * Loads tokenizer.json of a model folder; if there is none, vocab.json and merges.txt,
 * or BERT's vocab.txt. Also reads bos_token, eos_token, add_bos_token and add_eos_token
 * of tokenizer_config.json, if that file exists.
 */
int lls_tokenizer_load(const char *model_folder, struct lls_tokenizer **out,
                       struct lls_error *err);
/* Loads a tokeniser from the metadata of a GGUF file, as core/model/model_text.c
 * supplies it. */
int lls_tokenizer_load_gguf(const struct lls_gguf_metadata *, struct lls_tokenizer **out,
                            struct lls_error *err);
void lls_tokenizer_free(struct lls_tokenizer *tokenizer);

/*
 * Encodes text of any bytes (broken UTF-8 becomes U+FFFD). add_special adds the ids
 * that the model expects before and after a text, such as BOS; a rendered chat template
 * contains them already. The caller frees *ids, which is NULL if *count is 0.
 */
int lls_tokenizer_encode(const struct lls_tokenizer *tokenizer, const char *text,
                         size_t length, bool add_special, int32_t **ids, size_t *count,
                         struct lls_error *err);

/* The ids that add_special puts around a text and, for cross-encoders, around and
 * between the two texts of a pair; the tokeniser owns them. */
struct lls_tokenizer_frame {
  const int32_t *before, *between, *after; /* (n_before), (n_between), (n_after) */
  size_t n_before, n_between, n_after;     /* n_between 0: the model describes no pairs */
  bool second_type;                        /* a pair's second text has token type 1 */
};
struct lls_tokenizer_frame lls_tokenizer_frame(const struct lls_tokenizer *tokenizer);

/* Returns the largest id + 1; ids below it may be unused. */
size_t lls_tokenizer_size(const struct lls_tokenizer *tokenizer);

/* Return -1 if the model has no such token. */
int32_t lls_tokenizer_bos(const struct lls_tokenizer *tokenizer);
int32_t lls_tokenizer_eos(const struct lls_tokenizer *tokenizer);

/* Returns the id of a token's string, such as "<|eot_id|>", or -1. */
int32_t lls_tokenizer_find(const struct lls_tokenizer *tokenizer, const char *string);
/* Returns a token's string in the vocabulary, terminated; NULL for an unused id. */
const char *lls_tokenizer_string(const struct lls_tokenizer *tokenizer, int32_t id,
                                 size_t *length);
/* Returns the bytes that a token represents inside a text, perhaps half a character;
 * NULL if the id is unused. */
const char *lls_tokenizer_token_bytes(const struct lls_tokenizer *tokenizer, int32_t id,
                                      size_t *length);
bool lls_tokenizer_is_special(const struct lls_tokenizer *tokenizer, int32_t id);
/* Returns the longest added token whose string begins at the text's first byte, and its
 * length in *size; -1 if there is none. */
int32_t lls_tokenizer_added_at(const struct lls_tokenizer *tokenizer, const char *text,
                               size_t length, size_t *size);

/*
 * Converts a stream of tokens to text of whole characters: the first bytes of a
 * character are held back until it is complete, or until it turns out to be invalid and
 * becomes U+FFFD. The caller owns the struct; no function allocates, so it may run on
 * the step path.
 */
struct lls_detokenizer {
  const struct lls_tokenizer *tokenizer;
  bool skip_special;    /* tokens such as <s> yield no text */
  bool begun;           /* a token was pushed */
  unsigned strip_count; /* characters that are still to be dropped at the beginning */
  unsigned held_count;
  char held[4]; /* (held_count) first bytes of a character */
};

/*
 * continues: the tokens follow other tokens, as an answer follows a prompt, so a space
 * at their beginning is kept. Otherwise they begin a text, and the space that encoding
 * added is dropped.
 */
void lls_detokenizer_init(struct lls_detokenizer *detokenizer,
                          const struct lls_tokenizer *tokenizer, bool skip_special,
                          bool continues);
/* Returns the most bytes that one push or flush can write. */
size_t lls_detokenizer_room(const struct lls_tokenizer *tokenizer);
/* Writes the text that the token completes into out, which must have that room. Returns
 * its length. */
size_t lls_detokenizer_push(struct lls_detokenizer *detokenizer, int32_t id, char *out);
/* Ends the text: writes U+FFFD if a character is incomplete. Returns the number of
 * bytes. */
size_t lls_detokenizer_flush(struct lls_detokenizer *detokenizer, char *out);

#endif
