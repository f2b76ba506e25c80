/* SPDX-License-Identifier: Apache-2.0 */
/* Special tokens in literals; see grammar_marks.h. */
#include "text/grammar/grammar_marks.h"

#include "text/grammar/vocabulary.h"

#include <stdlib.h>

uint32_t lls_grammar_marks(struct lls_grammar_tree *tree, const char *bytes, size_t n)
{
  const struct lls_vocabulary *v = lls_grammar_tree_vocabulary(tree);
  if (v == NULL || v->n_specials == 0)
    return lls_grammar_literal(tree, bytes, n);
  char *coded = malloc(LLS_SPECIAL_BYTES * n + 1);
  if (coded == NULL)
    return lls_grammar_fail(tree, "no memory for a text");
  size_t length = 0;
  for (size_t i = 0; i < n;) {
    const struct lls_special_token *s = lls_vocabulary_special(v, bytes + i, n - i);
    if (s != NULL) {
      lls_special_code(s->token, coded + length);
      length += LLS_SPECIAL_BYTES;
    } else {
      coded[length++] = bytes[i];
    }
    i += s != NULL ? s->n : 1;
  }
  uint32_t node = lls_grammar_literal(tree, coded, length);
  free(coded);
  return node;
}
