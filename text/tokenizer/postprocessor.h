/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Post-processors: the ids that stand before and after a text when special tokens are
 * asked for, and between the two of a pair. What is before and after a pair is the same
 * as of one text.
 */
#ifndef LLS_TOKENIZER_POSTPROCESSOR_H
#define LLS_TOKENIZER_POSTPROCESSOR_H

#include "core/base/error.h"
#include "text/base/buffer.h"

#include <jansson.h>

struct lls_postprocessor {
  struct lls_ids before;
  struct lls_ids after;
  struct lls_ids between; /* none: it says nothing of pairs, or what is not read here */
  bool second_type;       /* the second text's tokens are of type 1 */
};

/* node is the member "post_processor" of tokenizer.json; null is allowed. */
int lls_postprocessor_load(struct lls_postprocessor *post, const json_t *node,
                           struct lls_error *err);
void lls_postprocessor_free(struct lls_postprocessor *post);

/* Makes `before` begin with id (wanted) or not; the same for the end of `after`. */
int lls_postprocessor_set_first(struct lls_postprocessor *post, int32_t id, bool wanted);
int lls_postprocessor_set_last(struct lls_postprocessor *post, int32_t id, bool wanted);

#endif
