/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of which nothing is lost in silence where memory is short: it is whole, or NULL.
 */
#ifndef LLS_API_JSON_PARTS_H
#define LLS_API_JSON_PARTS_H

#include <jansson.h>

/*
 * Adds a member or an element and takes it over. Where it is NULL, or there is no memory,
 * *object or *array is NULL from then on, so that nothing is sent that lacks a part.
 */
void lls_wire_put(json_t **object, const char *key, json_t *value);
void lls_wire_add(json_t **array, json_t *value);

/* JSON as text which the caller frees; NULL without memory, or for NULL. */
char *lls_wire_text(const json_t *json);

#endif
