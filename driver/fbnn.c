#include "fbnn.h"

#include "registers.h"

#ifdef FBNN_HW_MAPPED
#define GET(device, offset) (*(volatile uint32_t *)((char *)(device)->bus + (offset)))
#define PUT(device, offset, value) ((void)(*(volatile uint32_t *)((char *)(device)->bus + (offset)) = (value)))
#else
#define GET(device, offset) (device)->get((device)->bus, offset)
#define PUT(device, offset, value) (device)->put((device)->bus, offset, value)
#endif
#define PART(word, field) (((word) & field) >> field##_LOW)

enum { CLASSIFY, LEARN, STORE, REHEARSE, FREEZE };
enum { BANKS, LABELS, COUNTS, PRESENTED, SCALARS, NOISE };
enum { CLASSES, EXEMPLARS, FROZEN }; /* words of SCALARS */

#define FORGOTTEN 0x8000u  /* in PRESENTED */
#define WORDS ((FBNN_HW_THIS_WORD_BITS + 31) / 32)  /* of 32 bits, of a word of the learner's memory */
#define FIRST_WORDS 8u     /* of an image, before each of which there may be no room: the weights are not loaded */
#define LAST_WORD 16u      /* reads of STATUS, in which the last word of a weight file has long arrived */
#define MAGIC 0x316e6266u  /* "fbn1" */

/* Waiting. */

/* sleeps: an interrupt comes with what is waited for. */
static int until(fbnn_hw *device, uint32_t mask, uint32_t value, int sleeps) {
    uint32_t polls = device->polls;
    while ((GET(device, FBNN_HW_STATUS) & mask) != value) {
        if (device->polls && !--polls) return FBNN_HW_TIMEOUT;
        if (sleeps && device->wait && device->wait(device->bus)) return FBNN_HW_TIMEOUT;
    }
    return FBNN_HW_OK;
}

static int take(fbnn_hw *device) {
    int failed = until(device, FBNN_HW_STATUS_DONE, FBNN_HW_STATUS_DONE, 1);
    if (!failed) PUT(device, FBNN_HW_STATUS, FBNN_HW_STATUS_DONE);
    return failed;
}

/* Bring what an earlier call gave up to its end: a command, an image that was cut short, a result that nobody took. */
static int settle(fbnn_hw *device) {
    uint32_t status = GET(device, FBNN_HW_STATUS);
    if (status & FBNN_HW_STATUS_DONE) PUT(device, FBNN_HW_STATUS, FBNN_HW_STATUS_DONE);
    if (until(device, FBNN_HW_STATUS_PENDING, 0, 0)) return FBNN_HW_TIMEOUT;
    status = GET(device, FBNN_HW_STATUS);
    if (status & FBNN_HW_STATUS_INSIDE) PUT(device, FBNN_HW_CONTROL, FBNN_HW_CONTROL_FILL);
    if (status & (FBNN_HW_STATUS_INSIDE | FBNN_HW_STATUS_BUSY | FBNN_HW_STATUS_DONE)) {
        device->sampled = 0;
        if (take(device)) return FBNN_HW_TIMEOUT;
    }
    PUT(device, FBNN_HW_STATUS, FBNN_HW_STATUS_LOST | FBNN_HW_STATUS_FINISHED);
    return FBNN_HW_OK;
}

/* Any design. */

int fbnn_hw_identify(fbnn_hw *device) {
    uint32_t word;
    device->sampled = 0;
    if (GET(device, FBNN_HW_ID) != FBNN_HW_THIS_ID) return FBNN_HW_STRANGE;
    device->config = GET(device, FBNN_HW_CONFIG);
    word = GET(device, FBNN_HW_IMAGE);
    device->image_bytes = word & FBNN_HW_IMAGE_BYTES;
    device->learns = (word & FBNN_HW_IMAGE_LEARNS) != 0;
    device->loads = (word & FBNN_HW_IMAGE_LOADS) != 0;
    device->streams = (word & FBNN_HW_IMAGE_STREAMS) != 0;
    word = GET(device, FBNN_HW_CLASSES);
    device->shipped = (uint16_t)PART(word, FBNN_HW_CLASSES_SHIPPED);
    device->most = (uint16_t)PART(word, FBNN_HW_CLASSES_MOST);
    PUT(device, FBNN_HW_INTERRUPT, device->wait ? FBNN_HW_INTERRUPT_DONE | FBNN_HW_INTERRUPT_FINISHED : 0);
    return FBNN_HW_OK;
}

