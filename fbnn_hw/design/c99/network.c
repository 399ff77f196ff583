/* @NAME@: @ABOUT@
   Written by fbnn-hw @VERSION@, generate --target c.

   A map is stored pixel by pixel in raster order.  The channels of a pixel are bits of `words` words, channel c in bit c % 32 of word
   c / 32; bits beyond the last channel are 0.  A bit stands for +1 or, where it is 0, for -1, so the dot product of n such bits is n less
   twice the bits that differ, and an output is 1 where at most `limit` bits differ. */
#include "network.h"

/* -- ones -- */
/* How many bits of two rows of n words differ.  FBNN_POPCOUNT(x) may name an instruction; without one, counts lie side by side in the four
   bytes of a word, 8 at most from each word, and are added up after 31 words at the latest. */
#if !defined(FBNN_POPCOUNT) && defined(__GNUC__) && (defined(__riscv_zbb) || defined(__POPCNT__) || defined(__aarch64__))
#define FBNN_POPCOUNT(x) ((uint32_t)__builtin_popcountl(x))
#endif

static uint32_t differing(const uint32_t *x, const uint32_t *w, unsigned n)
{
    uint32_t total = 0;
#ifdef FBNN_POPCOUNT
    while (n--)
        total += FBNN_POPCOUNT(*x++ ^ *w++);
#else
    while (n) {
        unsigned part = n < 31 ? n : 31;
        uint32_t bytes = 0;
        n -= part;
        while (part--) {
            uint32_t v = *x++ ^ *w++;
            v -= v >> 1 & 0x55555555u;
            v = (v & 0x33333333u) + (v >> 2 & 0x33333333u);
            bytes += (v + (v >> 4)) & 0x0f0f0f0fu;
        }
        bytes = (bytes & 0x00ff00ffu) + (bytes >> 8 & 0x00ff00ffu);
        total += (bytes & 0xffffu) + (bytes >> 16);
    }
#endif
    return total;
}

/* -- conv -- */
/* A convolution, grouped or not; a dense layer is one of a map of one pixel.  The inputs of group g are `span` words from word g * span of
   a pixel on.  Pixels beyond the map are zeros. */
struct conv {
    uint16_t height, width, rows, columns; /* of the map that is read, and of the one that is written */
    uint16_t outputs, groups, span;
    uint8_t kernel, stride, frame;
    const uint32_t *weights;               /* outputs, kernel * kernel taps, span */
    const int32_t *limits;                 /* of each output */
};

static uint32_t tap_sum(const uint32_t *const *taps, const uint32_t *w, unsigned count, unsigned span)
{
    uint32_t total = 0;
    for (; count--; w += span)
        total += differing(*taps++, w, span);
    return total;
}

static unsigned window(const struct conv *c, const uint32_t *in, int row, int column, const uint32_t **taps)
{
    unsigned count = 0;
    int words = c->groups * c->span;
    for (int y = row * c->stride - c->frame; count < (unsigned)(c->kernel * c->kernel); y++)
        for (int k = 0, x = column * c->stride - c->frame; k < c->kernel; k++, x++)
            taps[count++] = y >= 0 && y < c->height && x >= 0 && x < c->width ? in + (y * c->width + x) * words : beyond;
    return count;
}

/* -- conv_bits -- */
static void conv_bits(const struct conv *c, const uint32_t *in, uint32_t *out)
{
    const uint32_t *taps[25];
    unsigned each = c->outputs / c->groups;
    for (int row = 0; row < c->rows; row++)
        for (int column = 0; column < c->columns; column++) {
            unsigned count = window(c, in, row, column, taps);
            const uint32_t *w = c->weights;
            uint32_t word = 0;
            for (unsigned o = 0; o < c->outputs; o++, w += count * c->span) {
                if (o && o % each == 0)
                    for (unsigned t = 0; t < count; t++)
                        taps[t] += c->span;
                if ((int32_t)tap_sum(taps, w, count, c->span) <= c->limits[o])
                    word |= (uint32_t)1 << o % 32;
                if (o % 32 == 31 || o + 1u == c->outputs) {
                    *out++ = word;
                    word = 0;
                }
            }
        }
}

/* -- dense_logits -- */
/* Logits of a row of n bits. */
static void dense_logits(const uint32_t *in, const uint32_t *w, unsigned n, int32_t *logits)
{
    unsigned words = (n + 31) / 32;
    for (unsigned o = 0; o < FBNN_CLASSES; o++)
        logits[o] = (int32_t)n - 2 * (int32_t)differing(in, w + o * words, words);
}

/* -- byte_sum -- */
/* The sum of bytes u, each with the sign of its weight.  The taps lie in an image of bytes; those beyond it are missing. */
struct byte_conv {
    uint16_t height, width, rows, columns, channels, outputs;
    uint8_t kernel, stride, frame;
    const uint32_t *weights; /* outputs, then bits of the taps, row by row, each with its channels, from a word on */
    const int32_t *least;    /* sum from which an output is 1 */
};

static int32_t byte_sum(const struct byte_conv *c, const uint8_t *in, unsigned o, int row, int column)
{
    unsigned bit = 0, words = (c->kernel * c->kernel * c->channels + 31u) / 32;
    const uint32_t *w = c->weights + o * words;
    int32_t total = 0;
    for (int y = row * c->stride - c->frame, j = 0; j < c->kernel; j++, y++)
        for (int x = column * c->stride - c->frame, k = 0; k < c->kernel; k++, x++)
            for (int channel = 0; channel < c->channels; channel++, bit++)
                if (y >= 0 && y < c->height && x >= 0 && x < c->width) {
                    int32_t u = in[(y * c->width + x) * c->channels + channel];
                    total += w[bit / 32] >> bit % 32 & 1 ? u : -u;
                }
    return total;
}

