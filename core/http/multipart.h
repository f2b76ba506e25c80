/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multipart/form-data (RFC 7578), as it arrives: parts are told piece by piece, so that a
 * file in one of them is never held as a whole.
 *
 * Invariant: at most one piece that was fed and the headers of one part are kept.
 */
#ifndef LLS_HTTP_MULTIPART_H
#define LLS_HTTP_MULTIPART_H

#include "core/base/text.h"

#define LLS_MULTIPART_NAME 256

/* One field of the form. */
struct lls_multipart_part {
  char name[LLS_MULTIPART_NAME];
  char filename[LLS_MULTIPART_NAME]; /* "": the field is no file */
};

struct lls_multipart_events {
  void *context;
  void (*on_part)(void *context, const struct lls_multipart_part *part);
  void (*on_data)(void *context, const char *data, size_t length); /* of the last part */
};

enum lls_multipart_state {
  LLS_MULTIPART_BEFORE, /* the first delimiter */
  LLS_MULTIPART_DELIMITED,
  LLS_MULTIPART_HEADERS,
  LLS_MULTIPART_DATA,
  LLS_MULTIPART_OVER,
  LLS_MULTIPART_BROKEN,
};

struct lls_multipart {
  struct lls_multipart_events events;
  enum lls_multipart_state state;
  char delimiter[4 + 70 + 1]; /* CR LF "--" boundary */
  struct lls_text kept;       /* not decided yet */
  const char *why;            /* BROKEN: a static clause */
};

/* Reads the boundary from a content-type; false if it is no form with one. */
bool lls_multipart_begin(struct lls_multipart *form, const char *content_type,
                         const struct lls_multipart_events *events);

/* 0, or -EINVAL for good, with form->why. */
int lls_multipart_feed(struct lls_multipart *form, const char *data, size_t length);

/* True once the last delimiter has come. */
bool lls_multipart_is_over(const struct lls_multipart *form);

void lls_multipart_free(struct lls_multipart *form);

#endif