int fbnn_hw_restart(fbnn_hw *device) {
    PUT(device, FBNN_HW_CONTROL, FBNN_HW_CONTROL_RESTART);
    return fbnn_hw_identify(device);
}

static void write_words(fbnn_hw *device, uint32_t offset, const uint8_t *image, uint32_t count) {
#if defined __GNUC__ && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (!((uintptr_t)image & 3)) {
        typedef uint32_t __attribute__((may_alias)) word;
        const word *words = (const word *)(const void *)image;
        for (; count >= 4; count -= 4, words += 4) {
            PUT(device, offset, words[0]);
            PUT(device, offset, words[1]);
            PUT(device, offset, words[2]);
            PUT(device, offset, words[3]);
        }
        image = (const uint8_t *)words;
    }
#endif
    for (; count; count--, image += 4)
        PUT(device, offset, image[0] | (uint32_t)image[1] << 8 | (uint32_t)image[2] << 16 | (uint32_t)image[3] << 24);
}

int fbnn_hw_load(fbnn_hw *device, const uint8_t *file, uint32_t bytes) {
    uint32_t polls = LAST_WORD, status;
    if (!device->loads) return FBNN_HW_UNFIT;
    if (fbnn_hw_restart(device)) return FBNN_HW_STRANGE;
    write_words(device, FBNN_HW_WEIGHTS, file, bytes / 4);
    do status = GET(device, FBNN_HW_STATUS);
    while (!(status & (FBNN_HW_STATUS_LOADED | FBNN_HW_STATUS_STRANGE | FBNN_HW_STATUS_DAMAGED)) && --polls);
    if (status & FBNN_HW_STATUS_STRANGE) return FBNN_HW_STRANGE;
    return (status & (FBNN_HW_STATUS_LOADED | FBNN_HW_STATUS_LOST)) == FBNN_HW_STATUS_LOADED ? FBNN_HW_OK : FBNN_HW_DAMAGED;
}

/* Write an image. */
static int give(fbnn_hw *device, const uint8_t *image) {
    uint32_t words = device->image_bytes / 4, rest = device->image_bytes % 4, i, word = 0;
    if (settle(device)) return FBNN_HW_TIMEOUT;
    for (i = 0; i < FIRST_WORDS && i < words; i++) {
        if (until(device, FBNN_HW_STATUS_ROOM, FBNN_HW_STATUS_ROOM, 0)) return FBNN_HW_TIMEOUT;
        write_words(device, FBNN_HW_PIXELS, image + 4 * i, 1);
    }
    write_words(device, FBNN_HW_PIXELS, image + 4 * i, words - i);
    for (i = 0; i < rest; i++) word |= (uint32_t)image[4 * words + i] << 8 * i;
    if (rest) PUT(device, FBNN_HW_PIXELS, word);
    if (GET(device, FBNN_HW_STATUS) & FBNN_HW_STATUS_LOST) return settle(device) ? FBNN_HW_TIMEOUT : FBNN_HW_LOST;
    return FBNN_HW_OK;
}

