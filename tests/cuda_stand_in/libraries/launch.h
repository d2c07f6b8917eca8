// What every stand-in for one of CUDA's libraries needs.
#include <stdlib.h>
#include <string.h>

// Counts a kernel on a stream, or records it there; in cudart.c. Returns 0, or an error of CUDA.
int stand_in_launch(const char *name, void *stream);
