/* SPDX-License-Identifier: Apache-2.0 */
/* The header traceparent (W3C Trace Context, level 1), by which a client says which of
 * its spans a request belongs to. */
#ifndef LLS_TRACES_TRACE_PARENT_H
#define LLS_TRACES_TRACE_PARENT_H

#include <stdbool.h>
#include <stdint.h>

struct lls_trace_parent {
  bool given;
  bool sampled; /* the client records its trace; false: ours is not wanted */
  uint8_t trace[16], span[8];
};

/* Reads "00-TRACE-SPAN-FLAGS". A malformed header, NULL, and an id of zeros count as
 * none, as the standard says. */
void lls_trace_parent_read(const char *header, struct lls_trace_parent *out);

#endif