int fbnn_hw_classify(fbnn_hw *device, const uint8_t *image, fbnn_hw_result *result, int32_t *logits) {
    uint32_t i, word;
    int failed = FBNN_HW_OK;
    if (device->streams != !image) return FBNN_HW_UNFIT;
    device->sampled = 0;
    if (image) failed = give(device, image);
    if (failed) return failed;
    if (until(device, FBNN_HW_STATUS_DONE, FBNN_HW_STATUS_DONE, 1)) return FBNN_HW_TIMEOUT;

    word = GET(device, FBNN_HW_RESULT);
    result->answer = (uint16_t)PART(word, FBNN_HW_RESULT_CLASS);
    result->unknown = (word & FBNN_HW_RESULT_UNKNOWN) != 0;
    result->cycles = GET(device, FBNN_HW_CYCLES);
    if (word & FBNN_HW_RESULT_WRONG) failed = FBNN_HW_LOST;
    if (fbnn_hw_known(device, &result->logits)) result->logits = device->shipped;
    for (i = 0; logits && i < result->logits; i++) logits[i] = (int32_t)GET(device, FBNN_HW_LOGITS + 4 * i);
    PUT(device, FBNN_HW_STATUS, FBNN_HW_STATUS_DONE);
    device->sampled = !failed;
    return failed;
}

int fbnn_hw_classify_many(fbnn_hw *device, const uint8_t *images, size_t count, fbnn_hw_result *results) {
    int failed = FBNN_HW_OK;
    for (; count && !failed; count--) {
        failed = fbnn_hw_classify(device, images, results++, 0);
        if (images) images += device->image_bytes;
    }
    return failed;
}

/* A learner. */

int fbnn_hw_known(fbnn_hw *device, uint16_t *classes) {
    if (!device->learns) return FBNN_HW_UNFIT;
    *classes = (uint16_t)PART(GET(device, FBNN_HW_STATUS), FBNN_HW_STATUS_KNOWN);
    return FBNN_HW_OK;
}

static int command(fbnn_hw *device, uint32_t number, uint32_t label, uint32_t count) {
    uint32_t status;
    if (!device->learns) return FBNN_HW_UNFIT;
    if (settle(device)) return FBNN_HW_TIMEOUT;
    if ((number == LEARN || number == STORE) && !device->sampled) return FBNN_HW_SAMPLE;
    PUT(device, FBNN_HW_COMMAND, number | label << FBNN_HW_COMMAND_LABEL_LOW | count << FBNN_HW_COMMAND_COUNT_LOW);
    if (until(device, FBNN_HW_STATUS_PENDING, 0, 1)) return FBNN_HW_TIMEOUT;
    PUT(device, FBNN_HW_STATUS, FBNN_HW_STATUS_FINISHED);
    status = GET(device, FBNN_HW_STATUS);
    return !(status & FBNN_HW_STATUS_REFUSED) ? FBNN_HW_OK : status & FBNN_HW_STATUS_FROZEN ? FBNN_HW_FROZEN : FBNN_HW_LABEL;
}

int fbnn_hw_learn(fbnn_hw *device, uint16_t label) { return command(device, LEARN, label, 0); }

int fbnn_hw_store(fbnn_hw *device, uint16_t label) { return command(device, STORE, label, 0); }

int fbnn_hw_freeze(fbnn_hw *device, int frozen) { return command(device, FREEZE, 0, frozen != 0); }

int fbnn_hw_rehearse(fbnn_hw *device, uint32_t count) {
    int failed = FBNN_HW_OK;
    for (; count && !failed; count -= count < 255 ? count : 255) failed = command(device, REHEARSE, 0, count < 255 ? count : 255);
    return failed;
}

/* The learner's memory: where everything lies are constants of this design, in registers.h. */

#if FBNN_HW_THIS_WORD_BITS

static const uint8_t register_bits[] = {31, 63, 47};

static int fits(fbnn_hw *device) {
    return !device->learns ? FBNN_HW_UNFIT : device->config != FBNN_HW_THIS_CONFIG ? FBNN_HW_STRANGE : FBNN_HW_OK;
}

static int access(fbnn_hw *device, uint32_t space, uint32_t address, uint32_t write) {
    PUT(device, FBNN_HW_ACCESS, space | address << FBNN_HW_ACCESS_ADDRESS_LOW | write);
    return until(device, FBNN_HW_STATUS_PENDING, 0, 0);
}

int fbnn_hw_peek(fbnn_hw *device, uint32_t space, uint32_t address, uint32_t *word) {
    uint32_t i;
    int failed = fits(device);
    if (!failed) failed = access(device, space, address, 0);
    for (i = 0; i < WORDS && !failed; i++) word[i] = GET(device, FBNN_HW_DATA + 4 * i);
    return failed;
}

