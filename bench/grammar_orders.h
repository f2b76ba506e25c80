/* SPDX-License-Identifier: Apache-2.0 */
/* Finds whether a grammar has a JSON value with its properties in any order. */
#ifndef BENCH_GRAMMAR_ORDERS_H
#define BENCH_GRAMMAR_ORDERS_H

#include "text/grammar/compiled_grammar.h"

#include <jansson.h>

/* True if there is an order of each object's properties with which the grammar takes the
 * value; false also where none was found among the first 100,000 beginnings. */
bool grammar_takes_in_some_order(struct lls_grammar *grammar, const json_t *value);

#endif
