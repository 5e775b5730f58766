/* What the plugin libtoy_mpi.so gives the program: MPI, whichever it was built with. */
#ifndef TOY_MPI_H
#define TOY_MPI_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TOY_MPI_VERSION 3
#define TOY_MPI_HOST_BYTES 256

/* Of this process. */
struct toy_mpi_place {
  int rank, size, local_rank, local_size;
  int threads; /* may several threads call, one at a time? */
  char host[TOY_MPI_HOST_BYTES];
};

/* Is told which ranks have not answered for so long; none: it is not known which. Throws. */
typedef void (*toy_mpi_lost)(void* context, const int* ranks, int count, double seconds);

/* As Communicator in toy/base/communicator.h. Whatever MPI finds wrong ends the job. */
struct toy_mpi {
  int version;
  void (*start)(struct toy_mpi_place* place);
  void (*give_up_after)(double seconds, toy_mpi_lost lost, void* context);
  void (*send)(int to, const void* bytes, size_t count);
  size_t (*next)(int from); /* waits; bytes of what receive() will give */
  void (*receive)(int from, void* bytes, size_t count);
  void (*broadcast)(int root, void* bytes, size_t count);
  void (*exchange)(const void* mine, const size_t* bounds, void* const* parts);
  void (*all_gather)(void* all, const size_t* bounds);
  void (*abort)(int code);
  void (*finish)(void);
};

/* The one symbol of the plugin. */
const struct toy_mpi* toy_mpi_functions(void);

#ifdef __cplusplus
}
#endif
#endif
