/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed parameters: text to struct member, by a table of struct lls_param.
 *
 * The core's own sections and the plugins' sections use the same tables and this same
 * code, so a value means the same wherever it stands. A bound struct owns its strings
 * (STRING and PATH members are malloc'ed); lls_params_release frees them.
 */
#ifndef LLS_PARAMS_H
#define LLS_PARAMS_H

#include "core/base/error.h"

#include <llmserve/plugin.h>

struct lls_param_table {
  const struct lls_param *params; /* (n) */
  size_t n;
  size_t size; /* of the struct the members are in */
};

/* Size of the struct member of a type, a multiple of its alignment; 0 = no such type. */
size_t lls_param_member_bytes(uint32_t type);

/* Is the table itself sound: names, sentences, bounds, offsets, defaults? */
int lls_param_table_check(const struct lls_param_table *, struct lls_error *err);

/* Zeroes `values` and binds every default; a REQUIRED one stays NULL or 0. On failure
 * nothing is left to release. */
int lls_params_default(const struct lls_param_table *, const char *folder, void *values,
                       struct lls_error *err);
void lls_params_release(const struct lls_param_table *, void *values);

/*
 * Binds one text. `folder` is what a relative PATH is relative to, NULL = leave it as it
 * is. -EINVAL with "expected ..., found ..." for what the type can't read, -ERANGE out of
 * bounds; the member then keeps its old value.
 */
int lls_param_bind(const struct lls_param *, const char *text, const char *folder,
                   void *values, struct lls_error *err);

const struct lls_param *lls_param_find(const struct lls_param_table *, const char *name);

/* The size of a unit of durations in ns, of one of memory in bytes, and which of both
 * types it is of; 0: there is no such unit. */
int64_t lls_param_unit(const char *name, uint32_t *type);

/* "whole number, 1 to 65536, or auto": what lls_param_bind takes. Returns buffer. */
const char *lls_param_expected(const struct lls_param *, char *buffer, size_t size);

/* `path` seen from `folder`, malloc'ed; as it is if absolute, empty or folder is NULL. */
char *lls_path_join(const char *folder, const char *path);

#endif
