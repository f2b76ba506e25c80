/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a reload: tells the new policies about the live requests; see adoption.c.
 * Everything here is [step].
 */
#ifndef LLS_STEP_ADOPTION_H
#define LLS_STEP_ADOPTION_H

#include "core/instance/instance.h"

void lls_adoption_run(struct lls_instance *);

#endif
