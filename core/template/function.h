/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a template can call: filters (value | name), tests (value is name), methods
 * (value.name()) and functions (name()). One table each; a row names the parameters, so
 * that a call is checked when the template is compiled.
 */
#ifndef LLS_TEMPLATE_FUNCTION_H
#define LLS_TEMPLATE_FUNCTION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define LLS_PARAMETERS 3

struct lls_render;
struct lls_node;

struct lls_call {
  const struct lls_node *node;       /* for messages */
  json_t *subject;                   /* the value before | or is or . */
  json_t *arguments[LLS_PARAMETERS]; /* by parameter; NULL where not given */
  json_t *keywords;                  /* of an open function: the arguments by name */
};

/* Takes nothing over; returns a new reference, or NULL for undefined or after a
 * failure. */
typedef json_t *(*lls_function_body)(struct lls_render *render,
                                     const struct lls_call *call);

struct lls_function {
  const char *name;
  lls_function_body body;
  size_t required;                        /* how many parameters must be given */
  const char *parameters[LLS_PARAMETERS]; /* names, NULL after the last */
  bool open;                              /* takes any keyword */
};

/* NULL for an unknown name. */
const struct lls_function *lls_filter_find(const char *name);
const struct lls_function *lls_test_find(const char *name);
const struct lls_function *lls_method_find(const char *name);
const struct lls_function *lls_function_find(const char *name);

/* Looks a name up in a table that ends in a row without one. */
const struct lls_function *lls_function_in(const struct lls_function *table,
                                           const char *name);

#endif
