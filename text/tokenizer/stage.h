/* SPDX-License-Identifier: Apache-2.0 */
/* Common to all stages of tokenizer.json: a type, and sequences of
 * each other. */
#ifndef LLS_TOKENIZER_STAGE_H
#define LLS_TOKENIZER_STAGE_H

#include "core/base/error.h"

#include <jansson.h>

/*
 * A chain of normalizers or decoders could make a text exponential in its length: these
 * bound what it makes of so many bytes, at once and in all steps together. One character
 * becomes up to 11 bytes for one in NFKD, and ByteLevel doubles that; short texts have
 * more room, for Prepend; published tokenizers have up to 40 steps.
 */
#define LLS_STAGE_SLACK              8
#define LLS_STAGE_MOST_BYTES(length) (32 * ((length) + LLS_STAGE_SLACK))
#define LLS_STAGE_MOST_WORK(length)  (256 * ((length) + LLS_STAGE_SLACK))

/* Member "type" of a stage, or NULL and the sentence for -EINVAL. */
const char *lls_stage_type(const json_t *node, struct lls_error *err);

/* Loads each item of a list, the named member of a Sequence, into the stage. */
int lls_stage_sequence(const json_t *node, const char *member,
                       int (*load)(void *stage, const json_t *item,
                                   struct lls_error *err),
                       void *stage, struct lls_error *err);

/* The sentence for a type that is not known. */
int lls_stage_unknown(const char *type, struct lls_error *err);

#endif
