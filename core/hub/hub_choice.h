/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files of a repository a model needs: the small files of a Hugging Face folder
 * and its safetensors, or one GGUF file with the other parts of its split set. The same
 * choice is made from the list of the hub and from a folder in the cache, so that what
 * was fetched is found again.
 */
#ifndef LLS_HUB_CHOICE_H
#define LLS_HUB_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

struct lls_hub_file {
  char *name; /* path in the repository */
  bool wanted;
};

struct lls_hub_choice {
  const char *gguf;  /* name of the GGUF file, or of its first part; NULL: a folder */
  const char *index; /* name of the safetensors' index; NULL: there is none */
};

/* [any] Marks the wanted ones of n files. With an index, the weights are left out: see
 * lls_hub_choose_weights. `element` is the size of the caller's struct, whose first
 * member is the struct lls_hub_file. Returns 0, or -ENOENT with a sentence that says
 * which names there are. */
int lls_hub_choose(void *files, size_t n, size_t element, const char *quant,
                   struct lls_hub_choice *, struct lls_error *err);

/* [any] Marks the files that the index at `path` names. */
int lls_hub_choose_weights(void *files, size_t n, size_t element, const char *path,
                           struct lls_error *err);

#endif
