/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the stages of BERT's tokeniser; see bert_tokenizer.h. */
#include "text/tokenizer/bert_tokenizer.h"

#include <errno.h>

const struct lls_bert_names lls_bert_names = {"[CLS]", "[SEP]", "[UNK]"};

json_t *lls_bert_marks(const json_t *vocab)
{
  static const char *const marks[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  json_t *list = json_array();
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    const json_t *id = json_object_get(vocab, marks[i]);
    if (id != NULL)
      json_array_append_new(list, json_pack("{s:O, s:s, s:b}", "id", id, "content",
                                            marks[i], "special", 1));
  }
  return list;
}

int lls_bert_tokenizer(json_t *vocab, json_t *added, const struct lls_bert_names *names,
                       bool lower, json_t **out, struct lls_error *err)
{
  json_t *cls = json_object_get(vocab, names->cls),
         *sep = json_object_get(vocab, names->sep);
  if (cls == NULL || sep == NULL) {
    json_decref(added);
    return lls_fail(err, -EINVAL, "%s and %s should be in the vocabulary", names->cls,
                    names->sep);
  }
  *out =
      json_pack("{s:{s:s, s:O, s:s, s:s, s:i}, s:o, s:{s:s, s:b, s:b, s:n, s:b}, s:{s:s},"
                " s:{s:s, s:[s, O], s:[s, O]}, s:{s:s, s:s, s:b}}",
                "model", "type", "WordPiece", "vocab", vocab, "unk_token", names->unknown,
                "continuing_subword_prefix", "##", "max_input_chars_per_word", 100,
                "added_tokens", added, "normalizer", "type", "BertNormalizer",
                "clean_text", 1, "handle_chinese_chars", 1, "strip_accents", "lowercase",
                lower, "pre_tokenizer", "type", "BertPreTokenizer", "post_processor",
                "type", "BertProcessing", "sep", names->sep, sep, "cls", names->cls, cls,
                "decoder", "type", "WordPiece", "prefix", "##", "cleanup", 1);
  return *out != NULL ? 0 : lls_fail(err, -ENOMEM, "no memory for the tokenizer");
}
