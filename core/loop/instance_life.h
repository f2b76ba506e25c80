/* SPDX-License-Identifier: Apache-2.0 */
/* Creates and frees an instance [main]; see instance_life.c. */
#ifndef LLS_LOOP_INSTANCE_LIFE_H
#define LLS_LOOP_INSTANCE_LIFE_H

#include "core/instance/loop_options.h"

struct lls_error;
struct lls_instance;

/* Sets the instance's engine, caps and info. To be called for all instances before the
 * first lls_instance_init. */
void lls_instance_describe(struct lls_instance *, const struct lls_loop_options *,
                           const struct lls_loop_instance *, uint32_t index);
/* Creates an instance; the caller has set inbox, outbox, table, peers, topology and
 * clocks. */
int lls_instance_init(struct lls_instance *, const struct lls_loop_options *,
                      struct lls_error *err);
/* May be called after a failed init, too. */
void lls_instance_fini(struct lls_instance *);

#endif
