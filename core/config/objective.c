/* SPDX-License-Identifier: Apache-2.0 */
/* See objective.h. */
#include "core/config/objective.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct lls_objective all[] = {
    {"goodput", "request_goodput", true},
    {"throughput", "output_throughput", true},
    {"ttft", "mean_ttft_ms", false},
    {"ttft_p99", "p99_ttft_ms", false},
    {"tpot", "mean_tpot_ms", false},
    {"tpot_p99", "p99_tpot_ms", false},
    {"latency", "mean_e2el_ms", false},
    {"latency_p99", "p99_e2el_ms", false},
    {"normalised", "mean_normalised_latency_ms", false},
    {"stall", "max_itl_ms", false},
    {"preempted", "preemptions", false},
    {"met", "slo_attainment", true},
};

enum { N = sizeof all / sizeof *all };

const struct lls_objective *lls_objective_find(const char *name)
{
  for (size_t i = 0; i < N; i++)
    if (strcmp(all[i].name, name) == 0)
      return &all[i];
  return NULL;
}

int lls_objective_check(const char *name, struct lls_error *err)
{
  char names[256] = "auto";
  if (strcmp(name, "auto") == 0 || lls_objective_find(name) != NULL)
    return 0;
  for (size_t i = 0, n = strlen(names); i < N && n < sizeof names; i++)
    n += (size_t)snprintf(names + n, sizeof names - n, ", %s", all[i].name);
  return lls_fail(err, -EINVAL, "expected one of %s; found '%s'", names, name);
}
