/* A driver of an accelerator with registers, as `fbnn-hw generate --wrapper wishbone` and `axi-lite` write it.  C99, no heap.
   registers.md, in the folder of the design, says what the registers do. */
#ifndef FBNN_HW_H
#define FBNN_HW_H

#include <stddef.h>
#include <stdint.h>

enum {
    FBNN_HW_OK,
    FBNN_HW_TIMEOUT,   /* `polls` reads of STATUS were not enough, or `wait` gave up */
    FBNN_HW_STRANGE,   /* identify: no accelerator answers, or one of later registers; load: weights of another configuration; of the
                          learner's memory: not the design that registers.h is of */
    FBNN_HW_LOST,      /* the accelerator did not take the image in time, or the image's packet had another length; it is ready for the
                          next */
    FBNN_HW_UNFIT,     /* the design does not learn, or cannot forget, or takes no weights, or its images come the other way */
    FBNN_HW_SAMPLE,    /* no image was classified before */
    FBNN_HW_LABEL,     /* no class known, nor the next new one, nor one that can be forgotten */
    FBNN_HW_FROZEN,    /* the learner is frozen */
    FBNN_HW_DAMAGED    /* restore: the check sum is wrong, or the snapshot is of another design; load: it is wrong, or the length */
};

typedef struct {
    /* You set these.  get reads a register, put writes one; `bus` is theirs.  With FBNN_HW_MAPPED defined both are left out, and the
       registers lie at the address `bus`. */
#ifndef FBNN_HW_MAPPED
    uint32_t (*get)(void *bus, uint32_t offset);
    void (*put)(void *bus, uint32_t offset, uint32_t value);
#endif
    void *bus;
    int (*wait)(void *bus); /* may sleep until the interrupt, and gives up with anything but 0; none: STATUS is read over and over */
    uint32_t polls;         /* reads of STATUS after which a wait ends; 0: it does not */
    /* fbnn_hw_identify sets these. */
    uint32_t config;      /* the configuration id */
    uint16_t shipped, most; /* classes after reset, and that there is room for */
    uint32_t image_bytes : 24; /* of an image: R, G, B of each pixel, row by row, or packed levels */
    uint32_t learns : 1;  /* the design learns */
    uint32_t sampled : 1; /* an image was classified, so that it can be learned */
    uint32_t loads : 1;   /* fbnn_hw_load loads the weights */
    uint32_t streams : 1; /* images come as a stream, not from the driver */
} fbnn_hw;

typedef struct {
    uint16_t answer; /* the class */
    uint16_t unknown; /* 1: the learner takes the image for none that it knows */
    uint16_t logits; /* how many there are: the classes known */
    uint32_t cycles; /* from the last byte to the result */
} fbnn_hw_result;

/* Every function returns one of the numbers above. */

/* Find out what is there.  Comes first, and after a reset. */
int fbnn_hw_identify(fbnn_hw *device);

/* Reset the accelerator; a learner begins again with its shipped classes, and weights that were loaded have to be loaded anew. */
int fbnn_hw_restart(fbnn_hw *device);

/* Reset the accelerator and load weights.bin, of any network of its configuration; of a design with LOADS, before the first image.
   The register WEIGHTS then has the file's CRC-32. */
int fbnn_hw_load(fbnn_hw *device, const uint8_t *file, uint32_t bytes);

/* Classify an image of `image_bytes` bytes, fastest where its address is a multiple of four.  logits: room for `most`, or 0.  image: 0 where
   `streams` is 1; then it waits for the result of the oldest image that came as a stream. */
int fbnn_hw_classify(fbnn_hw *device, const uint8_t *image, fbnn_hw_result *result, int32_t *logits);

/* Classify `count` images that follow each other, into as many results, until one fails. */
int fbnn_hw_classify_many(fbnn_hw *device, const uint8_t *images, size_t count, fbnn_hw_result *results);

/* Learn the image classified last as class `label`: one that is known, or the next new one. */
int fbnn_hw_learn(fbnn_hw *device, uint16_t label);

/* Keep the image classified last as an exemplar of the known class `label`. */
int fbnn_hw_store(fbnn_hw *device, uint16_t label);

/* Replay `count` exemplars. */
int fbnn_hw_rehearse(fbnn_hw *device, uint32_t count);

/* Make the learner refuse what would change it; with 0, let it learn again. */
int fbnn_hw_freeze(fbnn_hw *device, int frozen);

/* The classes that are known. */
int fbnn_hw_known(fbnn_hw *device, uint16_t *classes);

/* Forget a class, of a design made with --forget: its weights and its exemplars.  The other classes keep their numbers. */
int fbnn_hw_forget(fbnn_hw *device, uint16_t label);

/* Read or write a word of the learner's memory, the lowest 32 bits first; as many numbers as a word has, at most 4. */
int fbnn_hw_peek(fbnn_hw *device, uint32_t space, uint32_t address, uint32_t *word);
int fbnn_hw_poke(fbnn_hw *device, uint32_t space, uint32_t address, const uint32_t *word);

/* The whole state of the learner: `write` gets each byte, and how many came before. */
int fbnn_hw_snapshot(fbnn_hw *device, void (*write)(void *file, uint32_t at, uint8_t byte), void *file, uint32_t *bytes);

/* Take up a snapshot of this design.  `read` gives the byte at a place, each twice: the check sum is tried before anything changes. */
int fbnn_hw_restore(fbnn_hw *device, uint8_t (*read)(void *file, uint32_t at), void *file);

#endif
