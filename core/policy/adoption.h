/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a reload: reports the live requests to the new policies; see adoption.c.
 * Everything here is [step].
 */
#ifndef LLS_POLICY_ADOPTION_H
#define LLS_POLICY_ADOPTION_H

struct lls_instance;

void lls_adoption_run(struct lls_instance *);

#endif
