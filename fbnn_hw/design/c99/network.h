/* A fully-binary network as C99 of words of 32 bits: no heap, no file, no floating point.  Written by fbnn-hw generate --target c. */
#ifndef FBNN_NETWORK_H
#define FBNN_NETWORK_H

#include <stdint.h>

#define FBNN_SIZE @SIZE@ /* pixels a side of an image */
#define FBNN_CLASSES @CLASSES@

/* Names of the classes, UTF-8, in the order of the logits. */
extern const char *const fbnn_classes[FBNN_CLASSES];

/* The logits of an image: R, G, B of each pixel, row by row, 3 * FBNN_SIZE * FBNN_SIZE bytes.  Not reentrant: the maps are static. */
void fbnn_logits(const uint8_t *image, int32_t *logits);

/* The number of the largest logit, the lowest number where several are equal. */
unsigned fbnn_classify(const uint8_t *image);

#endif
