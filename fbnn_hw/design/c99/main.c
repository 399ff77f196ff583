/* cc -O2 -o classify main.c network.c
   ./classify < images      a line for each image: the class, then the logits

   An image is R, G, B of each pixel, row by row, 3 * FBNN_SIZE * FBNN_SIZE bytes. */
#include <stdio.h>
#include "network.h"

int main(void)
{
    static uint8_t image[3 * FBNN_SIZE * FBNN_SIZE];
    int32_t logits[FBNN_CLASSES];
    while (fread(image, sizeof image, 1, stdin)) {
        fbnn_logits(image, logits);
        printf("%s", fbnn_classes[fbnn_classify(image)]);
        for (unsigned i = 0; i < FBNN_CLASSES; i++)
            printf(" %ld", (long)logits[i]);
        putchar('\n');
    }
    return 0;
}
