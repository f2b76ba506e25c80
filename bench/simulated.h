/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated device of bench/plan, bench/sim and bench/batch: an A100 of 80 GB which
 * serves OPT-13B, with memory for as many requests as they keep active. */
#ifndef LLS_BENCH_SIMULATED_H
#define LLS_BENCH_SIMULATED_H

#include <stdio.h>
#include <stdlib.h>

#include "t/harness.h"

/* Fills in the options, and selects the plugins of the build unless LLS_PLUGIN_PATH is
 * set. Returns false after printing an error. */
static inline bool simulated_opt_13b(struct lls_sim_options *out)
{
  struct lls_profile profile;
  struct lls_model_config config;
  struct lls_cost_shape shape;
  struct lls_error err = {0};
  setenv("LLS_PLUGIN_PATH", LLS_BUILDDIR "/.libs", 0);
  const char *model = LLS_SRCDIR "/etc/profiles/models/opt-13b";
  if (lls_profile_read(LLS_SRCDIR "/etc/profiles/a100-80g.ini", &profile, &err) < 0 ||
      lls_model_config_read(model, &config, &err) < 0) {
    fprintf(stderr, "%s\n", err.text);
    return false;
  }
  *out = (struct lls_sim_options){.memory = UINT64_C(1) << 50, .eos = 2, .name = "bench"};
  lls_cost_shape_init(&shape, &config, 2, 2, 1);
  lls_cost_rates_init(&out->rates, &profile, &shape);
  lls_profile_free(&profile);
  return true;
}

#endif
