/* SPDX-License-Identifier: Apache-2.0 */
/* The traffic as it was really served: the values that a simulation of it is compared
 * with. */
#ifndef LLS_WHATIF_TRAFFIC_H
#define LLS_WHATIF_TRAFFIC_H

#include <jansson.h>

#include "tools/whatif/whatif.h"

struct traffic {
  uint32_t requests;
  double seconds;  /* time from the first to the last arrival */
  bool has_slos;   /* some request has an SLO, or --goodput sets one */
  bool gaps;       /* an SLO concerns gaps within an answer, which the history lacks */
  json_t *metrics; /* metrics as llmserve-sim reports them; NULL: the log has no times */
};

/* goodput: lines of KEY:MS, or "". */
int traffic_read(const char *path, const char *goodput, struct traffic *out,
                 struct lls_error *err);
void traffic_free(struct traffic *);

#endif
