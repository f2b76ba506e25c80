/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes GGUF files: if a file opens, its tensors lie inside the file, and its metadata
 * is a configuration and a tokeniser, or is refused with an error.
 */
#include "core/device/quantised.h"
#include "core/model/gguf.h"
#include "core/model/model_config.h"
#include "core/model/model_text.h"
#include "t/fuzz/fuzz.h"

static void touch(const unsigned char *bytes, size_t n)
{
  volatile unsigned sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += bytes[i];
  (void)sum; /* only checks that every byte can be read */
}

static void view(struct lls_gguf *g, const char *name, size_t rows, size_t columns)
{
  struct lls_tensor_view out;
  struct lls_error err = {0};
  if (lls_checkpoint_view(&g->base, name, rows, columns, &out, &err) == 0)
    touch(out.data, rows * lls_dtype_row_bytes(out.dtype, columns));
  else
    assert(err.text[0] != '\0');
}

static void use(struct lls_gguf *g)
{
  const struct lls_gguf_tensor *t;
  for (t = g->files[0]->tensors; t != NULL; t = t->hh.next) {
    touch(t->data, t->bytes);
    view(g, "model.layers.0.self_attn.q_proj.weight", t->shape[0], t->shape[1]);
    view(g, "model.layers.0.self_attn.k_proj.bias", 1, t->shape[0]);
    view(g, "model.layers.0.mlp.experts.1.up_proj.weight", t->shape[1], t->shape[2]);
  }
  view(g, "model.embed_tokens.weight", 2, 3);
  lls_checkpoint_drop_pages(&g->base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct lls_gguf *g = NULL;
  struct lls_model_config config;
  struct lls_tokenizer *tokenizer = NULL;
  struct lls_chat_template *chat_template = NULL;
  struct lls_error err = {0}, why = {0};
  const char *path = fuzz_file("x.gguf", data, size);
  if (lls_gguf_open(path, &g, &err) == 0) {
    use(g);
    lls_gguf_close(g);
  } else {
    assert(err.text[0] != '\0');
  }
  if (lls_model_config_read(path, &config, &why) < 0)
    assert(why.text[0] != '\0');
  if (lls_model_tokenizer(path, &tokenizer, &why) == 0)
    lls_tokenizer_free(tokenizer);
  if (lls_model_chat_template(path, NULL, &chat_template, &why) == 0)
    lls_chat_template_free(chat_template);
  fuzz_forget("x.gguf");
  return 0;
}
