/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From sets of schemas to nodes.
 *
 *   json_schema.c       a set: constants, branches, types; what was compiled before
 *   schema_rewrite.c    `not`, `if` and dependencies by other keywords
 *   schema_negation.c   the opposite of a schema;  schema_made.c: what was made so
 *   schema_constant.c   whether a constant is valid
 *   schema_empty.c      whether it can be seen that no value is
 *   schema_keywords.c   keywords that are refused
 *   schema_parts.c      the schemas for an item or a property
 *   schema_object.c     properties;  schema_names.c: what they are called
 *   schema_property_names.c  propertyNames by other keywords
 *   schema_order.c      which of the members' properties come first
 *   schema_array.c      items;  schema_unique.c: of which none is there twice
 *   schema_string.c     lengths, patterns;  schema_format.c: formats
 *   schema_number.c     numbers between bounds, of decimal_range.c
 *
 * Each of these returns json.nothing where no value is valid.
 */
#ifndef LLS_GRAMMAR_SCHEMA_COMPILE_H
#define LLS_GRAMMAR_SCHEMA_COMPILE_H

#include "text/grammar/schema_set.h"

/* Adds what $ref and allOf bring, and, if strict, what `not`, `if` and dependencies ask.
 * False with a failure. */
bool lls_schema_complete(struct lls_schema *s, struct lls_schema_set *set);

/* The values that satisfy all members of a set. */
uint32_t lls_schema_compile(struct lls_schema *s, const struct lls_schema_set *set);

/* The values of a type that satisfy a complete set without branches or constants. */
uint32_t lls_schema_object(struct lls_schema *s, const struct lls_schema_set *set);
uint32_t lls_schema_array(struct lls_schema *s, const struct lls_schema_set *set);
uint32_t lls_schema_string(struct lls_schema *s, const struct lls_schema_set *set);
uint32_t lls_schema_number(struct lls_schema *s, const struct lls_schema_set *set,
                           unsigned types);

/* The schema's propertyNames by other keywords, a new reference; NULL: it cannot
 * be said, or there is no memory. */
json_t *lls_schema_property_names(struct lls_schema *s, const json_t *schema);

/* The items between the brackets where uniqueItems is asked for and can be kept; false:
 * it is not, or there is one item at most. */
bool lls_schema_unique(struct lls_schema *s, const struct lls_schema_set *set,
                       uint32_t min, uint32_t max, uint32_t *items);
/* Says if uniqueItems would be kept. */
bool lls_schema_unique_is_kept(struct lls_schema *s, const struct lls_schema_set *set);

/* Fails, if strict, where a member has a keyword for one of the types that is not kept.
 */
bool lls_schema_check_keywords(struct lls_schema *s, const struct lls_schema_set *set,
                               unsigned types);

enum lls_schema_answer { LLS_SCHEMA_NO, LLS_SCHEMA_YES, LLS_SCHEMA_UNKNOWN };
/* Says whether a value is valid by the schema. */
enum lls_schema_answer lls_schema_holds(struct lls_schema *s, const json_t *schema,
                                        const json_t *value, unsigned depth);
enum lls_schema_answer lls_schema_items_are_unique(const json_t *array);
/* True if it can be seen that no value is valid; never fails. */
bool lls_schema_is_empty(struct lls_schema *s, const struct lls_schema_set *set,
                         unsigned depth);

/* Says whether the text has a match of the pattern; unknown: the pattern does not
 * compile. */
enum lls_schema_answer lls_schema_matches(const char *pattern, const char *text,
                                          size_t length);
/* False with a failure: it is no regular expression, whether strict or not. */
bool lls_schema_check_pattern(struct lls_schema *s, const json_t *schema,
                              const char *keyword, const char *pattern);
/* The texts of a product, as lls_grammar_product, but for `most`; its work counts as the
 * schema's. */
struct lls_product;
uint32_t lls_schema_texts(struct lls_schema *s, const json_t *schema,
                          const struct lls_product *p, int *code, struct lls_error *err);
/* The regular expression for a format's whole text; NULL: it is none that is kept.
 * *standard: whether JSON Schema knows it. */
const char *lls_schema_format(const char *name, bool *standard);
/* For an expression of the above, another that has some of its texts: one that takes few
 * states, or a brief one, to be held to a length by lls_regex_narrow. NULL: none. */
const char *lls_schema_format_some(const char *expression, bool brief);

/* Collects what the members say about one property: the schemas are added to `out`. False
 * if the compiling has failed. */
bool lls_schema_property(struct lls_schema *s, const struct lls_schema_set *set,
                         const char *name, struct lls_schema_set *out);
/* Fills in order (set->n) with the members as the schema's text comes to their
 * `properties`; those without any may stand anywhere. */
void lls_schema_order(const struct lls_schema_set *set, uint32_t *order);
/* A member's schema for properties that nothing else in it speaks of, or NULL. */
const json_t *lls_schema_additional(const struct lls_schema_set *set, uint32_t i);
/* The same of item `index` of an array. */
bool lls_schema_item(struct lls_schema *s, const struct lls_schema_set *set, size_t index,
                     struct lls_schema_set *out);
/* The items that have a schema of their own. */
size_t lls_schema_prefix(const struct lls_schema_set *set);

#endif
