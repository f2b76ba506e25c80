/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses multipart/form-data (RFC 7578) while it arrives. The data of a part goes to
 * on_data piece by piece, so that a file is never held as a whole.
 *
 * Invariant: at most the last piece fed and the headers of one part are kept.
 */
#ifndef LLS_HTTP_MULTIPART_H
#define LLS_HTTP_MULTIPART_H

#include "core/base/text.h"

#define LLS_MULTIPART_NAME 256

/* One field of the form. */
struct lls_multipart_part {
  char name[LLS_MULTIPART_NAME];
  char filename[LLS_MULTIPART_NAME]; /* "": the field is not a file */
};

struct lls_multipart_events {
  void *context;
  void (*on_part)(void *context, const struct lls_multipart_part *part);
  /* Data of the part that began last. */
  void (*on_data)(void *context, const char *data, size_t length);
};

enum lls_multipart_state {
  LLS_MULTIPART_BEFORE, /* before the first delimiter */
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
  struct lls_text kept;       /* input that is not consumed yet */
  const char *why;            /* state BROKEN: the reason, a static clause */
};

/* Begins a form with the boundary in content_type. Returns false if content_type is not
 * multipart/form-data with a boundary. */
bool lls_multipart_begin(struct lls_multipart *form, const char *content_type,
                         const struct lls_multipart_events *events);

/* Returns 0, or -EINVAL, which all later calls return too; form->why has the reason. */
int lls_multipart_feed(struct lls_multipart *form, const char *data, size_t length);

/* True after the last delimiter was read. */
bool lls_multipart_is_over(const struct lls_multipart *form);

void lls_multipart_free(struct lls_multipart *form);

#endif
