/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The patterns come from the tokenizer.json of the model that each name stands for; a
 * GGUF file has only the name of the pre-tokeniser.
 */
#include "text/tokenizer/gguf_patterns.h"

#include <stddef.h>
#include <string.h>

#define GPT2                                                                             \
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* The style since GPT-4: contractions in either case; a mark before a word belongs to
 * the word; line breaks end words; at most `digits` digits form a piece. */
#define SHORT_ENDS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define GPT4(digits)                                                                     \
  SHORT_ENDS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                    \
             "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* The style since GPT-4o: words are also split where a capital follows a small letter. */
#define CAPITALS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALL    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define GPT4O(ends, digits)                                                              \
  "[^\\r\\n\\p{L}\\p{N}]?" CAPITALS "*" SMALL "+" ends                                   \
  "|[^\\r\\n\\p{L}\\p{N}]?" CAPITALS "+" SMALL "*" ends "|" digits                       \
  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define DEEPSEEK_WORDS                                                                   \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"   \
  "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Letters with case in an early version of Unicode. Georgian and Armenian small letters
 * are missing, so no Unicode property is equivalent. */
#define DEEPSEEK_LETTERS                                                                 \
  "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"         \
  "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}"                  \
  "\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}"          \
  "\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}"                 \
  "\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}"         \
  "\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}"         \
  "\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}"         \
  "\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}"                    \
  "\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}"                   \
  "\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}"         \
  "\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}"          \
  "\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}"           \
  "\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}"          \
  "\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"          \
  "\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"          \
  "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"         \
  "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}"                            \
  "\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}"                      \
  "\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"                      \
  "\\x{1e900}-\\x{1e943}"
/* includes ASCII from ':' to '~', and so its letters */
#define DEEPSEEK_MARKS                                                                   \
  "!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}"                      \
  "\\x{3000}-\\x{3002}"

static const struct lls_gguf_pre gpt2 = {{GPT2}, false, false, false};
static const struct lls_gguf_pre roberta = {{GPT2}, false, false, true};
static const struct lls_gguf_pre digits_gpt2 = {{"\\p{N}", GPT2}, false, false, false};
static const struct lls_gguf_pre llama3 = {{GPT4("\\p{N}{1,3}")}, true, true, false};
static const struct lls_gguf_pre gpt4 = {{GPT4("\\p{N}{1,3}")}, false, false, false};
static const struct lls_gguf_pre glm4 = {{GPT4("\\p{N}{1,3}")}, true, false, false};
static const struct lls_gguf_pre qwen2 = {{GPT4("\\p{N}")}, false, false, false};
/* Qwen3.5: marks belong to the letters that they stand on. */
static const struct lls_gguf_pre qwen35 = {
    {SHORT_ENDS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    false,
    false,
    false};
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
static const struct lls_gguf_pre deepseek_llm = {
    {"[\\r\\n]", "\\s?[" DEEPSEEK_LETTERS "]+", "\\s?[" DEEPSEEK_MARKS "]+", "\\s+$",
     "[\\x{0800}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+", "\\p{N}+"},
    false,
    false,
    false};
static const struct lls_gguf_pre falcon = {
    {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}, false, false, false};
/* For files written before tokenizer.ggml.pre existed. */
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
    {"deepseek-llm", &deepseek_llm},
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
    {"qwen35", &qwen35},
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
