/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model in a GGUF file, or in a split set of them. The file stands for a model folder:
 * its metadata is translated into config.json (gguf_config.c), tokenizer.json and
 * tokenizer_config.json (text/tokenizer/gguf_tokenizer.c), its tensors go by the names
 * that such a folder has (gguf_names.c). So what reads folders reads GGUF files too, and
 * an architecture is described in one place.
 *
 * Llama's converter lays rows of query and key out in pairs that rotate together, where
 * the graph has them as halves of a head, and Gemma's adds one to the weights of norms.
 * Such tensors are views of a copy as the folder has them. A matrix of all experts is one
 * tensor; what folders have of one expert is a view of its part.
 */
#ifndef LLS_MODEL_GGUF_H
#define LLS_MODEL_GGUF_H

#include "core/model/checkpoint.h"
#include "core/model/gguf_file.h"

struct lls_gguf_architecture {
  const char *name;    /* general.architecture */
  const char *model;   /* the class in config.json's "architectures" ... */
  const char *mixture; /* ... and where there are experts; NULL: there is no such model */
  bool encoder;        /* BERT's layers */
  bool dense_layers;   /* some layers of a mixture may have no experts */
  bool pairs;          /* rows of query and key in pairs */
  bool post_norms;     /* post_attention_norm is the norm that folders call so */
  bool raised_norms;   /* norms' weights have the one that the model adds to them */
  bool
      untruncated_yarn; /* config.json has "truncate": false, of which files are silent */
};

struct lls_gguf {
  struct lls_checkpoint base;
  struct lls_gguf_file **files; /* (n_files) the first has the metadata */
  size_t n_files;
  const struct lls_gguf_architecture *architecture;
  struct gguf_copy *copies;
};

/* A file whose name ends with .gguf. */
bool lls_is_gguf(const char *path);

/* A file, or the first of a split set. */
int lls_gguf_open(const char *path, struct lls_gguf **out, struct lls_error *err);
void lls_gguf_close(struct lls_gguf *); /* NULL is fine */
int lls_gguf_checkpoint(const char *path, struct lls_checkpoint **out,
                        struct lls_error *err);

/* By its name in the file; NULL if there is none. */
const struct lls_gguf_tensor *lls_gguf_tensor(const struct lls_gguf *, const char *name);

/* gguf_names.c: what is known of the architecture that a file names. */
int lls_gguf_architecture_of(const struct lls_gguf_file *,
                             const struct lls_gguf_architecture **out,
                             struct lls_error *err);
/* The file's name of a tensor that Hugging Face's folders call `name`; false if it has
 * none. *expert is which matrix of the tensor that is, -1: it is the tensor. */
bool lls_gguf_name(const struct lls_gguf_architecture *, const char *name, char *out,
                   size_t size, int64_t *expert);

/* gguf_config.c: what config.json of the model's folder would say. */
int lls_gguf_config(const char *path, json_t **out, struct lls_error *err);

/* gguf_keys.c: copies the metadata that config.json has, too. -EINVAL with the name of a
 * key that is missing. */
int lls_gguf_copy_keys(const struct lls_gguf *, json_t *config, struct lls_error *err);
/* The metadata key, without the architecture's name, that a key of config.json is copied
 * from; NULL if there is none. */
const char *lls_gguf_key_of(const char *name);
/* -ENOTSUP for a metadata key that may change the graph and is not read. */
int lls_gguf_check_keys(const struct lls_gguf *, const json_t *config,
                        struct lls_error *err);

/* The experts that the metadata counts; 0 of a model without. */
int64_t lls_gguf_experts(const struct lls_gguf *);

/* gguf_encoder.c: what config.json says of an encoder; and what 1_Pooling/config.json
 * would say, -ENOENT: the file says nothing of that. */
int lls_gguf_describe_encoder(const struct lls_gguf *, json_t *config,
                              struct lls_error *err);
int lls_gguf_pooling(const char *path, json_t **out, struct lls_error *err);

/* gguf_mixture.c: adds to a config.json what it says of experts. */
int lls_gguf_describe_mixture(const struct lls_gguf *, json_t *config,
                              struct lls_error *err);

#endif
