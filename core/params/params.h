/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed parameters: text to struct member, by a table of struct lls_param.
 *
 * The core's own sections and the plugins' sections use the same tables and this code,
 * so a value means the same in every section. A bound struct owns its strings (STRING
 * and PATH members are malloc'ed); lls_params_release frees them.
 */
#ifndef LLS_PARAMS_H
#define LLS_PARAMS_H

#include "core/base/error.h"

#include <llmserve/plugin.h>

struct lls_param_table {
  const struct lls_param *params; /* (n) */
  size_t n;
  size_t size; /* size of the struct that the members are in */
};

/* Returns the size of the struct member of a type, a multiple of its alignment; 0 if
 * there is no such type. */
size_t lls_param_member_bytes(uint32_t type);

/* Checks the table itself: names, sentences, bounds, offsets, defaults. Returns 0 or a
 * negative errno. */
int lls_param_table_check(const struct lls_param_table *, struct lls_error *err);

/* Zeroes `values` and binds every default; a REQUIRED one stays NULL or 0. On failure
 * nothing is left to release. */
int lls_params_default(const struct lls_param_table *, const char *folder, void *values,
                       struct lls_error *err);
void lls_params_release(const struct lls_param_table *, void *values);

/*
 * Binds one text. A relative PATH is relative to `folder`; NULL = keep it unchanged.
 * Returns -EINVAL with "expected ..., found ..." if the text is no value of the type,
 * -ERANGE if it is out of bounds; the member then keeps its old value.
 */
int lls_param_bind(const struct lls_param *, const char *text, const char *folder,
                   void *values, struct lls_error *err);

const struct lls_param *lls_param_find(const struct lls_param_table *, const char *name);

/* Returns the size of a unit, in ns for durations and in bytes for memory, and sets
 * *type to the parameter type it belongs to; 0 if there is no such unit. */
int64_t lls_param_unit(const char *name, uint32_t *type);

/* Writes what lls_param_bind accepts: "whole number, 1 to 65536, or auto". Returns
 * buffer. */
const char *lls_param_expected(const struct lls_param *, char *buffer, size_t size);

/* Returns `path` relative to `folder`, malloc'ed; unchanged if it is absolute or empty,
 * or folder is NULL. */
char *lls_path_join(const char *folder, const char *path);

#endif
