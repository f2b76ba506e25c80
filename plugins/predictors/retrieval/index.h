/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the vectors of unit length with the greatest cosine to a given one: a C interface
 * to hnswlib (Malkov and Yashunin, 2016). Vectors are numbered 0, 1, ... as they are
 * added, and are never removed.
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

/* Memory is allocated as the index fills. Returns NULL if out of memory. */
struct graph *index_create(uint32_t dims, uint32_t capacity);
void index_destroy(struct graph *); /* NULL is fine */
/* Returns 0, -ENOSPC if it is full, or -ENOMEM. The vector's number is the count of
 * vectors before. */
int index_add(struct graph *, const float *vector);
/* Writes up to k vectors, the most similar first; returns how many. */
uint32_t index_search(const struct graph *, const float *vector, uint32_t k,
                      struct found *out);
/* Copies a vector out. */
void index_vector(const struct graph *, uint32_t number, float *vector);

#ifdef __cplusplus
}
#endif

#endif
