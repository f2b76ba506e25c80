/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache service that a scheduler calls inside plan; see cache_service.c. Everything
 * here is [step].
 */
#ifndef LLS_POLICY_CACHE_SERVICE_H
#define LLS_POLICY_CACHE_SERVICE_H

struct lls_instance;

void lls_cache_service_init(struct lls_instance *);

#endif
