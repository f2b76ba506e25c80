/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of /openapi.json that openapi.c and openapi_bodies.c share. */
#ifndef LLS_API_FRONT_OPENAPI_BODIES_H
#define LLS_API_FRONT_OPENAPI_BODIES_H

#include "core/api/dialect.h"

/* Adds members to a schema's properties, and the names of required ones to `required`. */
void lls_openapi_put_members(json_t *members, json_t *required,
                             const struct lls_body_member *own);

/* True if a POST whose route is no dialect's has a body. */
bool lls_openapi_has_body(const char *path);
/* Returns the body of a POST whose route is no dialect's; NULL if it has none. */
json_t *lls_openapi_plain_body(const char *path);

#endif
