/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration described for people, from the tables that read it. */
#ifndef LLS_CONFIG_HELP_H
#define LLS_CONFIG_HELP_H

#include <stdbool.h>
#include <stdio.h>

/* Prints every section and key, with those of all plugins found. EXPERIMENTAL
 * parameters are only counted unless `experimental` is true. */
void lls_help_config(FILE *out, bool experimental);

/* Prints every plugin found, a line each; a refused one is listed with the reason. */
void lls_help_plugins(FILE *out);
/* Prints the descriptions of the plugins called `name`, of every kind. Returns false
 * if there is none. */
bool lls_help_plugin(FILE *out, const char *name, bool experimental);

/* Prints the words of text wrapped to 80 columns, with the margin before every line. */
void lls_print_wrapped(FILE *out, const char *margin, const char *text);

#endif
