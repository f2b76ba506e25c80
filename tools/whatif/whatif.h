/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llmserve-whatif: the traffic that a server had in the last minutes, simulated with the
 * policies that it runs and with others. One question, one answer:
 *
 *   traffic     GET /admin/history, or a file                 traffic.h
 *   running     what the server runs: GET /admin/config       running.h
 *   candidates  policies and grids of their parameters        core/config/candidates.h
 *   each is run by llmserve-sim, a process at idle priority   child.h  measure.h
 *   profile     what the device can do: named, measured, or learnt  profile.h
 *   calibrate   what a step takes beside the device, by what was served    calibrate.h
 *   verdict     the best, if it is farther ahead than the simulation is off   verdict.h
 *   steady      and stays so on a machine a little faster or slower       steady.h
 *   question    all of that once; --watch asks again and again             question.h
 *
 * Nothing is asked of the server but to be told, unless its owner says --apply.
 */
#ifndef LLS_WHATIF_H
#define LLS_WHATIF_H

#include <stdbool.h>

#include "tools/cli/cli.h"

#define WHATIF_CONFIG LLS_SYSCONF_DIR "/llmserve/llmserve.ini" /* as configured */

struct whatif_options {
  const char *address, *key_file;
  const char *config;
  const char *history, *running;
  const char *policies; /* lines */
  const char *objective;
  const char *goodput; /* lines of KEY:MS */
  const char *profile, *model;
  int64_t most_time, most_memory; /* of one simulation: ns, bytes */
  const char *json;
  int64_t watch; /* ns between questions; 0: one */
  bool notify, apply, measure;
  bool quiet, help, version;
};

extern const struct lls_option_group whatif_option_group;

/* Lines, as --policies has them. */
#define WHATIF_DEFAULT_POLICIES                                                          \
  "worth\nsarathi\nfcfs\nsrpt\nalise\naccelgen\napt+hybrid\nbros+bidirectional"

#endif
