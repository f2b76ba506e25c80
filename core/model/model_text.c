/* SPDX-License-Identifier: Apache-2.0 */
/* Opens GGUF files for text/; text/ reads folders itself; see model_text.h. */
#include "core/model/model_text.h"

#include "core/model/gguf.h"
#include "text/tokenizer/gguf_tokenizer.h"

static int value(const void *file, const char *key, json_t **out, struct lls_error *err)
{
  return lls_gguf_value(file, key, out, err);
}

static int64_t integer(const void *file, const char *key, int64_t fallback)
{
  return lls_gguf_integer(file, key, fallback);
}

static const char *text(const void *file, const char *key, char *out, size_t size)
{
  return lls_gguf_text(file, key, out, size);
}

static struct lls_gguf_metadata metadata_of(const struct lls_gguf_file *file)
{
  return (struct lls_gguf_metadata){
      .path = file->path, .file = file, .value = value, .integer = integer, .text = text};
}

int lls_model_tokenizer(const char *path, struct lls_tokenizer **out,
                        struct lls_error *err)
{
  struct lls_gguf_file *file;
  if (!lls_is_gguf(path))
    return lls_tokenizer_load(path, out, err);
  int rc = lls_gguf_file_open(path, &file, err);
  if (rc < 0)
    return rc;
  struct lls_gguf_metadata metadata = metadata_of(file);
  rc = lls_tokenizer_load_gguf(&metadata, out, err);
  lls_gguf_file_close(file);
  return rc;
}

int lls_model_chat_template(const char *path, const char *file_of_template,
                            struct lls_chat_template **out, struct lls_error *err)
{
  struct lls_gguf_file *file;
  if (!lls_is_gguf(path))
    return lls_chat_template_load(path, file_of_template, out, err);
  int rc = lls_gguf_file_open(path, &file, err);
  if (rc < 0)
    return rc;
  struct lls_gguf_metadata metadata = metadata_of(file);
  rc = lls_chat_template_load_gguf(&metadata, file_of_template, out, err);
  lls_gguf_file_close(file);
  return rc;
}

bool lls_model_tokenizer_lacks(const char *path, struct lls_error *sentence)
{
  struct lls_gguf_file *file;
  struct lls_error ignored;
  if (!lls_is_gguf(path) || lls_gguf_file_open(path, &file, &ignored) < 0)
    return false;
  struct lls_gguf_metadata metadata = metadata_of(file);
  bool lacks = lls_gguf_tokenizer_lacks(&metadata, sentence);
  lls_gguf_file_close(file);
  return lacks;
}
