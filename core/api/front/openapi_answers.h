/* SPDX-License-Identifier: Apache-2.0 */
/* Answers in /openapi.json: openapi_shape.c, openapi_answers.c, openapi_parts.c. */
#ifndef LLS_API_FRONT_OPENAPI_ANSWERS_H
#define LLS_API_FRONT_OPENAPI_ANSWERS_H

#include <jansson.h>

/*
 * A shape is the short form of a schema:
 *
 *   s i n b 0 o v          string, integer, number, boolean, null, any object, any value
 *   'list'                 this string
 *   [SHAPE]                an array of it
 *   {a:SHAPE b?:SHAPE}     an object; b may be left out
 *   {name:SHAPE *SHAPE}    an object that may have more members, whose names are data
 *   Name                   the shape of this name (openapi_parts.c)
 *   SHAPE|SHAPE            one of them
 */

/* Returns the JSON Schema of a shape; NULL without memory. */
json_t *lls_openapi_shape(const char *shape);

/* A shape that several answers have. */
struct lls_openapi_part {
  const char *name, *shape;
};
extern const struct lls_openapi_part lls_openapi_parts[]; /* ended by one without name */

/* The row of an operation. */
struct lls_openapi_answer {
  const char *method, *path; /* without /v1 before it */
  unsigned status;           /* HTTP status of an answer without an error */
  const char *type;          /* media type; NULL: JSON */
  const char *whole;         /* shape of a whole answer; NULL: there is none */
  const char *events;        /* shape of each event's data, or line; NULL: no stream */
  unsigned errors[4];        /* statuses that other operations of its kind do not have */
  const char *refusal;       /* shape of errors of its own, besides the usual ones */
};

/* Returns the row of an operation; NULL: there is none. */
const struct lls_openapi_answer *lls_openapi_answer(const char *method, const char *path);

#endif