int fbnn_hw_poke(fbnn_hw *device, uint32_t space, uint32_t address, const uint32_t *word) {
    uint32_t i;
    int failed = fits(device);
    for (i = 0; i < WORDS && !failed; i++) PUT(device, FBNN_HW_DATA + 4 * i, word[i]);
    return failed ? failed : access(device, space, address, FBNN_HW_ACCESS_WRITE);
}

/* A short word: of the others of 32 bits nothing is read or written. */
static int peek_short(fbnn_hw *device, uint32_t space, uint32_t address, uint32_t *value) {
    int failed = access(device, space, address, 0);
    *value = GET(device, FBNN_HW_DATA);
    return failed;
}

static int poke_short(fbnn_hw *device, uint32_t space, uint32_t address, uint32_t value) {
    PUT(device, FBNN_HW_DATA, value);
    return access(device, space, address, FBNN_HW_ACCESS_WRITE);
}

static int begin(fbnn_hw *device) {
    int failed = fits(device);
    return failed ? failed : settle(device);
}

/* Forgetting.  The mirror of a forgotten class is not read: its score is the lowest. */

static int forget_row(fbnn_hw *device, uint32_t label) {
    static const uint32_t zeros[WORDS];
    uint32_t most = device->most, i, row, counters = FBNN_HW_THIS_CHUNKS * most;
    uint32_t mirror = FBNN_HW_THIS_PLANES * ((most + FBNN_HW_THIS_BANKS - 1) / FBNN_HW_THIS_BANKS);
    for (row = FBNN_HW_THIS_TABLE; row < FBNN_HW_THIS_TABLE + FBNN_HW_THIS_TABLE_ROWS; row += counters + mirror)
        for (i = 0; i < counters * FBNN_HW_THIS_BANKS; i++)
            if (i / FBNN_HW_THIS_BANKS % most == label && fbnn_hw_poke(device, BANKS, row * FBNN_HW_THIS_BANKS + i, zeros))
                return FBNN_HW_TIMEOUT;
    return FBNN_HW_OK;
}

/* The place of a word of an exemplar. */
static uint32_t slot_word(uint32_t row, uint32_t slot, uint32_t bank) {
    return (FBNN_HW_THIS_SLOTS_BASE + row * FBNN_HW_THIS_SLOTS + slot) * FBNN_HW_THIS_BANKS + bank;
}

/* The exemplars of a class leave, the others move down. */
static int forget_exemplars(fbnn_hw *device, uint32_t label) {
    uint32_t slot, used, kept = 0, found, r, bank, word[WORDS];
    if (peek_short(device, SCALARS, EXEMPLARS, &used)) return FBNN_HW_TIMEOUT;
    for (slot = 0; slot < used; slot++) {
        if (peek_short(device, LABELS, slot, &found)) return FBNN_HW_TIMEOUT;
        if (found == label) continue;
        for (r = 0; r < FBNN_HW_THIS_SLOT_ROWS && kept != slot; r++)
            for (bank = 0; bank < FBNN_HW_THIS_BANKS; bank++) {
                if (fbnn_hw_peek(device, BANKS, slot_word(r, slot, bank), word)) return FBNN_HW_TIMEOUT;
                if (fbnn_hw_poke(device, BANKS, slot_word(r, kept, bank), word)) return FBNN_HW_TIMEOUT;
            }
        if (poke_short(device, LABELS, kept++, found)) return FBNN_HW_TIMEOUT;
    }
    return poke_short(device, SCALARS, EXEMPLARS, kept);
}

