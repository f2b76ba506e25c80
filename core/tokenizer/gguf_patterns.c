/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The patterns are those of the tokenizer.json that each name was given for; a file names
 * the tokeniser and leaves the pattern away.
 */
#include "core/tokenizer/gguf_patterns.h"

#include <stddef.h>
#include <string.h>

#define GPT2                                                                             \
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Since GPT-4: contractions of either case, a mark before a word belongs to it, lines end
 * words, and so many digits are one. */
#define SHORT_ENDS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define GPT4(digits)                                                                     \
  SHORT_ENDS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                    \
             "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Since GPT-4o: words are cut where a capital follows a small letter. */
#define CAPITALS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALL    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define GPT4O(ends, digits)                                                              \
  "[^\\r\\n\\p{L}\\p{N}]?" CAPITALS "*" SMALL "+" ends                                   \
  "|[^\\r\\n\\p{L}\\p{N}]?" CAPITALS "+" SMALL "*" ends "|" digits                       \
  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define DEEPSEEK_WORDS                                                                   \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"   \
  "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct lls_gguf_pre gpt2 = {{GPT2}, false, false, false};
static const struct lls_gguf_pre roberta = {{GPT2}, false, false, true};
static const struct lls_gguf_pre digits_gpt2 = {{"\\p{N}", GPT2}, false, false, false};
static const struct lls_gguf_pre llama3 = {{GPT4("\\p{N}{1,3}")}, true, true, false};
static const struct lls_gguf_pre gpt4 = {{GPT4("\\p{N}{1,3}")}, false, false, false};
static const struct lls_gguf_pre glm4 = {{GPT4("\\p{N}{1,3}")}, true, false, false};
static const struct lls_gguf_pre qwen2 = {{GPT4("\\p{N}")}, false, false, false};
static const struct lls_gguf_pre gpt4o = {
    {GPT4O(SHORT_ENDS "?", "\\p{N}{1,3}")}, false, false, false};
static const struct lls_gguf_pre tekken = {{GPT4O("", "\\p{N}")}, true, true, false};
static const struct lls_gguf_pre deepseek = {
    {"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
     DEEPSEEK_WORDS},
    false,
    false,
    false};
static const struct lls_gguf_pre deepseek_coder = {
    {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
     "[\\x{0800}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+", "\\p{N}"},
    false,
    false,
    false};
static const struct lls_gguf_pre falcon = {
    {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}, false, false, false};
/* Files from before the name was written. */
static const struct lls_gguf_pre unnamed = {
    {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"},
    false,
    false,
    false};

static const struct {
  const char *name;
  const struct lls_gguf_pre *pre;
} known[] = {
    {"codeshell", &digits_gpt2},
    {"command-r", &digits_gpt2},
    {"dbrx", &gpt4},
    {"deepseek-coder", &deepseek_coder},
    {"deepseek-r1-qwen", &qwen2},
    {"deepseek-v3", &deepseek},
    {"default", &unnamed},
    {"exaone", &digits_gpt2},
    {"exaone4", &gpt2},
    {"falcon", &falcon},
    {"falcon3", &llama3},
    {"falcon-h1", &llama3},
    {"glm4", &glm4},
    {"gpt-2", &gpt2},
    {"gpt-4o", &gpt4o},
    {"kormo", &qwen2},
    {"lfm2", &llama3},
    {"llama3", &llama3},
    {"llama4", &gpt4o},
    {"llama-bpe", &llama3},
    {"llama-v3", &llama3},
    {"megrez", &qwen2},
    {"mellum", &gpt2},
    {"midm-2.0", &llama3},
    {"minerva-7b", &digits_gpt2},
    {"mpt", &gpt2},
    {"olmo", &gpt2},
    {"phi-2", &gpt2},
    {"pixtral", &llama3},
    {"qwen2", &qwen2},
    {"refact", &digits_gpt2},
    {"roberta-bpe", &roberta},
    {"smaug-bpe", &gpt4},
    {"smollm", &digits_gpt2},
    {"stablelm2", &qwen2},
    {"starcoder", &digits_gpt2},
    {"tekken", &tekken},
    {"trillion", &gpt2},
};

const struct lls_gguf_pre *lls_gguf_pre_named(const char *name)
{
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (strcmp(known[i].name, name) == 0)
      return known[i].pre;
  return NULL;
}
