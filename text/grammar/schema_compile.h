/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles sets of schemas into nodes of a grammar.
 *
 *   json_schema.c       a set: constants, branches, types; sets already compiled
 *   schema_rewrite.c    `not`, `if` and dependencies expressed by other keywords
 *   schema_negation.c   the opposite of a schema;  schema_made.c: schemas so made
 *   schema_constant.c   whether a constant is valid
 *   schema_empty.c      whether a set provably has no valid value
 *   schema_keywords.c   keywords that are refused
 *   schema_parts.c      the schemas for an item or a property
 *   schema_object.c     properties;  schema_names.c: their names
 *   schema_property_names.c  propertyNames expressed by other keywords
 *   schema_order.c      the order of the members' properties
 *   schema_array.c      items;  schema_unique.c: items without duplicates
 *   schema_string.c     lengths, patterns;  schema_format.c: formats
 *   schema_number.c     numbers between bounds, built by decimal_range.c
 *
 * Each of these returns json.nothing if no value is valid.
 */
#ifndef LLS_GRAMMAR_SCHEMA_COMPILE_H
#define LLS_GRAMMAR_SCHEMA_COMPILE_H

#include "text/grammar/schema_set.h"

/* Adds the schemas that $ref and allOf refer to, and, if strict, those that `not`, `if`
 * and dependencies are rewritten to. Returns false on failure. */
bool lls_schema_complete(struct lls_schema *s, struct lls_schema_set *set);

/* Returns the node of the values that satisfy all members of a set. */
uint32_t lls_schema_compile(struct lls_schema *s, const struct lls_schema_set *set);

/* Each returns the node of all values of one type that satisfy the set, which is
 * complete and has neither branches nor constants. */
uint32_t lls_schema_object(struct lls_schema *s, const struct lls_schema_set *set);
uint32_t lls_schema_array(struct lls_schema *s, const struct lls_schema_set *set);
uint32_t lls_schema_string(struct lls_schema *s, const struct lls_schema_set *set);
uint32_t lls_schema_number(struct lls_schema *s, const struct lls_schema_set *set,
                           unsigned types);

/* Expresses the schema's propertyNames by other keywords. Returns a new reference; or
 * NULL if that is impossible, or memory runs out. */
json_t *lls_schema_property_names(struct lls_schema *s, const json_t *schema);

/* Builds the items between the brackets for uniqueItems. Returns false if uniqueItems
 * is not asked for or not supported here, or if there is at most one item. */
bool lls_schema_unique(struct lls_schema *s, const struct lls_schema_set *set,
                       uint32_t min, uint32_t max, uint32_t *items);
/* Returns true if uniqueItems can be supported for this set. */
bool lls_schema_unique_is_kept(struct lls_schema *s, const struct lls_schema_set *set);

/* Fails, if strict, when a member has an unsupported keyword for one of the types. */
bool lls_schema_check_keywords(struct lls_schema *s, const struct lls_schema_set *set,
                               unsigned types);

enum lls_schema_answer { LLS_SCHEMA_NO, LLS_SCHEMA_YES, LLS_SCHEMA_UNKNOWN };
/* Returns whether a value is valid by the schema. */
enum lls_schema_answer lls_schema_holds(struct lls_schema *s, const json_t *schema,
                                        const json_t *value, unsigned depth);
enum lls_schema_answer lls_schema_items_are_unique(const json_t *array);
/* Returns true if the set provably has no valid value. Never fails. */
bool lls_schema_is_empty(struct lls_schema *s, const struct lls_schema_set *set,
                         unsigned depth);

/* Returns whether the text has a match of the pattern; unknown if the pattern does not
 * compile. */
enum lls_schema_answer lls_schema_matches(const char *pattern, const char *text,
                                          size_t length);
/* Checks that the pattern is a regular expression, strict or not. Returns false on
 * failure. */
bool lls_schema_check_pattern(struct lls_schema *s, const json_t *schema,
                              const char *keyword, const char *pattern);
/* Builds the texts of a product like lls_grammar_product, except that p->most is set
 * here. The work is charged to the schema. */
struct lls_product;
uint32_t lls_schema_texts(struct lls_schema *s, const json_t *schema,
                          const struct lls_product *p, int *code, struct lls_error *err);
/* Returns the regular expression for the whole text of a format, or NULL if the format
 * is not supported. *standard: JSON Schema defines the format. */
const char *lls_schema_format(const char *name, bool *standard);
/* For an expression returned by lls_schema_format, returns another one that matches
 * some of its texts: one with few states, or (brief) one with short parts, so that
 * lls_regex_narrow can bound its length. NULL if there is none. */
const char *lls_schema_format_some(const char *expression, bool brief);

/* Appends to `out` the schemas that the members have for one property. Returns false if
 * compiling has failed. */
bool lls_schema_property(struct lls_schema *s, const struct lls_schema_set *set,
                         const char *name, struct lls_schema_set *out);
/* Fills in order (set->n) with the members in the order in which their `properties`
 * occur in the schema's text; the order of members without `properties` is arbitrary. */
void lls_schema_order(const struct lls_schema_set *set, uint32_t *order);
/* Returns member i's schema for properties that its other keywords do not mention, or
 * NULL. */
const json_t *lls_schema_additional(const struct lls_schema_set *set, uint32_t i);
/* The same as lls_schema_property, for item `index` of an array. */
bool lls_schema_item(struct lls_schema *s, const struct lls_schema_set *set, size_t index,
                     struct lls_schema_set *out);
/* Returns the number of leading items that have a schema of their own. */
size_t lls_schema_prefix(const struct lls_schema_set *set);

#endif