int fbnn_hw_forget(fbnn_hw *device, uint16_t label) {
    uint32_t i, word, known, left = 0, own = FORGOTTEN;
    int failed = begin(device);
    if (failed) return failed;
    if (!FBNN_HW_THIS_FORGETS) return FBNN_HW_UNFIT;
    word = GET(device, FBNN_HW_STATUS);
    if (word & FBNN_HW_STATUS_FROZEN) return FBNN_HW_FROZEN;
    known = PART(word, FBNN_HW_STATUS_KNOWN);
    for (i = 0; i < known; i++) {
        if (peek_short(device, PRESENTED, i, &word)) return FBNN_HW_TIMEOUT;
        left += !(word & FORGOTTEN);
        if (i == label) own = word;
    }
    if (own & FORGOTTEN || (device->shipped && left == 1)) return FBNN_HW_LABEL;
    if (poke_short(device, PRESENTED, label, FORGOTTEN) || forget_row(device, label) || forget_exemplars(device, label)
        || poke_short(device, COUNTS, label, 0)) return FBNN_HW_TIMEOUT;
    for (; known > device->shipped; known--) {
        if (peek_short(device, PRESENTED, known - 1, &word)) return FBNN_HW_TIMEOUT;
        if (!(word & FORGOTTEN)) break;
        if (poke_short(device, PRESENTED, known - 1, 0)) return FBNN_HW_TIMEOUT;
    }
    return poke_short(device, SCALARS, CLASSES, known);
}

/* Snapshots: MAGIC, the configuration id, the words in the order of `state`, a CRC-32 of all that, each lowest byte first. */

typedef struct {
    fbnn_hw *device;
    void (*write)(void *file, uint32_t at, uint8_t byte); /* a snapshot is taken */
    uint8_t (*read)(void *file, uint32_t at);             /* else one is tried or taken up */
    void *file;
    uint32_t at, crc, used;
    uint16_t known;
    uint8_t frozen, changes; /* changes: it is taken up */
} stream;

static uint32_t pass(stream *s, uint32_t value, uint32_t bytes) {
    uint32_t out = 0, i, bit;
    for (i = 0; i < bytes; i++, s->at++) {
        uint8_t byte = (uint8_t)(value >> 8 * i);
        if (s->write) s->write(s->file, s->at, byte);
        else byte = s->read(s->file, s->at);
        out |= (uint32_t)byte << 8 * i;
        s->crc ^= byte;
        for (bit = 0; bit < 8; bit++) s->crc = s->crc >> 1 ^ (s->crc & 1 ? 0xedb88320u : 0);
    }
    return out;
}

/* `count` words of `bits` bits of a space. */
static int words(stream *s, uint32_t space, uint32_t address, uint32_t count, uint32_t bits) {
    uint32_t word[WORDS] = {0}, i;
    for (; count; count--, address++) {
        if (s->write && fbnn_hw_peek(s->device, space, address, word)) return FBNN_HW_TIMEOUT;
        for (i = 0; 32 * i < bits; i++) word[i] = pass(s, word[i], bits - 32 * i < 32 ? (bits - 32 * i + 7) / 8 : 4);
        if (s->changes && fbnn_hw_poke(s->device, space, address, word)) return FBNN_HW_TIMEOUT;
    }
    return FBNN_HW_OK;
}

/* A register, of which an access gives or takes a bit. */
static int bits(stream *s, uint32_t number) {
    uint32_t at, i, value, bit;
    for (at = 0; at < register_bits[number]; at += 8) {
        uint32_t count = register_bits[number] - at < 8 ? register_bits[number] - at : 8u;
        for (value = i = 0; s->write && i < count; i++) {
            if (peek_short(s->device, NOISE + number, 0, &bit)) return FBNN_HW_TIMEOUT;
            value |= (bit & 1) << i;
        }
        value = pass(s, value, 1);
        for (i = 0; s->changes && i < count; i++)
            if (poke_short(s->device, NOISE + number, 0, value >> i & 1)) return FBNN_HW_TIMEOUT;
    }
    return FBNN_HW_OK;
}

/* The numbers of classes and of exemplars, and whether it is frozen. */
static int counts(stream *s) {
    uint32_t known = 0, used = 0, frozen = 0;
    if (s->write && (peek_short(s->device, SCALARS, CLASSES, &known) || peek_short(s->device, SCALARS, EXEMPLARS, &used)
                     || peek_short(s->device, SCALARS, FROZEN, &frozen))) return FBNN_HW_TIMEOUT;
    s->known = (uint16_t)pass(s, known, 2);
    s->used = pass(s, used, 4);
    s->frozen = (uint8_t)pass(s, frozen, 1);
    return s->known > s->device->most || s->known < s->device->shipped || s->used > FBNN_HW_THIS_SLOTS || s->frozen > 1
        ? FBNN_HW_DAMAGED : FBNN_HW_OK;
}

