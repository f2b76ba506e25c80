/* SPDX-License-Identifier: Apache-2.0 */
/* Common to all stages of tokenizer.json: a type, and sequences of stages. */
#ifndef LLS_TOKENIZER_STAGE_H
#define LLS_TOKENIZER_STAGE_H

#include "core/base/error.h"

#include <jansson.h>

/*
 * A chain of normalizers or decoders could make a text exponentially longer. These
 * bound the bytes that a stage makes of a text of `length` bytes, per step and in all
 * steps together. One character becomes up to 11 bytes for each of its bytes in NFKD,
 * and ByteLevel doubles that; the slack gives short texts room for Prepend; published
 * tokenizers have up to 40 steps.
 */
#define LLS_STAGE_SLACK              8
#define LLS_STAGE_MOST_BYTES(length) (32 * ((length) + LLS_STAGE_SLACK))
#define LLS_STAGE_MOST_WORK(length)  (256 * ((length) + LLS_STAGE_SLACK))

/* Returns the member "type" of a stage; NULL, with the sentence for -EINVAL, if it is
 * missing. */
const char *lls_stage_type(const json_t *node, struct lls_error *err);

/* Loads each item of a Sequence's list, which is in the named member, into the stage. */
int lls_stage_sequence(const json_t *node, const char *member,
                       int (*load)(void *stage, const json_t *item,
                                   struct lls_error *err),
                       void *stage, struct lls_error *err);

/* Fails with a sentence for an unknown type. */
int lls_stage_unknown(const char *type, struct lls_error *err);

#endif
