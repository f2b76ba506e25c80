/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The struct lls_host that one plugin instance sees, with the state of its services: its
 * name in the log, its failure message, its random streams and counters.
 */
#ifndef LLS_POLICY_POLICY_HOST_H
#define LLS_POLICY_POLICY_HOST_H

#include "core/instance/running_policy.h"

struct lls_instance;

void lls_policy_host_init(struct lls_policy_host *, struct lls_instance *,
                          const char *kind, const char *id, uint64_t seed);

#endif
