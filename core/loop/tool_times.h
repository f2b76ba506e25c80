/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long sessions are away while a tool runs: for each tool of each tenant the last
 * times between an answer that called it and the session's next request. The median is
 * when a session is expected back. A bounded table: of the tenant that has most tools the
 * one longest not called makes room, so that no tenant drives out another's.
 */
#ifndef LLS_LOOP_TOOL_TIMES_H
#define LLS_LOOP_TOOL_TIMES_H

#include <stddef.h>
#include <stdint.h>

#define LLS_TOOLS      256 /* most tools */
#define LLS_TOOL_TIMES 15  /* times of each */

struct lls_tool_tenant;
struct lls_tool_time;

struct lls_tool_times {
  struct lls_tool_time *all;       /* uthash by name: the one longest not called first */
  struct lls_tool_tenant *tenants; /* uthash by name: those with a tool */
  uint32_t n;
};

void lls_tool_times_free(struct lls_tool_times *);
/* name: (bytes) the tenant's name, a NUL, the tool's. Without memory the time is not
 * learnt. */
void lls_tool_times_learn(struct lls_tool_times *, const char *name, size_t bytes,
                          int64_t away_ns);
/* Returns the median; LLS_NEVER: the tool is unknown. */
int64_t lls_tool_times_median(const struct lls_tool_times *, const char *name,
                              size_t bytes);

#endif
