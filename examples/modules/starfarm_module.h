/* What a module of starfarm's monitoring agent is, where it is a shared object written in C.
 *
 * Build it by `cc -shared -fPIC -o libpower.so power.c`, and name it in a worker's `--agent FILE`:
 *
 *     modules = ["cpuload", "./libpower.so"]
 *
 * The agent loads it once, at its start, never unloads it, and calls it from one thread only. A module that crashes ends the agent,
 * which the worker starts again; tasks notice nothing. A call that does not return stops all that this node measures, so a
 * module waits for nothing. docs/monitoring.md says what stages, edges, timers and values are. */
#ifndef STARFARM_MODULE_H
#define STARFARM_MODULE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The version of all that stands here. An agent loads modules of its own version and no others. */
#define STARFARM_MODULE_VERSION 1

/* What the agent does for a stage while it calls it. Outside of a call, in create, destroy, edge_made and edge_gone, and from
 * another thread, emit refuses all, now_us is 0, and the others but `say` do nothing. */
struct starfarm_host {
    uint32_t version;
    /* Sends a message of triples to everybody who is linked to that output; its number is what edge_made said. 0 where it was
     * taken. Else it is dropped and counted: the bytes are no triples, there are more than 4096 of them or 1 MiB in one call, or the
     * stage has no such output. */
    int (*emit)(uint32_t output, const void *triples, size_t bytes);
    /* Asks for wave_is_over, once all timers that fire at this moment have told all their stages. */
    void (*wait_for_wave)(void);
    /* Counts values that the stage could not take. */
    void (*not_taken)(uint64_t values);
    /* The farm's clock, in microseconds since 1970. */
    uint64_t (*now_us)(void);
    /* A line on the worker's standard error; a few each second, the rest is counted. */
    void (*say)(const char *words);
};

enum { STARFARM_INPUT = 0, STARFARM_OUTPUT = 1 };

/* An input or output of a stage: the first edge to it is about to be made, or the last one has gone. */
struct starfarm_hook {
    uint32_t side;
    /* Its number among those of its side, for as long as it has edges. */
    uint32_t port;
    const char *name;
};

/* A type of stages. All but `name` and `create` may be NULL. What is not 0 is a refusal: then `why` has room for the words,
 * with a 0 at their end. Nothing that is handed over lives longer than the call. */
struct starfarm_type {
    /* 1 to 64 letters, digits, `-` and `_`. */
    const char *name;
    /* Makes a stage: whatever it is to remember, handed to all other functions. NULL where it cannot. `host` is good for as long as
     * the process. A stage is made for each check of the file as well, and destroyed again: so begin with what lasts, such as
     * opening a device, no sooner than values are asked for. */
    void *(*create)(const struct starfarm_host *host);
    void (*destroy)(void *stage);
    /* Without it a stage has any input, and one output, `out`, whose number is 0. */
    int (*edge_made)(void *stage, const struct starfarm_hook *hook, char *why, size_t why_bytes);
    void (*edge_gone)(void *stage, const struct starfarm_hook *hook);
    /* A message has come to an input. */
    void (*data)(void *stage, uint32_t input, const void *triples, size_t bytes);
    /* A setting, from `set = { key = "value" }`. Without it a stage has none. */
    int (*set)(void *stage, const char *key, const char *value, char *why, size_t why_bytes);
    /* Timers of the stage have fired, all at one moment. */
    void (*fired)(void *stage, const char *const *timers, size_t count);
    void (*wave_is_over)(void *stage);
};

/* A module. Nothing of it changes any more. */
struct starfarm_table {
    /* STARFARM_MODULE_VERSION. It stands first in every version. */
    uint32_t version;
    uint32_t types_count;
    const char *name;
    const struct starfarm_type *types;
};

#ifdef __cplusplus
extern "C" {
#endif
/* What the agent looks for in a shared object, and calls once. */
const struct starfarm_table *starfarm_module(void);
#ifdef __cplusplus
}
#endif

/* Triples, written and read. A buffer with too little room stays as it is. */

struct starfarm_message {
    unsigned char *bytes;
    size_t used, room;
};

static inline size_t starfarm_leb128(unsigned char *to, uint64_t number)
{
    size_t at = 0;
    for (; number >= 0x80; number >>= 7)
        to[at++] = (unsigned char)(number | 0x80);
    to[at++] = (unsigned char)number;
    return at;
}

/* Adds a value; 0 where there was room for it. */
static inline int starfarm_put(struct starfarm_message *message, uint32_t id, const void *value, size_t bytes)
{
    unsigned char head[20];
    size_t length = starfarm_leb128(head, id);
    length += starfarm_leb128(head + length, bytes);
    if (message->room - message->used < length || message->room - message->used - length < bytes)
        return -1;
    memcpy(message->bytes + message->used, head, length);
    memcpy(message->bytes + message->used + length, value, bytes);
    message->used += length + bytes;
    return 0;
}

static inline void starfarm_little_endian(unsigned char *to, uint64_t number)
{
    for (int at = 0; at < 8; at++)
        to[at] = (unsigned char)(number >> (8 * at));
}

/* Adds a number: that of `cpu` or `memory`, say, by its id. */
static inline int starfarm_put_number(struct starfarm_message *message, uint32_t id, uint64_t number)
{
    unsigned char value[8];
    starfarm_little_endian(value, number);
    return starfarm_put(message, id, value, sizeof value);
}

/* Adds a figure that has a name only, such as `power.watts`: with a dot, and 129 bytes at most. */
static inline int starfarm_put_named(struct starfarm_message *message, const char *name, double number)
{
    unsigned char value[1 + 129 + 8];
    uint64_t bits;
    uint32_t hash = 0x811c9dc5u;
    size_t length = strlen(name);
    if (length == 0 || length > 129)
        return -1;
    for (size_t at = 0; at < length; at++)
        hash = (hash ^ (unsigned char)name[at]) * 0x01000193u;
    value[0] = (unsigned char)length;
    memcpy(value + 1, name, length);
    memcpy(&bits, &number, sizeof bits);
    starfarm_little_endian(value + 1 + length, bits);
    return starfarm_put(message, 1000000u + hash % (UINT32_MAX - 1000000u), value, 1 + length + 8);
}

struct starfarm_triple {
    uint32_t id;
    size_t bytes;
    const unsigned char *value;
};

/* The next of the triples that came, from byte `*at` on; 0 where there is none. */
static inline int starfarm_next(const void *triples, size_t bytes, size_t *at, struct starfarm_triple *triple)
{
    const unsigned char *from = (const unsigned char *)triples;
    uint64_t numbers[2] = { 0, 0 };
    for (int which = 0; which < 2; which++) {
        for (int shift = 0;; shift += 7) {
            if (*at >= bytes || shift > 56)
                return 0;
            numbers[which] |= (uint64_t)(from[*at] & 0x7F) << shift;
            if (from[(*at)++] < 0x80)
                break;
        }
    }
    if (numbers[1] > bytes - *at)
        return 0;
    triple->id = (uint32_t)numbers[0];
    triple->bytes = (size_t)numbers[1];
    triple->value = from + *at;
    *at += triple->bytes;
    return 1;
}

#endif
