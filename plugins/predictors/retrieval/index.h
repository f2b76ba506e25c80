/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nearest vectors of unit length by cosine: a skin of hnswlib (Malkov and Yashunin, 2016)
 * for C. Vectors are numbered 0, 1, ... as they are added and never leave.
 */
#ifndef LLS_RETRIEVAL_INDEX_H
#define LLS_RETRIEVAL_INDEX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct graph;

struct found {
  float similarity; /* cosine */
  uint32_t number;
};

/* Memory is taken as it fills. NULL: there is none. */
struct graph *index_create(uint32_t dims, uint32_t capacity);
void index_destroy(struct graph *); /* NULL is fine */
/* 0, -ENOSPC, -ENOMEM; number: how many there were before. */
int index_add(struct graph *, const float *vector);
/* The best first; how many, at most k. */
uint32_t index_search(const struct graph *, const float *vector, uint32_t k,
                      struct found *out);
/* Copies a vector out. */
void index_vector(const struct graph *, uint32_t number, float *vector);

#ifdef __cplusplus
}
#endif

#endif
