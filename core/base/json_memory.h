/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds JSON that is complete or NULL. Jansson 2.14 does not always report a lack of
 * memory: a parsed string may be shortened, a member may be written without its name, and
 * json_copy, json_array_extend and the like may omit elements. A caller that needs to
 * know compares lls_json_shortages before and after. The count is never reset, so such
 * comparisons may nest.
 */
#ifndef LLS_BASE_JSON_MEMORY_H
#define LLS_BASE_JSON_MEMORY_H

#include <jansson.h>
#include <stdint.h>

/* Begins counting; called before other threads exist. */
void lls_json_memory_watch(void);

/* Returns how often the calling thread had no memory for JSON. */
uint64_t lls_json_shortages(void);

/* Counts a failed allocation that a caller made for JSON, not Jansson. */
void lls_json_note_shortage(void);

/*
 * Adds a member or an element and takes over its reference. If the value is NULL or
 * memory is short, *object or *array becomes NULL and stays NULL, so that no incomplete
 * JSON is sent.
 */
void lls_json_put(json_t **object, const char *key, json_t *value);
void lls_json_add(json_t **array, json_t *value);

/* Returns the text of json, which the caller frees; NULL without memory or if json is
 * NULL. */
char *lls_json_text(const json_t *json, size_t flags);

#endif
