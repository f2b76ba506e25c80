/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls the cache manager and checks its answers; see cache_answers.c. Everything here
 * is [step].
 */
#ifndef LLS_INSTANCE_CACHE_ANSWERS_H
#define LLS_INSTANCE_CACHE_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

struct lls_block_table;
struct lls_cache_info;
struct lls_capacity;
struct lls_copy;
struct lls_group_list;
struct lls_instance;
struct lls_request;

/* Counts and logs an answer that breaks the contract. Returns -EPROTO. */
int lls_cache_breach(struct lls_instance *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Each fills *out and returns 0, or fills it with zeros and returns a negative
 * errno. */
int lls_cache_capacity(struct lls_instance *, uint32_t tier, struct lls_capacity *out);
int lls_cache_info(struct lls_instance *, const struct lls_request *,
                   struct lls_cache_info *out);
int lls_cache_table(struct lls_instance *, const struct lls_request *,
                    struct lls_block_table *out);
int lls_cache_copies(struct lls_instance *, const struct lls_copy **list, uint32_t *n);
/* True if the table has hidden states, to be read or restored. */
bool lls_table_has_hidden(const struct lls_block_table *);
void lls_cache_release(struct lls_instance *, const struct lls_request *,
                       uint32_t flags); /* enum lls_release_flags */

#endif
