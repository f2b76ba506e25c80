/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Post-processors: the ids before and after a text that is encoded with special tokens,
 * and the ids between the two texts of a pair. The ids before and after a pair are
 * those of a single text.
 */
#ifndef LLS_TOKENIZER_POSTPROCESSOR_H
#define LLS_TOKENIZER_POSTPROCESSOR_H

#include "core/base/error.h"
#include "text/base/buffer.h"

#include <jansson.h>

struct lls_postprocessor {
  struct lls_ids before;
  struct lls_ids after;
  struct lls_ids between; /* none: pairs are not described, or in a form that is not
                           * supported */
  bool second_type;       /* the second text's tokens have type 1 */
};

/* node is the member "post_processor" of tokenizer.json; null is allowed. */
int lls_postprocessor_load(struct lls_postprocessor *post, const json_t *node,
                           struct lls_error *err);
void lls_postprocessor_free(struct lls_postprocessor *post);

/* Makes `before` begin with id, or not (wanted); the second function does so for the
 * end of `after`. */
int lls_postprocessor_set_first(struct lls_postprocessor *post, int32_t id, bool wanted);
int lls_postprocessor_set_last(struct lls_postprocessor *post, int32_t id, bool wanted);

#endif
