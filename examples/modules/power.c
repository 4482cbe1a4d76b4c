/* The stage `power`: a number out of a file, as the kernel shows those of a power meter, under a name of its own.
 *
 * | setting   | value                                                          | at first      |
 * | --------- | -------------------------------------------------------------- | ------------- |
 * | `file`    | the file                                                       | none: nothing |
 * | `name`    | the figure's name, with a dot                                  | `power.watts` |
 * | `scale`   | the number is multiplied by it                                 | 0.000001      |
 * | `counter` | `on`: it counts, and its growth in a second is the figure; `off` | `on`        |
 *
 * So as it stands, with `file = "/sys/class/powercap/intel-rapl:0/energy_uj"`, it says watts. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "starfarm_module.h"

struct power {
    const struct starfarm_host *host;
    char file[4096];
    char name[130];
    double scale;
    int counts;
    /* What it counted last, and when; 0 where that is not known. */
    double before;
    uint64_t before_us;
};

static void *create(const struct starfarm_host *host)
{
    struct power *power = calloc(1, sizeof *power);
    if (power) {
        power->host = host;
        strcpy(power->name, "power.watts");
        power->scale = 1e-6;
        power->counts = 1;
    }
    return power;
}

static int copy(char *to, size_t room, const char *value, char *why, size_t why_bytes)
{
    if (strlen(value) >= room) {
        snprintf(why, why_bytes, "a value has %zu bytes at most", room - 1);
        return -1;
    }
    strcpy(to, value);
    return 0;
}

static int set(void *stage, const char *key, const char *value, char *why, size_t why_bytes)
{
    struct power *power = stage;
    if (!strcmp(key, "file"))
        return copy(power->file, sizeof power->file, value, why, why_bytes);
    if (!strcmp(key, "name")) {
        if (strchr(value, '.'))
            return copy(power->name, sizeof power->name, value, why, why_bytes);
        snprintf(why, why_bytes, "`name` has a dot, as `power.watts`");
        return -1;
    }
    if (!strcmp(key, "scale")) {
        char *end;
        power->scale = strtod(value, &end);
        if (end != value && !*end && isfinite(power->scale))
            return 0;
        snprintf(why, why_bytes, "`scale` is a number");
        return -1;
    }
    if (!strcmp(key, "counter")) {
        power->counts = !strcmp(value, "on");
        if (power->counts || !strcmp(value, "off"))
            return 0;
        snprintf(why, why_bytes, "`counter` is `on` or `off`");
        return -1;
    }
    snprintf(why, why_bytes, "`power` has the settings `file`, `name`, `scale`, `counter`, not `%s`", key);
    return -1;
}

/* The number in the file; 0 where there is none. */
static int look(const char *file, double *number)
{
    char text[64], *end;
    int from = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = from < 0 ? -1 : read(from, text, sizeof text - 1);
    if (from >= 0)
        close(from);
    if (got <= 0)
        return 0;
    text[got] = 0;
    *number = strtod(text, &end);
    return end != text && isfinite(*number);
}

static void fired(void *stage, const char *const *timers, size_t count)
{
    struct power *power = stage;
    unsigned char bytes[160];
    struct starfarm_message message = { bytes, 0, sizeof bytes };
    uint64_t now_us = power->host->now_us(), since_us = power->before_us;
    double number, figure;
    (void)timers, (void)count;
    power->before_us = 0;
    if (!power->file[0] || !look(power->file, &number))
        return;
    if (power->counts) {
        double before = power->before;
        power->before = number;
        power->before_us = now_us;
        /* The first time, and where it began anew, nothing is known. */
        if (!since_us || now_us <= since_us || number < before)
            return;
        figure = (number - before) * power->scale / ((double)(now_us - since_us) * 1e-6);
    } else {
        figure = number * power->scale;
    }
    if (!starfarm_put_named(&message, power->name, figure))
        power->host->emit(0, message.bytes, message.used);
}

/* One output, `out`, which is number 0. */
static int edge_made(void *stage, const struct starfarm_hook *hook, char *why, size_t why_bytes)
{
    (void)stage;
    if (hook->side == STARFARM_OUTPUT && !strcmp(hook->name, "out"))
        return 0;
    snprintf(why, why_bytes, "`power` has one output, `out`, and no inputs");
    return -1;
}

static const struct starfarm_type types[] = {
    { .name = "power", .create = create, .destroy = free, .edge_made = edge_made, .set = set, .fired = fired },
};

const struct starfarm_table *starfarm_module(void)
{
    static const struct starfarm_table table = {
        .version = STARFARM_MODULE_VERSION, .types_count = 1, .name = "power", .types = types,
    };
    return &table;
}
