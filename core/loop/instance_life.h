/* SPDX-License-Identifier: Apache-2.0 */
/* Making an instance, and its end [main]; see instance_life.c. */
#ifndef LLS_LOOP_INSTANCE_LIFE_H
#define LLS_LOOP_INSTANCE_LIFE_H

#include "core/instance/instance.h"
#include "core/instance/loop_options.h"

/* Its engine, caps and info; of all instances before the first is made. */
void lls_instance_describe(struct lls_instance *, const struct lls_loop_options *,
                           const struct lls_loop_instance *, uint32_t index);
/* Mailboxes, table, peers, topology and clocks are set by the caller before. */
int lls_instance_init(struct lls_instance *, const struct lls_loop_options *,
                      struct lls_error *err);
void lls_instance_fini(struct lls_instance *); /* also after a failed init */

#endif
