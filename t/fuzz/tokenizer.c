/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes tokenizer.json: a loaded tokeniser must encode and decode any text. */
#include "text/tokenizer/tokenizer.h"
#include "text/base/utf8.h"
#include "t/fuzz/fuzz.h"

static void use(const struct lls_tokenizer *tokenizer, const char *text, size_t length)
{
  int32_t *ids = NULL;
  size_t count = 0;
  struct lls_detokenizer stream;
  if (lls_tokenizer_encode(tokenizer, text, length, true, &ids, &count, NULL) != 0)
    return;
  char *out = malloc(lls_detokenizer_room(tokenizer));
  assert(out != NULL);
  lls_detokenizer_init(&stream, tokenizer, false, false);
  for (size_t i = 0; i < count; i++) {
    assert(ids[i] >= 0 && (size_t)ids[i] < lls_tokenizer_size(tokenizer));
    size_t n = lls_detokenizer_push(&stream, ids[i], out);
    assert(n <= lls_detokenizer_room(tokenizer) && lls_utf8_is_valid(out, n));
  }
  lls_detokenizer_flush(&stream, out);
  free(out);
  free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char text[] =
      "Once upon  a time, naïve 東京 don't <s> 12345 \xff\xf0\x9f\x98\x80";
  struct lls_tokenizer *tokenizer = NULL;
  struct lls_error err = {0};
  fuzz_file("tokenizer.json", data, size);
  int code = lls_tokenizer_load(fuzz_folder(), &tokenizer, &err);
  if (code == 0) {
    use(tokenizer, text, sizeof text - 1);
    use(tokenizer, (const char *)data, size < 256 ? size : 256);
    lls_tokenizer_free(tokenizer);
  } else {
    assert(err.text[0] != '\0');
  }
  fuzz_forget("tokenizer.json");
  return 0;
}
