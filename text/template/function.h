/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callables of a template: filters (value | name), tests (value is name), methods
 * (value.name()) and functions (name()). A table row names the parameters; a call binds
 * its arguments to them when it is reached.
 */
#ifndef LLS_TEMPLATE_FUNCTION_H
#define LLS_TEMPLATE_FUNCTION_H

#include "text/template/state.h"

#define LLS_PARAMETERS 5

struct lls_call {
  const struct lls_node *node; /* for messages */
  const struct lls_function *function;
  struct lls_value subject; /* the value before | or `is` or the dot */
  /* arguments by parameter; undefined if not given */
  struct lls_value arguments[LLS_PARAMETERS];
  unsigned given;                    /* one bit per argument */
  const struct lls_list *positional; /* all positional arguments, or NULL */
  const struct lls_dict *keywords;   /* all keyword arguments, or NULL */
};

typedef struct lls_value (*lls_function_body)(struct lls_render *render,
                                              const struct lls_call *call);

struct lls_function {
  const char *name;
  lls_function_body body;
  size_t required;                        /* number of mandatory parameters */
  const char *parameters[LLS_PARAMETERS]; /* names, NULL after the last */
  bool open;                              /* accepts any arguments */
};

/* Binds the arguments and calls. */
struct lls_value lls_function_call(struct lls_render *render, const struct lls_node *node,
                                   const struct lls_function *function,
                                   struct lls_value subject,
                                   const struct lls_list *positional,
                                   const struct lls_dict *keywords);

/* A method with its object. */
struct lls_bound {
  const struct lls_function *function;
  struct lls_value subject;
};

/* Return NULL for an unknown name. */
const struct lls_function *lls_filter_find(const char *name, size_t length);
const struct lls_function *lls_test_find(const char *name, size_t length);
const struct lls_function *lls_method_find(struct lls_value object, const char *name,
                                           size_t length);
const struct lls_function *lls_global_find(const char *name, size_t length);

/* Searches a table, whose last row has no name. */
const struct lls_function *lls_function_in(const struct lls_function *table,
                                           const char *name, size_t length);

/* The tables, each in a source file of its name. */
extern const struct lls_function lls_text_filters[];
extern const struct lls_function lls_list_filters[];
extern const struct lls_function lls_order_filters[];
extern const struct lls_function lls_value_filters[];
extern const struct lls_function lls_string_methods[];
extern const struct lls_function lls_list_methods[];
extern const struct lls_function lls_tuple_methods[];
extern const struct lls_function lls_dict_methods[];
extern const struct lls_function lls_loop_methods[];

/* Returns an argument as an integer, or `otherwise` if it was not given. Fails if it is
 * not an integer. */
int64_t lls_integer_argument(struct lls_render *render, const struct lls_call *call,
                             size_t number, int64_t otherwise);
/* Returns true if the argument is a string, else fails. */
bool lls_string_argument(struct lls_render *render, const struct lls_call *call,
                         size_t number);
static inline bool lls_given(const struct lls_call *call, size_t number)
{
  return (call->given >> number & 1) != 0;
}

#endif
