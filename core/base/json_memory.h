/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON that is whole or is not there. Jansson 2.14 does not always tell its callers that
 * memory was short: a string that it reads is shorter then, a member is written without
 * its name, and what json_copy, json_array_extend and the like leave out is for the
 * caller to find. Who has to know compares the count of before with that of after; it is
 * never reset, so that one such look may be within another.
 */
#ifndef LLS_BASE_JSON_MEMORY_H
#define LLS_BASE_JSON_MEMORY_H

#include <jansson.h>
#include <stdint.h>

/* Counts from here on; before there are threads. */
void lls_json_memory_watch(void);

/* How often the calling thread had no memory for JSON. */
uint64_t lls_json_shortages(void);

/* Counts one for memory around JSON that was not Jansson's. */
void lls_json_note_shortage(void);

/*
 * Adds a member or an element and takes it over. Where it is NULL, or there is no memory,
 * *object or *array is NULL from then on, so that nothing is sent that lacks a part.
 */
void lls_json_put(json_t **object, const char *key, json_t *value);
void lls_json_add(json_t **array, json_t *value);

/* Text of all of it, which the caller frees; NULL without memory, or of NULL. */
char *lls_json_text(const json_t *json, size_t flags);

#endif
