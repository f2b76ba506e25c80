/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llmserve-whatif: the traffic that a server had in the last minutes, simulated with
 * the running policies and with others. One question, one answer:
 *
 *   traffic     from GET /admin/history, or a file            traffic.h
 *   running     the server's policies: GET /admin/config      running.h
 *   candidates  policies and grids of their parameters        core/config/candidates.h
 *   each is run by llmserve-sim, a process at idle priority   child.h  measure.h
 *   profile     the device's speed: named, measured, learnt   profile.h
 *   calibrate   a step's time beyond the device's, from the traffic   calibrate.h
 *   verdict     the best, if its lead exceeds the simulation's error  verdict.h
 *   steady      and if it leads on a faster or slower machine         steady.h
 *   question    all of this once; --watch repeats it                  question.h
 *
 * Without --apply the server is only read from, never changed.
 */
#ifndef LLS_WHATIF_H
#define LLS_WHATIF_H

#include <stdbool.h>

#include "tools/cli/cli.h"

/* the configured default path */
#define WHATIF_CONFIG LLS_SYSCONF_DIR "/llmserve/llmserve.ini"

struct whatif_options {
  const char *address, *key_file;
  const char *config;
  const char *history, *running;
  const char *policies; /* policies, one candidate a line */
  const char *objective;
  const char *goodput; /* goodput deadlines, a line KEY:MS each */
  const char *profile, *model;
  int64_t most_time, most_memory; /* limits of one simulation: ns, bytes */
  const char *json;
  int64_t watch; /* ns between questions; 0: ask once */
  bool notify, apply, measure;
  bool quiet, help, version;
};

extern const struct lls_option_group whatif_option_group;

/* The default of --policies, as lines. */
#define WHATIF_DEFAULT_POLICIES                                                          \
  "worth\nsarathi\nfcfs\nsrpt\nalise\naccelgen\napt+hybrid\nbros+bidirectional"

#endif
