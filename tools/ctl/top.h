/* SPDX-License-Identifier: Apache-2.0 */
/* `llmserve-ctl top`: a page for the terminal that is drawn again every second. */
#ifndef LLS_CTL_TOP_H
#define LLS_CTL_TOP_H

#include "tools/ctl/ask.h"

/* Draws until the user presses q, a signal ends the program or a request fails; if the
 * standard output is no terminal, draws once. Returns 0; a negative errno with an error
 * if no server answers; or the HTTP status of a refusal, with its message. */
int ctl_top(const struct ctl_server *server, struct lls_error *err);

#endif
