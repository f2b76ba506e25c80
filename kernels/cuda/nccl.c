/* SPDX-License-Identifier: Apache-2.0 */
/* Opens NCCL's library and finds its functions; see nccl.h. */
#include "kernels/cuda/nccl.h"

#include <errno.h>

#ifdef LLS_NCCL

#ifdef LLS_NCCL_LINKED /* the emulator's functions */

int lls_cuda_nccl_open(struct lls_cuda_nccl *n, struct lls_error *err)
{
  (void)err;
#define FIND(name) n->name = name;
  LLS_CUDA_NCCL_FUNCTIONS(FIND)
#undef FIND
  return 0;
}

void lls_cuda_nccl_close(struct lls_cuda_nccl *n)
{
  (void)n;
}

#else

#include <dlfcn.h>

int lls_cuda_nccl_open(struct lls_cuda_nccl *n, struct lls_error *err)
{
  n->library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (n->library == NULL)
    return lls_fail(err, -ENOENT, "NCCL cannot be opened: %s", dlerror());
#define FIND(name)                                                                       \
  n->name = (__typeof__(n->name))dlsym(n->library, #name);                               \
  if (n->name == NULL)                                                                   \
    return lls_fail(err, -ENOENT, "libnccl.so.2 has no %s", #name);
  LLS_CUDA_NCCL_FUNCTIONS(FIND)
#undef FIND
  return 0;
}

void lls_cuda_nccl_close(struct lls_cuda_nccl *n)
{
  if (n->library != NULL)
    dlclose(n->library);
}

#endif
#endif
