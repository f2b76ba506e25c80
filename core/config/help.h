/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration described for people, from the tables that read it. */
#ifndef LLS_CONFIG_HELP_H
#define LLS_CONFIG_HELP_H

#include <stdio.h>

/* Every section and key there is, those of the plugins found included. */
void lls_help_config(FILE *out);

/* Every plugin found, with its parameters; one that is refused is listed with
 * the reason. */
void lls_help_plugins(FILE *out);

/* Words of text, wrapped to a terminal's 80 columns, every line after the margin. */
void lls_print_wrapped(FILE *out, const char *margin, const char *text);

#endif
