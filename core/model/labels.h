/* SPDX-License-Identifier: Apache-2.0 */
/* The classes of a model that classifies texts, as transformers stores them in
 * config.json: "id2label" and "problem_type". */
#ifndef LLS_MODEL_LABELS_H
#define LLS_MODEL_LABELS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

#define LLS_MAX_LABELS 4096

struct lls_labels {
  json_t *names;    /* (n) strings; NULL: the model has no classes */
  bool independent; /* a text may be of several classes: each has a logistic function */
};

/* Reads the names of n classes; LABEL_0, LABEL_1 ... for those that the folder does not
 * name, and in a GGUF file. Returns 0; -ENOMEM; -EINVAL if config.json is broken. */
int lls_labels_read(const char *folder, uint32_t n, struct lls_labels *out,
                    struct lls_error *err);
void lls_labels_free(struct lls_labels *);

#endif