/* -- byte_bits -- */
static void byte_bits(const struct byte_conv *c, const uint8_t *in, uint32_t *out)
{
    for (int row = 0; row < c->rows; row++)
        for (int column = 0; column < c->columns; column++, out += (c->outputs + 31) / 32)
            for (unsigned o = 0; o < c->outputs; o++) {
                if (o % 32 == 0)
                    out[o / 32] = 0;
                if (byte_sum(c, in, o, row, column) >= c->least[o])
                    out[o / 32] |= (uint32_t)1 << o % 32;
            }
}

/* -- pool -- */
/* The maximum of 2 x 2 pixels, which is the OR of their bits; an odd last row or column is left out. */
static void pool(const uint32_t *in, uint32_t *out, unsigned height, unsigned width, unsigned words)
{
    for (unsigned y = 0; y + 1 < height; y += 2)
        for (unsigned x = 0; x + 1 < width; x += 2)
            for (unsigned w = 0; w < words; w++) {
                const uint32_t *p = in + (y * width + x) * words + w;
                *out++ = p[0] | p[words] | p[width * words] | p[(width + 1) * words];
            }
}

/* -- over_map -- */
/* For each channel the sign of the sum over all pixels, each times its weight; no weights: all are +1. */
static void over_map(const uint32_t *in, const uint32_t *w, const int32_t *limits, unsigned pixels, unsigned channels, uint32_t *out)
{
    unsigned words = (channels + 31) / 32;
    for (unsigned c = 0; c < channels; c++) {
        int32_t count = 0;
        for (unsigned p = c / 32; p < pixels * words; p += words)
            count += (in[p] ^ (w ? w[p] : 0xffffffffu)) >> c % 32 & 1;
        if (c % 32 == 0)
            out[c / 32] = 0;
        if (count <= limits[c])
            out[c / 32] |= (uint32_t)1 << c % 32;
    }
}

/* -- gather -- */
/* Runs of channels of one map or of several, put into the order that the next layer reads. */
struct run {
    uint32_t from;                  /* word of the maps at which the source begins */
    uint16_t words, bit, to, count; /* words of a pixel there; first channel there and here; channels */
};

static void gather(const struct run *r, unsigned runs, uint32_t *out, unsigned pixels, unsigned words)
{
    for (unsigned i = 0; i < pixels * words; i++)
        out[i] = 0;
    for (; runs--; r++)
        for (unsigned p = 0; p < pixels; p++)
            for (unsigned i = 0; i < r->count; i++) {
                unsigned a = r->bit + i, b = r->to + i;
                out[p * words + b / 32] |= (maps[r->from + p * r->words + a / 32] >> a % 32 & 1) << b % 32;
            }
}

/* -- flatten -- */
/* A map as a row of bits in the order channel, pixel. */
static void flatten(const uint32_t *in, uint32_t *out, unsigned pixels, unsigned channels)
{
    unsigned n = pixels * channels, words = (channels + 31) / 32;
    for (unsigned i = 0; i < n; i++) {
        unsigned c = i / pixels;
        if (i % 32 == 0)
            out[i / 32] = 0;
        out[i / 32] |= (in[i % pixels * words + c / 32] >> c % 32 & 1) << i % 32;
    }
}

/* -- flatten_bytes -- */
static void flatten_bytes(const uint8_t *in, uint8_t *out, unsigned pixels, unsigned channels)
{
    for (unsigned i = 0; i < pixels * channels; i++)
        out[i] = in[i % pixels * channels + i / pixels];
}

/* -- thermometer -- */
/* Channel k of a plane of n levels is 1 where the level of its byte, byte * n / 256, is k or more. */
static void thermometer(const uint8_t *image, uint32_t *out)
{
    static const uint16_t levels[] = {@LEVELS@};
    for (unsigned p = 0; p < FBNN_SIZE * FBNN_SIZE; p++, image += 3, out += @WORDS@) {
        int32_t r = image[0], g = image[1], b = image[2];
        int32_t bytes[] = {@BYTES@};
        unsigned first = 0;
        for (unsigned w = 0; w < @WORDS@; w++)
            out[w] = 0;
        for (unsigned plane = 0; plane < sizeof levels / sizeof *levels; first += levels[plane++])
            for (unsigned k = first; k <= first + ((uint32_t)bytes[plane] * levels[plane] >> 8); k++)
                out[k / 32] |= (uint32_t)1 << k % 32;
    }
}

/* -- binarize -- */
static void binarize(const uint8_t *image, uint32_t *out)
{
    for (unsigned p = 0; p < FBNN_SIZE * FBNN_SIZE; p++, image += 3) {
        int32_t r = image[0], g = image[1], b = image[2];
        *out++ = (@BYTES@) >= @THRESHOLD@;
    }
}

/* -- bits8 -- */
static void bits8(const uint8_t *image, uint8_t *out)
{
    static const uint8_t table[256] = {@TABLE@};
    for (unsigned i = 0; i < 3 * FBNN_SIZE * FBNN_SIZE; i++)
        out[i] = table[image[i]];
}

/* -- network -- */
const char *const fbnn_classes[FBNN_CLASSES] = {@NAMES@};

void fbnn_logits(const uint8_t *image, int32_t *logits)
{
    @BODY@
}

unsigned fbnn_classify(const uint8_t *image)
{
    int32_t logits[FBNN_CLASSES];
    unsigned best = 0;
    fbnn_logits(image, logits);
    for (unsigned c = 1; c < FBNN_CLASSES; c++)
        if (logits[c] > logits[best])
            best = c;
    return best;
}
