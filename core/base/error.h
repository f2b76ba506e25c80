/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error idiom of the whole tree: functions return 0 or a negative errno, and write
 * the reason to the caller's struct lls_error, which may be NULL if the caller does not
 * need it.
 *
 *   if (fd < 0)
 *     return lls_fail(err, -errno, "%s: cannot open: %s", path, strerror(errno));
 */
#ifndef LLS_BASE_ERROR_H
#define LLS_BASE_ERROR_H

#include <stddef.h>

#define LLS_ERROR_MAX 512

struct lls_error {
  char text[LLS_ERROR_MAX]; /* one sentence: what was wrong, where, what to do */
};

/* Formats the sentence into err, unless err is NULL, and returns code for the caller to
 * return. */
int lls_fail(struct lls_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts the formatted text and ": " before the sentence already in err; returns code. */
int lls_fail_at(struct lls_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns the sentence, or the name of the code if no sentence was written. */
const char *lls_error_text(const struct lls_error *err, int code);

#endif