static int state(stream *s) {
    uint32_t i;
    int failed;
    s->at = 0;
    s->crc = ~0u;
    if (pass(s, MAGIC, 4) != MAGIC || pass(s, FBNN_HW_THIS_CONFIG, 4) != FBNN_HW_THIS_CONFIG) return FBNN_HW_DAMAGED;
    failed = counts(s);
    /* No exemplars while the rest is written, so that an interrupted learner still comes to rest. */
    if (s->changes && !failed) failed = poke_short(s->device, SCALARS, EXEMPLARS, 0);
    for (i = 0; i < 3 && !failed; i++) failed = bits(s, i);
    if (!failed) failed = words(s, PRESENTED, 0, s->device->most, 16);
    if (!failed) failed = words(s, COUNTS, 0, s->device->most, 16);
    if (!failed) failed = words(s, BANKS, FBNN_HW_THIS_TABLE * FBNN_HW_THIS_BANKS, FBNN_HW_THIS_TABLE_ROWS * FBNN_HW_THIS_BANKS,
                                FBNN_HW_THIS_WORD_BITS);
    if (!failed) failed = words(s, LABELS, 0, s->used, 16);
    for (i = 0; i < FBNN_HW_THIS_SLOT_ROWS && !failed; i++)
        failed = words(s, BANKS, slot_word(i, 0, 0), s->used * FBNN_HW_THIS_BANKS, FBNN_HW_THIS_WORD_BITS);
    if (s->changes && !failed)
        failed = poke_short(s->device, SCALARS, CLASSES, s->known) || poke_short(s->device, SCALARS, EXEMPLARS, s->used)
            || poke_short(s->device, SCALARS, FROZEN, s->frozen) ? FBNN_HW_TIMEOUT : FBNN_HW_OK;
    return failed;
}

int fbnn_hw_snapshot(fbnn_hw *device, void (*write)(void *file, uint32_t at, uint8_t byte), void *file, uint32_t *bytes) {
    stream s = {device, write, 0, file, 0, 0, 0, 0, 0, 0};
    int failed = begin(device);
    if (!failed) failed = state(&s);
    if (!failed) pass(&s, ~s.crc, 4);
    *bytes = s.at;
    return failed;
}

int fbnn_hw_restore(fbnn_hw *device, uint8_t (*read)(void *file, uint32_t at), void *file) {
    stream s = {device, 0, read, file, 0, 0, 0, 0, 0, 0};
    uint32_t crc;
    int failed = begin(device);
    if (!failed) failed = state(&s);
    if (failed) return failed;
    crc = ~s.crc;
    if (pass(&s, 0, 4) != crc) return FBNN_HW_DAMAGED;
    s.changes = 1;
    return state(&s);
}

#else

int fbnn_hw_peek(fbnn_hw *device, uint32_t space, uint32_t address, uint32_t *word) {
    return (void)device, (void)space, (void)address, (void)word, FBNN_HW_UNFIT;
}

int fbnn_hw_poke(fbnn_hw *device, uint32_t space, uint32_t address, const uint32_t *word) {
    return (void)device, (void)space, (void)address, (void)word, FBNN_HW_UNFIT;
}

int fbnn_hw_forget(fbnn_hw *device, uint16_t label) { return (void)device, (void)label, FBNN_HW_UNFIT; }

int fbnn_hw_snapshot(fbnn_hw *device, void (*write)(void *file, uint32_t at, uint8_t byte), void *file, uint32_t *bytes) {
    return (void)device, (void)write, (void)file, *bytes = 0, FBNN_HW_UNFIT;
}

int fbnn_hw_restore(fbnn_hw *device, uint8_t (*read)(void *file, uint32_t at), void *file) {
    return (void)device, (void)read, (void)file, FBNN_HW_UNFIT;
}

#endif
