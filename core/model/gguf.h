/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model in a GGUF file, or in a split set of files. It is presented like a model
 * folder: its metadata is translated into config.json (gguf_config.c), tokenizer.json
 * and tokenizer_config.json (text/tokenizer/gguf_tokenizer.c), and its tensors have the
 * names of such a folder (gguf_names.c). So all code that reads folders reads GGUF
 * files too, and each architecture is described in one place.
 *
 * Llama's converter stores rows of query and key as pairs that rotate together, where
 * the graph has them in two halves of a head; Gemma's adds one to the weights of norms.
 * Such tensors are views of a copy in the folder's layout. A GGUF file has the matrices
 * of all experts in one tensor; the tensor of one expert is a view of its part.
 */
#ifndef LLS_MODEL_GGUF_H
#define LLS_MODEL_GGUF_H

#include "core/model/checkpoint.h"
#include "core/model/gguf_file.h"

/* Names of the same thing in a folder and in a file. */
struct lls_gguf_pair {
  const char *folder, *file;
};

struct lls_gguf;

struct lls_gguf_architecture {
  const char *name;      /* general.architecture */
  const char *model;     /* class of the dense models in config.json's "architectures" */
  const char *mixture;   /* class of the mixtures of experts, or NULL */
  bool encoder;          /* the model has BERT's layers */
  bool both_ways;        /* a generator's layers look both ways and make vectors */
  bool dense_layers;     /* some layers of a mixture may have an MLP without experts */
  bool pairs;            /* rows of query and key are stored in pairs */
  bool post_norms;       /* post_attention_norm is the norm of that name in folders */
  bool layer_norms;      /* norms are LayerNorms, with an epsilon of another name */
  bool raised_norms;     /* norms' weights include the 1 that the model adds to them */
  bool untruncated_yarn; /* config.json has "truncate": false, which GGUF files do not
                          * store */
  /* Lists that end with a pair of NULLs, or NULL. Names that differ from Llama's, of
   * tensors without suffix and layer; keys of config.json and of the metadata; switches
   * of config.json that are true if layer 0 has a tensor, instead of attention_bias and
   * mlp_bias. */
  const struct lls_gguf_pair *tensors, *keys, *switches;
  /* Adds keys that follow from others; may be NULL */
  void (*describe)(const struct lls_gguf *, json_t *config);
};

/* gguf_families.c: architectures that differ from the first ones by names and
 * switches. */
extern const struct lls_gguf_architecture lls_gguf_families[];
extern const size_t lls_n_gguf_families;
extern const struct lls_gguf_architecture lls_gguf_moe[]; /* gguf_moe.c */
extern const size_t lls_n_gguf_moe;
/* gguf_recurrent.c: those with layers that keep a state. */
extern const struct lls_gguf_architecture lls_gguf_recurrent[];
extern const size_t lls_n_gguf_recurrent;
extern const struct lls_gguf_architecture lls_gguf_mamba[]; /* gguf_mamba.c */
extern const size_t lls_n_gguf_mamba;

struct lls_gguf {
  struct lls_checkpoint base;
  struct lls_gguf_file **files; /* (n_files) the first one has the metadata */
  size_t n_files;
  const struct lls_gguf_architecture *architecture;
  struct gguf_copy *copies;
};

/* Returns true if the path ends with .gguf. */
bool lls_is_gguf(const char *path);

/* Opens a file, or a split set by its first file. */
int lls_gguf_open(const char *path, struct lls_gguf **out, struct lls_error *err);
void lls_gguf_close(struct lls_gguf *); /* NULL is allowed */
int lls_gguf_checkpoint(const char *path, struct lls_checkpoint **out,
                        struct lls_error *err);

/* Returns the tensor with this name in the file, or NULL. */
const struct lls_gguf_tensor *lls_gguf_tensor(const struct lls_gguf *, const char *name);

/* gguf_names.c: finds the description of the architecture that a file names. */
int lls_gguf_architecture_of(const struct lls_gguf_file *,
                             const struct lls_gguf_architecture **out,
                             struct lls_error *err);
/* Returns the description of an architecture by its name in GGUF files, or NULL. */
const struct lls_gguf_architecture *lls_gguf_architecture_named(const char *name);
/* Finds the file's name of the tensor that Hugging Face's folders call `name`. Returns
 * false if there is none. *expert is the index of the matrix in a tensor of all
 * experts; -1: the name is of the whole tensor. */
bool lls_gguf_name(const struct lls_gguf_architecture *, const char *name, char *out,
                   size_t size, int64_t *expert);

/* gguf_config.c: makes the config.json of the corresponding model folder. */
int lls_gguf_config(const char *path, json_t **out, struct lls_error *err);
/* Makes its generation_config.json of the metadata general.sampling.*. */
int lls_gguf_sampling(const char *path, json_t **out, struct lls_error *err);

/* gguf_keys.c: copies the metadata that has a key in config.json. Returns -EINVAL with
 * the name of a missing key. */
int lls_gguf_copy_keys(const struct lls_gguf *, json_t *config, struct lls_error *err);
/* Returns the metadata key (without the architecture's name) of a key of config.json;
 * NULL if there is none. */
const char *lls_gguf_key_of(const char *name);
/* Returns -ENOTSUP for a metadata key that may change the graph and is not supported. */
int lls_gguf_check_keys(const struct lls_gguf *, const json_t *config,
                        struct lls_error *err);

/* Returns the number of experts in the metadata; 0 for a model without experts. */
int64_t lls_gguf_experts(const struct lls_gguf *);

/* The key of lls_gguf_pooling's object that is true if the file has Dense matrices. */
#define LLS_GGUF_DENSE "gguf_dense"

/* gguf_encoder.c: adds to config.json the keys of an encoder; and makes the content of
 * 1_Pooling/config.json, or returns -ENOENT if the file has no pooling. */
int lls_gguf_describe_encoder(const struct lls_gguf *, json_t *config,
                              struct lls_error *err);
/* Adds those of a generator that has a classifier. */
int lls_gguf_describe_scores(const struct lls_gguf *, json_t *config,
                             struct lls_error *err);
int lls_gguf_pooling(const char *path, json_t **out, struct lls_error *err);

/* gguf_mixture.c: adds to config.json the keys of mixtures of experts. */
int lls_gguf_describe_mixture(const struct lls_gguf *, json_t *config,
                              struct lls_error *err);

#endif
