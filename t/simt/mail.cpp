/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between processes as files; see mail.h. */
#include "mail.h"

#include <cstdio>
#include <cstdlib>
#include <set>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace simt
{

namespace
{

/* Stops the program: a test's folder is full, or gone. */
[[noreturn]] void stop(const std::string &path)
{
  perror(path.c_str());
  abort();
}

void write_whole(const std::string &path, const void *data, size_t bytes)
{
  std::string part = path + ".part";
  FILE *f = fopen(part.c_str(), "wb");
  if (f == nullptr || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0 ||
      rename(part.c_str(), path.c_str()) != 0)
    stop(path);
}

void note(const std::string &path, size_t bytes)
{
  FILE *f = fopen(path.c_str(), "a");
  if (f == nullptr || fprintf(f, "%zu\n", bytes) < 0 || fclose(f) != 0)
    stop(path);
}

std::string name_of(char kind, int from, int to)
{
  return std::string(1, kind) + "-" + std::to_string(from) + "-" + std::to_string(to);
}

} // namespace

mail::mail(std::string folder_, int rank_, int size_)
    : folder(std::move(folder_) + "/"), rank(rank_), size(size_)
{
  mkdir(folder.c_str(), 0700); /* unless another rank has made it */
}

std::string mail::send(char kind, int to, const void *data, size_t bytes)
{
  std::string name = name_of(kind, rank, to);
  name += "-" + std::to_string(sent[name]++);
  write_whole(folder + name, data, bytes);
  return name;
}

std::string mail::next(char kind, int from)
{
  std::string name = name_of(kind, from, rank);
  return name + "-" + std::to_string(taken[name]++);
}

bool mail::is_there(const std::string &name) const
{
  return access((folder + name).c_str(), F_OK) == 0;
}

bool mail::take(const std::string &name, void *data, size_t bytes) const
{
  struct stat is;
  std::string path = folder + name;
  if (stat(path.c_str(), &is) != 0 || (size_t)is.st_size != bytes)
    return false;
  FILE *f = fopen(path.c_str(), "rb");
  if (f == nullptr || fread(data, 1, bytes, f) != bytes)
    stop(path);
  fclose(f);
  if (name[0] == 'b')
    note(folder + "taken", bytes);
  unlink(path.c_str());
  return true;
}

void mail::join(const std::string &gpu) const
{
  write_whole(folder + "joined-" + std::to_string(rank), gpu.data(), gpu.size());
}

enum mail::joined mail::who_joined() const
{
  std::set<std::string> gpus;
  for (int i = 0; i < size; i++) {
    char gpu[64] = "";
    FILE *f = fopen((folder + "joined-" + std::to_string(i)).c_str(), "rb");
    if (f == nullptr)
      return NOT_ALL;
    size_t n = fread(gpu, 1, sizeof gpu - 1, f);
    fclose(f);
    gpus.insert(std::string(gpu, n));
  }
  return (int)gpus.size() == size ? ALL : SAME_GPU;
}

} // namespace simt
