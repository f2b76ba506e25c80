/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokenisers: text to token ids and back, as a Hugging Face model folder describes them.
 *
 * tokenizer.json is a pipeline, and the files of this folder are its stages:
 *
 *   text -> added tokens -> normaliser -> pre-tokeniser -> model -> post-processor -> ids
 *           added.c         normalizer.c  pretokenizer.c   bpe.c    postprocessor.c
 *   ids  -> decoder -> detokeniser -> text
 *           decoder.c  detokenizer.c
 *
 * What a stage does not know is refused when the file is loaded, by name: a tokeniser
 * that is almost right makes a model that is almost right, and the cause is hard to see.
 *
 * A tokeniser never changes after load; any number of threads may use it at once.
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
 * Reads tokenizer.json of a model folder, or vocab.json and merges.txt, or vocab.txt
 * (BERT's) where there is none, and bos_token, eos_token, add_bos_token and add_eos_token
 * of tokenizer_config.json if that is there.
 */
int lls_tokenizer_load(const char *model_folder, struct lls_tokenizer **out,
                       struct lls_error *err);
/* From the metadata of a GGUF file, as core/model/model_text.c gives it. */
int lls_tokenizer_load_gguf(const struct lls_gguf_metadata *, struct lls_tokenizer **out,
                            struct lls_error *err);
void lls_tokenizer_free(struct lls_tokenizer *tokenizer);

/*
 * Encodes text of any bytes (broken UTF-8 counts as U+FFFD). add_special puts the ids
 * before and after that the model expects around a text, such as BOS; a rendered chat
 * template has them already. The caller frees *ids; it is NULL where *count is 0.
 */
int lls_tokenizer_encode(const struct lls_tokenizer *tokenizer, const char *text,
                         size_t length, bool add_special, int32_t **ids, size_t *count,
                         struct lls_error *err);

/* The ids that encoding puts around a text and, for cross-encoders, around and between
 * the two of a pair; they belong to the tokeniser. */
struct lls_tokenizer_frame {
  const int32_t *before, *between, *after; /* (n_before) and so on */
  size_t n_before, n_between, n_after;     /* n_between 0: nothing is known of pairs */
  bool second_type;                        /* a pair's second text is of token type 1 */
};
struct lls_tokenizer_frame lls_tokenizer_frame(const struct lls_tokenizer *tokenizer);

/* Largest id + 1; ids below it may still be unused. */
size_t lls_tokenizer_size(const struct lls_tokenizer *tokenizer);

/* -1 where the model names none. */
int32_t lls_tokenizer_bos(const struct lls_tokenizer *tokenizer);
int32_t lls_tokenizer_eos(const struct lls_tokenizer *tokenizer);

/* The id of a token's string, such as "<|eot_id|>", or -1. */
int32_t lls_tokenizer_find(const struct lls_tokenizer *tokenizer, const char *string);
/* A token's string as the vocabulary writes it, terminated; NULL for an unused id. */
const char *lls_tokenizer_string(const struct lls_tokenizer *tokenizer, int32_t id,
                                 size_t *length);
/* The bytes a token stands for inside a text, maybe half a character; NULL if unused. */
const char *lls_tokenizer_token_bytes(const struct lls_tokenizer *tokenizer, int32_t id,
                                      size_t *length);
bool lls_tokenizer_is_special(const struct lls_tokenizer *tokenizer, int32_t id);
/* The added token whose string begins at the text's first byte, the longest; its id and,
 * in *size, its bytes, or -1. */
int32_t lls_tokenizer_added_at(const struct lls_tokenizer *tokenizer, const char *text,
                               size_t length, size_t *size);

/*
 * Text out of a stream of tokens. Whole characters only: bytes that begin one are held
 * back until it is complete, or until it cannot be, and then U+FFFD stands for them. The
 * caller owns the struct; nothing is allocated, so it may run on the step path.
 */
struct lls_detokenizer {
  const struct lls_tokenizer *tokenizer;
  bool skip_special;    /* tokens such as <s> yield no text */
  bool begun;           /* a token has been seen */
  unsigned strip_count; /* characters still to be dropped at the beginning */
  unsigned held_count;
  char held[4]; /* (held_count) the beginning of a character */
};

/*
 * continues: the tokens follow others, as an answer follows a prompt, so that a space at
 * their beginning is a space; otherwise they begin a text, and the space that encoding
 * put there is taken away.
 */
void lls_detokenizer_init(struct lls_detokenizer *detokenizer,
                          const struct lls_tokenizer *tokenizer, bool skip_special,
                          bool continues);
/* The most bytes that one push or flush can write. */
size_t lls_detokenizer_room(const struct lls_tokenizer *tokenizer);
/* Writes the text that the token completes into out, which has the room; its length. */
size_t lls_detokenizer_push(struct lls_detokenizer *detokenizer, int32_t id, char *out);
/* At the end: U+FFFD for a character that was left incomplete, or nothing. */
size_t lls_detokenizer_flush(struct lls_detokenizer *detokenizer, char *out);

#endif
