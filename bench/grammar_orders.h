/* SPDX-License-Identifier: Apache-2.0 */
/* Finds whether a grammar accepts a JSON value with its properties in some order. */
#ifndef BENCH_GRAMMAR_ORDERS_H
#define BENCH_GRAMMAR_ORDERS_H

#include "text/grammar/compiled_grammar.h"

#include <jansson.h>

/* Returns true if the grammar accepts the value with some order of each object's
 * properties; false if none was found among the first 100,000 beginnings. */
bool grammar_takes_in_some_order(struct lls_grammar *grammar, const json_t *value);

#endif
