/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration described for people, from the tables that read it. */
#ifndef LLS_CONFIG_HELP_H
#define LLS_CONFIG_HELP_H

#include <stdbool.h>
#include <stdio.h>

/* Every section and key there is, those of the plugins found included. EXPERIMENTAL
 * parameters are counted only, unless they are asked for. */
void lls_help_config(FILE *out, bool experimental);

/* Every plugin found, a line each; one that is refused is listed with the reason. */
void lls_help_plugins(FILE *out);
/* All that is known of the plugins called `name`, of whatever kind; false: there is none.
 */
bool lls_help_plugin(FILE *out, const char *name, bool experimental);

/* Words of text, wrapped to a terminal's 80 columns, every line after the margin. */
void lls_print_wrapped(FILE *out, const char *margin, const char *text);

#endif
